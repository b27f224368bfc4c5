"""A row is published with what is signed of it, before it has a tag; where it cannot be, it gets none."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attested import TheSite
from publishing import BASE, ROOT, TODAY
from signed_image import SmallRow

from stackwright.core.errors import AttestError
from stackwright.core.model.matrix import Publish
from stackwright.core.model.site import RegistryAddress
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.host.project import Project
from stackwright.host.runner import Runner
from stackwright.probe.digest import checks_digest
from stackwright.publish import Publisher, publish_rows
from stackwright.publish.attest import hook, oras, verify
from stackwright.publish.attest.oci_layout import Layout, image_of
from stackwright.publish.publisher import access as way_to
from stackwright.publish.registry.client import Registry
from stackwright.records import files as record

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def host_tools() -> None:
    """Here skopeo, oras and cosign are in their image, on a host that has none of them."""


def files(facts: dict[str, Any]) -> dict[str, Any]:
    """As the probes leave them, file by file."""
    parts = {name: facts[name] for name in ("files", "system", "link", "image", "history")}
    parts |= {f"{kind}-{name}": one for kind in ("built", "gpu") for name, one in facts[kind].items()}
    return parts | {f"collective-{n.replace('/', '-')}": one for n, one in facts["collective"].items()}


@pytest.fixture
def publisher(
    small: SmallRow, the_site: TheSite, docker: Docker, runner: Runner, tmp_path: Path
) -> Publisher:
    """Of a project whose run left the small image, its record, and its facts."""
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path / "out")
    proven = replace(small.record, tools=(("checks", checks_digest(ROOT)),))
    record.begin(proven, project.records)
    folder = project.folder(small.row.recipe) / "facts" / "docker"
    folder.mkdir(parents=True)
    for name, document in files(small.facts).items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    assert proven.image
    engine.tag(docker, proven.image.id, proven.image.reference)
    address = RegistryAddress(host=the_site.server.address, repository=BASE, ca=the_site.server.ca)
    site = replace(the_site.settings, registry=address, signing_key=the_site.key)
    signed = hook.before_tags(project, site, docker=docker, runner=runner, say=print)
    assert signed
    return Publisher(
        project=project, scheme=Publish(), registry=Registry(way_to(address, ()), print), base=BASE,
        docker=docker, runner=runner, say=print, today=TODAY, before_tags=signed,
        skopeo=lambda: oci_tools.find(oci_tools.Name.SKOPEO, runner, docker),
    )  # fmt: skip


def test_what_is_published_is_verified_by_its_tag(
    publisher: Publisher, small: SmallRow, the_site: TheSite, tmp_path: Path
) -> None:
    (one,) = publish_rows(publisher, [small.row])
    by_tag = f"{the_site.server.address}/{BASE}:{small.row.stack.id}"
    with oras.to_registry(by_tag, the_site.settings, the_site.oras, say=print) as registry:
        copied = registry.copy(by_tag, tmp_path / "copy")
    image = image_of(copied, oras.COPIED)
    assert image == one.digest
    done = verify.verify(
        Layout(folder=tmp_path / "copy"), image, the_site.public, the_site.cosign, at=datetime.now(UTC),
        row=small.row.stack.id,
    )  # fmt: skip
    assert done.record.image and done.record.image.digest == one.digest


def test_what_cannot_be_signed_gets_no_tag(publisher: Publisher, small: SmallRow, the_site: TheSite) -> None:
    """The facts that the probes left are of another image."""
    by = replace(publisher, base="team/unsigned")
    path = by.project.folder(small.row.recipe) / "facts" / "docker" / "system.json"
    system = json.loads(path.read_text())
    system["python_packages"]["torch"] = "2.7.1"
    path.write_text(json.dumps(system))
    with pytest.raises(AttestError, match="nothing is signed: the facts are of another probing"):
        publish_rows(by, [small.row])
    assert the_site.server.tags("team/unsigned") == []


def test_without_a_key_nothing_is_signed(publisher: Publisher, the_site: TheSite) -> None:
    project, docker, runner = publisher.project, publisher.docker, publisher.runner
    site = the_site.settings
    assert hook.before_tags(project, site, docker=docker, runner=runner, say=print) is None
