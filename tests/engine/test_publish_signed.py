"""A row is published with what is signed of it, before it has a tag; where it cannot be, it gets none."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attested import TheSite
from publishing import BASE, ROOT, TODAY
from signed_image import SmallRow

from stackwright.core.errors import AttestError
from stackwright.core.model.matrix import Mark, PlatformTag, Publish
from stackwright.core.model.site import RegistryAddress
from stackwright.core.model.target import AMD64, ARM64, Platform
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.host.project import Project
from stackwright.host.runner import Runner
from stackwright.probe.digest import checks_digest
from stackwright.publish import Publisher, indexes, publish_rows
from stackwright.publish.attest import hook, oras, source, verify
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
    parts |= {f"{kind}-{name}": content for kind in ("built", "gpu") for name, content in facts[kind].items()}
    return parts | {
        f"collective-{n.replace('/', '-')}": content for n, content in facts["collective"].items()
    }


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
    (published,) = publish_rows(publisher, [small.row])
    by_tag = f"{the_site.server.address}/{BASE}:{small.row.stack.id}"
    with oras.to_registry(by_tag, the_site.settings, the_site.oras, say=print) as registry:
        copied = registry.copy(by_tag, tmp_path / "copy")
    image = image_of(copied, oras.COPIED)
    assert image == published.digest
    done = verify.verify(
        Layout(folder=tmp_path / "copy"), image, the_site.public, the_site.cosign, at=datetime.now(UTC),
        row=small.row.stack.id,
    )  # fmt: skip
    assert done.record.image and done.record.image.digest == published.digest


def test_the_image_of_a_platform_is_verified_by_a_tag_of_several(
    publisher: Publisher, small: SmallRow, the_site: TheSite
) -> None:
    """What the index says of an image is not believed: the image's own configuration is asked."""
    group = PlatformTag(tag="both", rows=(small.row.stack.id,), mark=Mark(line=1, column=1))
    by = replace(publisher, scheme=Publish(platforms=(group,)))
    (published,) = publish_rows(by, [small.row])
    address = f"{the_site.server.address}/{BASE}"
    with opened(the_site, f"{address}:both", AMD64) as (copied, image):
        assert image == published.digest
        done = verify.verify(copied, image, the_site.public, the_site.cosign, at=datetime.now(UTC))
    assert done.record.row == small.row.stack.id
    with pytest.raises(AttestError, match="several images") as caught, opened(the_site, f"{address}:both"):
        pass
    assert "--platform linux/amd64" in caught.value.hint
    with (
        pytest.raises(AttestError, match="an index with 0 images for linux/arm64"),
        opened(the_site, f"{address}:both", ARM64),
    ):
        pass
    manifest = by.registry.manifest(BASE, published.digest)
    assert manifest
    lie = indexes.index([indexes.entry("other", "other", manifest, ARM64)])
    by.registry.put_manifest(BASE, "lie", lie)
    for reference in (f"{address}:lie", f"{address}@{lie.digest}", published.reference):
        with (
            pytest.raises(AttestError, match="the image is for linux/amd64, and linux/arm64 was asked for"),
            opened(the_site, reference, ARM64),
        ):
            pass


def opened(
    the_site: TheSite, reference: str, platform: Platform | None = None
) -> AbstractContextManager[tuple[Layout, str]]:
    return source.opened(
        reference, site=lambda: the_site.settings, oras=lambda: the_site.oras, say=print, platform=platform
    )


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
