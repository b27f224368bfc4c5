"""What ``publish`` does with each image that is there by its digest and has no tag yet: have it signed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from stackwright import probe
from stackwright.attest import attach, keys
from stackwright.attest.access import to_registry
from stackwright.engines import oci
from stackwright.engines.docker import Docker
from stackwright.host import Site
from stackwright.project import Planned, Project
from stackwright.record import Record
from stackwright.runner import Runner


class Image(Protocol):
    @property
    def reference(self) -> str: ...


def before_tags(
    project: Project, site: Site, *, docker: Docker, runner: Runner, say: Callable[[str], None]
) -> Callable[[Image, Planned, Record], None] | None:  # fmt: skip
    """None where the site has no key: images are then published without statements."""
    if site.signing_key is None or site.registry is None:
        return None
    private, registry = site.signing_key, site.registry

    def attach_all(published: Image, row: Planned, record: Record) -> None:
        cosign, oras = (oci.find(name, runner, docker, mirror=site.mirror) for name in ("cosign", "oras"))
        facts = probe.gather(project.folder(row.recipe) / "facts" / "docker")
        offline = replace(cosign, offline=True)
        with (
            keys.loaded(private, offline, os.environ.get(keys.PASSWORD, "")) as key,
            to_registry(
                published.reference, site, oras, say=say, ca=registry.ca, plain=registry.plain
            ) as access,
        ):
            done = attach(published.reference, row, record, facts, key=key, cosign=offline, access=access)
        say(f"{record.row}: signed: {', '.join(kind.word for kind in done.new) or 'it was before'}")

    return attach_all
