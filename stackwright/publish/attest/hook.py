"""What ``publish`` does with each image that is there by its digest and has no tag yet: have it signed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from stackwright.core.model.record import Record
from stackwright.core.model.row import World
from stackwright.core.model.site import Site
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.engines.oci_tools import Name
from stackwright.host.project import Planned, Project
from stackwright.host.runner import Runner
from stackwright.probe import run
from stackwright.publish.attest import keys
from stackwright.publish.attest.attach import attach
from stackwright.publish.attest.oras import to_registry


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
        cosign, oras = (
            oci_tools.find(name, runner, docker, mirror=site.mirror) for name in (Name.COSIGN, Name.ORAS)
        )
        facts = run.gather(project.folder(row.recipe) / "facts" / World.DOCKER)
        offline = replace(cosign, offline=True)
        with (
            keys.loaded(private, offline, site.signing_password) as key,
            to_registry(
                published.reference, site, oras, say=say, ca=registry.ca, plain=registry.plain
            ) as access,
        ):
            done = attach(published.reference, row, record, facts, key=key, cosign=offline, access=access)
        say(f"{record.row}: signed: {', '.join(kind.word for kind in done.new) or 'it was before'}")

    return attach_all
