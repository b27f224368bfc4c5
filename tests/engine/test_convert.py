"""A SIF under its own name is whole, whichever way it was made, and an old one outlives a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackwright import convert, host
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.errors import ConvertError, DiskError, EngineError
from stackwright.runner import Runner


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=host.apt_mirror(runner))


@pytest.fixture(scope="module")
def labelled(runner: Runner, docker: Docker, tiny: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("labelled")
    (folder / "Dockerfile").write_text(f"FROM {tiny}\nLABEL org.stackwright.row=convert\nENV MARK=42\n")
    name = "stackwright/convert-test:1"
    done = runner(docker.command("buildx", "build", "--tag", name, folder))
    assert done.ok, done.stderr
    return name


@pytest.mark.parametrize("in_place", [True, False])
def test_it_opens_has_the_labels_and_runs(
    in_place: bool, labelled: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if not in_place:  # as with an engine whose folders cannot be read
        monkeypatch.setattr(convert, "layers", lambda *_: None)
    target = tmp_path / "x.sif"
    made = convert.to_sif(
        labelled, target, docker=docker, runner=runner, apptainer=apptainer, image_bytes=10**7
    )
    assert target.stat().st_size == made.bytes
    assert convert.labels(apptainer, target)["org.stackwright.row"] == "convert"
    done = convert.execute(apptainer, target, ("sh", "-c", "echo $MARK"), mounts=(), timeout=60)
    assert done.stdout.strip() == "42", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.sif"]


def test_a_failure_leaves_the_old_file(
    tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
) -> None:
    target = tmp_path / "x.sif"
    target.write_text("the one of yesterday")
    with pytest.raises((ConvertError, EngineError)):
        convert.to_sif(
            "stackwright/no-such-image:1", target, docker=docker, runner=runner, apptainer=apptainer,
            image_bytes=1,
        )  # fmt: skip
    assert target.read_text() == "the one of yesterday"
    assert [path.name for path in tmp_path.iterdir()] == ["x.sif"]


def test_a_sif_that_lost_a_label_is_not_given_out(
    labelled: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(convert, "labels", lambda *_: {"org.stackwright.row": "another"})
    with pytest.raises(ConvertError, match="lost the labels"):
        convert.to_sif(
            labelled, tmp_path / "x.sif", docker=docker, runner=runner, apptainer=apptainer, image_bytes=1
        )
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_conversion_left_is_removed(
    labelled: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
) -> None:
    (tmp_path / ".sif-killed").mkdir()
    (tmp_path / ".sif-killed" / "image.tar").write_text("half")
    convert.to_sif(
        labelled, tmp_path / "x.sif", docker=docker, runner=runner, apptainer=apptainer, image_bytes=1
    )
    assert [path.name for path in tmp_path.iterdir()] == ["x.sif"]


def test_too_little_disk_is_said_before_anything_is_done(
    labelled: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
) -> None:
    with pytest.raises(DiskError, match="the conversion needs"):
        convert.to_sif(
            labelled, tmp_path / "x.sif", docker=docker, runner=runner, apptainer=apptainer,
            image_bytes=10**18,
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_cannot_be_opened(tmp_path: Path, apptainer: Apptainer) -> None:
    (tmp_path / "x.sif").write_bytes(b"#!/usr/bin/env run-singularity\n" + bytes(4096))
    with pytest.raises(ConvertError):
        convert.labels(apptainer, tmp_path / "x.sif")


@pytest.fixture(scope="module", autouse=True)
def _no_image_is_left(docker: Docker) -> object:
    yield
    engine.remove(docker, "stackwright/convert-test:1")
