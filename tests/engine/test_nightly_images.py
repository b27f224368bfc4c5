"""Nights over a row that starts from images of a registry: asked by tag, pulled and built by digest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import small_project
from nightly_on_rows import project, work
from registry_server import RegistryServer, StartRegistry
from upstream_server import UpstreamServer

from stackwright.core.errors import SiteError
from stackwright.core.model.night import Kind, State
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.engines import docker as engine
from stackwright.engines.bases.table import ENSURE
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import Docker
from stackwright.host.project import cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.nightly import tags
from stackwright.nightly.words import text

UBUNTU, CUDA = "ubuntu:22.04", "nvidia/cuda:12.4.1-devel-ubuntu22.04"
AT = {UBUNTU: f"hub/library/{UBUNTU}", CUDA: f"hub/{CUDA}"}
pytestmark = pytest.mark.long

MATRIX = """\
include:
  - id: small-ubuntu
    provider: nvidia
    os: ubuntu-22.04
    python: "3.10"
    gcc: "12"
    cuda: "12.4"
    mpi: {flavour: openmpi, version: "4.1"}
    horovod: "0.28.1"
    torch: "2.6.0"
    gpu_arch: ["8.0"]
"""

Push = Callable[[str, str], None]
"""The image NAME:TAG of the registry becomes one that has a label ``which`` of this value."""


@pytest.fixture
def registry(start_registry: StartRegistry, monkeypatch: pytest.MonkeyPatch) -> RegistryServer:
    server = start_registry(tls=False, login=False)
    monkeypatch.setenv("STACKWRIGHT_IMAGE_MIRROR", f"{server.url}/hub")
    return server


@pytest.fixture
def push(registry: RegistryServer, runner: Runner, docker: Docker, tiny_tar: Path) -> Push:
    def push(image: str, which: str) -> None:
        name = f"{registry.address}/{AT[image]}"
        change = ("--change", f"LABEL which={which}", "--change", "ENV PATH=/bin")
        for words in (("import", *change, tiny_tar, name), ("push", "--quiet", name), ("rmi", name)):
            done = runner(docker.command(*words))
            assert done.ok, done.stderr

    push(UBUNTU, "old")
    push(CUDA, "old")
    return push


@pytest.fixture
def root(tmp_path: Path, docker: Docker, registry: RegistryServer) -> Iterator[Path]:
    made = small_project.make(tmp_path / "project", uuid4().hex)
    (made / "matrix.yaml").write_text(MATRIX)
    yield made
    with engine.connected(docker) as client:
        for image in client.images.list():
            names = (*image.tags, *image.attrs["RepoDigests"])
            if any(name.startswith((f"{registry.address}/", "stackwright/small-ubuntu:")) for name in names):
                client.images.remove(str(image.id), force=True)


def which(docker: Docker, image: str) -> str:
    found = engine.inspect(docker, image)
    assert found, image
    return str(found["Config"]["Labels"]["which"])


def test_a_tag_that_moved_rebuilds_the_row_and_the_morning_says_from_where_to_where(
    root: Path, upstream: UpstreamServer, registry: RegistryServer, push: Push, docker: Docker
) -> None:
    site = settings.site(Runner())
    old = tags.digest(site, UBUNTU)
    (first,) = work(root).rows
    assert first.state is State.REBUILT
    assert which(docker, f"stackwright/small-ubuntu:{first.key[:12]}") == "old"
    (same,) = work(root).rows
    assert same.state is State.UNCHANGED, "nothing moved"

    push(UBUNTU, "new")
    new = tags.digest(site, UBUNTU)
    assert new != old
    morning = work(root)
    (moved,) = morning.rows
    assert moved.state is State.REBUILT
    assert which(docker, f"stackwright/small-ubuntu:{moved.key[:12]}") == "new"
    (change,) = moved.changes
    assert (change.kind, change.name, change.old, change.new) == (Kind.BASE, UBUNTU, old, new)
    assert f"base {UBUNTU} {old} -> {new}\n      in small-ubuntu" in text(morning)


def test_what_was_resolved_is_what_is_built_though_the_tag_moves_meanwhile(
    root: Path, upstream: UpstreamServer, registry: RegistryServer, push: Push, docker: Docker
) -> None:
    morning = work(root)
    project_ = project(root)
    shutil.copytree(project_.out / "nightly" / morning.run / "locks", project_.locks)
    (row,) = plan(project_, cells(project_)).rows
    locked = dict(lockfile.read(project_.locks / "small-ubuntu.txt").base.images)
    assert set(locked) == {UBUNTU, CUDA}
    for _, name in PROVIDERS["nvidia"].wanted(row.stack):
        engine.remove(docker, name)
    push(UBUNTU, "new")
    said: list[str] = []
    means = BaseTools(docker=docker, runner=Runner(), site=settings.site(Runner()), say=said.append)
    images = ENSURE["nvidia"](row.stack, means)
    assert len(said) == len(images) == 2, "both had to be pulled again"
    assert [which(docker, name) for _, name in images] == ["old", "old"]
    assert engine.with_digest(docker, images[0][1]).endswith(f"@{locked[UBUNTU]}")
    assert registry.address not in "".join(name for _, name in images), "nothing of the site in a build"


@pytest.mark.parametrize("how", ["away", "without the tag"])
def test_no_answer_leaves_the_row_unresolved(
    how: str, root: Path, upstream: UpstreamServer, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tags, "PATIENCE", 1.0)
    if how == "away":
        registry.kill()
    (row,) = work(root).rows
    assert row.state is State.UNRESOLVED
    assert row.failure and row.failure.exit_code == SiteError.exit_code
    expected = "given up after" if how == "away" else f"{registry.address} has no "
    assert expected in row.failure.reason
    assert not list((root / "out").glob("small-ubuntu/*")), "nothing is built of what was not resolved"


def test_images_that_are_handed_in_are_not_asked_for(
    root: Path, upstream: UpstreamServer, registry: RegistryServer, docker: Docker, tiny: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("STACKWRIGHT_IMAGE_MIRROR", settings.HANDED_IN)
    missing = [name for name in (UBUNTU, CUDA) if not engine.image_exists(docker, name)]
    for name in missing:
        engine.tag(docker, tiny, name)
    try:
        (row,) = work(root).rows
    finally:
        for name in missing:
            engine.remove(docker, name)
    assert row.state is State.REBUILT, row.failure
    assert "hub/" not in registry.log.read_text()


def test_the_registry_is_asked_with_the_sites_ca_and_dockers_login(
    start_registry: StartRegistry, runner: Runner, docker: Docker, tiny_tar: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    shared = tmp_path / "data"
    plain = start_registry(tls=False, login=False, data=shared)
    name = f"{plain.address}/library/{UBUNTU}"
    for words in (("import", tiny_tar, name), ("push", "--quiet", name), ("rmi", name)):
        assert runner(docker.command(*words)).ok
    server = start_registry(data=shared)
    monkeypatch.setattr(tags, "PATIENCE", 1.0)
    monkeypatch.setenv("STACKWRIGHT_IMAGE_MIRROR", server.url)
    with pytest.raises(SiteError, match="certificate"):
        tags.digest(settings.site(runner), UBUNTU)
    monkeypatch.setenv("STACKWRIGHT_CA_BUNDLE", str(server.ca))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    with pytest.raises(SiteError, match="login"):
        tags.digest(settings.site(runner), UBUNTU)
    monkeypatch.setenv("DOCKER_CONFIG", str(server.docker_config(tmp_path / "docker")))
    assert tags.digest(settings.site(runner), UBUNTU).startswith("sha256:")
