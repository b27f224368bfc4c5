"""A layer on a published image: pushed beside its parent, signed, and verified down to the row."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from attested import NOW, Published, TheSite
from tampering import Tampered

from stackwright.build.layer import image
from stackwright.core.errors import AttestError, PublishError, UsageError
from stackwright.core.layer.document import Added, Below, document
from stackwright.core.model.row import Check, Outcome, Package, Tier, Verdict, World
from stackwright.core.model.site import RegistryAddress
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.publish.attest.layers import chain
from stackwright.publish.attest.layers.push import Layered, Means, parent_there, push
from stackwright.publish.attest.oci_layout import Layout, image_of
from stackwright.publish.attest.source import opened
from stackwright.publish.attest.statements.statement import Kind

pytestmark = [pytest.mark.engine, pytest.mark.long]
NAME = "hpc/cuda12-torch"
ADDED = "opt/stack/lib/python3.13/site-packages/einops/__init__.py"
HIDES = "opt/stack/lib/python3.13/site-packages/nvidia/nccl/lib/.wh.libnccl.so.2"
PASSED = Verdict(world=World.DOCKER, checks=tuple(
    Check(id=f"{tier}.x", tier=tier, why="", outcome=Outcome.PASSED, detail="") for tier in Tier
))  # fmt: skip


def tar(*names: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return made.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class OnIt:
    """A layer that was pushed: ``copy`` is it, with all below it."""

    reference: str
    made: Layered
    copy: Path


@pytest.fixture(scope="module")
def means(the_site: TheSite, docker: Docker, runner: Runner) -> Means:
    address = RegistryAddress(host=the_site.server.address, repository="hpc", ca=the_site.server.ca)
    site = replace(the_site.settings, registry=address, signing_key=the_site.key)
    return Means(site=site, docker=docker, runner=runner, say=print)


def layered(docker: Docker, published: Published, *names: str, **said: Any) -> Layered:
    """Put a layer on the engine's image, which is the published one."""
    content, tag = tar(*names), f"stackwright-test/layered-{uuid4().hex[:12]}:1"
    below = published.small.record.image
    assert below
    made = image.put(docker, below.id, content, name=tag, label="{}", named=("einops==0.8.2",))
    engine.remove(docker, tag)
    parent = Below(row="cuda12-torch", key="", world="docker", id=below.id, digest=published.attached.image)
    new = Added(
        digest=made.diff, files=1, bytes=len(content), wanted=("einops",), there=(), pins="",
        new=(Package(name="einops", version="0.8.2"),),
    )  # fmt: skip
    told = document(parent, new, PASSED, image=made.id, started="2026-11-22T00:00:00Z")
    return Layered(config=made.config, layer=content, said={**told, **said})


@pytest.fixture(scope="module")
def on_it(
    the_site: TheSite, published: Published, docker: Docker, means: Means, attest_folder: Path
) -> Iterator[OnIt]:
    made = layered(docker, published, ADDED)
    reference = push(f"{the_site.server.address}/{NAME}:llm", made, means)
    folder = attest_folder / "layered"
    with opened(reference, site=lambda: means.site, oras=lambda: the_site.oras, say=print, keep=folder):
        yield OnIt(reference=reference, made=made, copy=folder)


def verified(the_site: TheSite, folder: Path, **asked: Any) -> chain.Chained:
    layout = Layout(folder=folder)
    wanted = chain.Asked(key=the_site.public, cosign=the_site.cosign, at=NOW, **asked)
    return chain.verify(layout, image_of(layout), wanted)


def test_the_chain_is_followed_to_the_row(the_site: TheSite, on_it: OnIt, published: Published) -> None:
    done = verified(the_site, on_it.copy, row="cuda12-torch")
    (above,) = done.above
    assert (above.parent, above.added) == (published.attached.image, {"einops": "0.8.2"})
    assert on_it.reference.endswith(above.image)
    assert done.row.record == published.small.record
    first, *_, last = chain.lines(done, the_site.public)
    assert first == f"{above.image}: a layer on {above.parent}, and no file of that is hidden"
    assert "known holes" in last
    assert chain.document(done, the_site.public)["layers_on_it"][0]["added"] == {"einops": "0.8.2"}


def test_an_image_of_a_row_is_verified_as_before(the_site: TheSite, published: Published) -> None:
    assert verified(the_site, published.copy).above == ()


def test_the_parents_blobs_are_not_sent_again(the_site: TheSite, on_it: OnIt, published: Published) -> None:
    layout = Layout(folder=on_it.copy)
    mine, parents = (
        [layer["digest"] for layer in layout.manifest(digest).document["layers"]]
        for digest in (image_of(layout), published.attached.image)
    )
    assert mine[:-1] == parents
    packed = layout.path(mine[-1], "").read_bytes()
    assert gzip.decompress(packed) == on_it.made.layer


@pytest.fixture
def changed(on_it: OnIt, the_site: TheSite, tmp_path: Path) -> Tampered:
    shutil.copytree(on_it.copy, tmp_path / "copy")
    return Tampered(folder=tmp_path / "copy", cosign=the_site.cosign, key=the_site.key)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"failed": ["link.import"]}, "checks of it failed"),
        ({"tiers": {"static": "passed"}}, "the tier link was not run with the layer"),
        ({"layer": {"digest": "sha256:0", "hides": []}}, "names other layers than its statement"),
        ({"layer": {"digest": "sha256:0", "hides": ["/x"]}}, "it hides files of its parent"),
        ({"image": "sha256:0"}, "its statement is of another image"),
        ({"taken_over": ["ledger.wheels"]}, "it takes over the proof of another image"),
        ({"taken_over": ["x"], "taken_from": {"image": "sha256:0"}}, "takes over the proof of another image"),
        ({"parent": {"digest": ""}}, "it names no published parent"),
        ({"parent": {"digest": "sha256:" + "0" * 64}}, "its parent sha256:000000000000… is not here"),
    ],
)
def test_a_statement_that_does_not_fit_is_refused(
    the_site: TheSite, changed: Tampered, lie: dict[str, Any], said: str
) -> None:
    changed.sign_again(Kind.LAYER, lambda told: {**told, **lie})
    with pytest.raises(AttestError, match=said):
        verified(the_site, changed.folder)


def test_a_statement_that_nobody_signed_is_not_believed(the_site: TheSite, changed: Tampered) -> None:
    changed.change_envelope(Kind.LAYER, lambda told: told.update(payload="e30="))
    with pytest.raises(AttestError, match="derived from cuda12-torch"):
        verified(the_site, changed.folder)


def test_a_layer_that_hides_nccl_is_refused(
    the_site: TheSite, published: Published, docker: Docker, means: Means, tmp_path: Path
) -> None:
    """By its own bytes, whatever the statement says that the site's key signed."""
    made = layered(docker, published, ADDED, HIDES)
    reference = push(f"{the_site.server.address}/{NAME}:hides", made, means)
    with (
        opened(
            reference, site=lambda: means.site, oras=lambda: the_site.oras, say=print, keep=tmp_path / "copy"
        ),
        pytest.raises(AttestError, match=r"takes .*libnccl\.so\.2.* of its parent away"),
    ):
        verified(the_site, tmp_path / "copy")


def test_a_layer_goes_beside_its_parent_alone(the_site: TheSite, on_it: OnIt, means: Means) -> None:
    with pytest.raises(PublishError, match="the parent is not in this repository"):
        parent_there(f"{the_site.server.address}/{NAME}:llm", "", means)  # asked before the layer is made
    with pytest.raises(PublishError, match="the parent is not in this repository"):
        push(f"{the_site.server.address}/hpc/elsewhere:1", on_it.made, means)
    with pytest.raises(UsageError, match="--push is to a tag"):
        push(on_it.reference, on_it.made, means)
