"""Small rows by an engine without root, as an ordinary user. `make rootless` starts one and runs this."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import small_project
from nightly_on_rows import project, work
from upstream_server import UpstreamServer

from stackwright.build import doctor, phases
from stackwright.build.sif import convert
from stackwright.core.model.night import State
from stackwright.engines import apptainer
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.probe import site_leaks
from stackwright.probe.outside import layers

pytestmark = [pytest.mark.engine, pytest.mark.rootless]


@pytest.fixture(autouse=True)
def _without_root(docker: Docker) -> None:
    assert os.geteuid() != 0 and docker.rootless, "make rootless"


@pytest.fixture
def root(tmp_path: Path, docker: Docker, tiny: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(phases, "BUILD_NEEDS", 10**9)  # small rows
    engine.tag(docker, tiny, small_project.BASE)
    yield small_project.make(tmp_path / "project", uuid4().hex)
    with engine.connected(docker) as client:
        for image in client.images.list():
            if any("/small-" in name for name in image.tags):
                client.images.remove(str(image.id), force=True)


def test_small_rows_are_built_read_back_and_converted(
    root: Path, upstream: UpstreamServer, docker: Docker, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = work(root)
    assert [row.state for row in first.rows] == [State.REBUILT] * 3
    assert [row.state for row in work(root).rows] == [State.UNCHANGED] * 3
    row = first.rows[0]
    image = f"stackwright/{row.row}:{row.key[:12]}"
    found = engine.inspect(docker, image)
    assert found
    read = layers.read(docker, image, found, site_leaks.search(settings.site(runner)))
    assert "/wheel" in {entry.path for layer in read for entry in layer.layer.entries}
    monkeypatch.delenv("STACKWRIGHT_APT_MIRROR")  # the small one has no apptainer
    program = apptainer.find(runner, docker, mirror=settings.apt_mirror(runner))
    sif = root / "small.sif"
    made = convert.to_sif(
        image, sif, docker=docker, runner=runner, apptainer=program, image_bytes=10**7,
    )  # fmt: skip
    assert made.bytes == sif.stat().st_size and sif.stat().st_uid == os.geteuid()
    said = program.exec(sif, ("/bin/cat", "/wheel"))
    assert "nvidia-nccl-cu12==" in said.stdout, said.stderr
    assert project(root).records.is_dir()


def test_doctor_says_what_it_is(docker: Docker, runner: Runner, tmp_path: Path) -> None:
    findings = {finding.name: finding for finding in doctor.examine(runner, tmp_path, os.environ)}
    assert findings["engine"].seen.startswith(f"{docker.title}, rootless, at unix://")
    if docker.builder:
        assert "no podman" not in findings["without root"].seen
        assert findings["builder"].seen.startswith("buildah version ")
