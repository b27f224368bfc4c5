"""A SIF under its own name is whole, whichever way it was made, and an old one outlives a failure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from stackwright.build.sif import convert
from stackwright.core.errors import ConvertError, DiskError, EngineError
from stackwright.core.model.compression import compression
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.sif import layout
from stackwright.engines.sif.sign import file_sha256
from stackwright.engines.sif.squashfs import Way
from stackwright.host.runner import Runner
from stackwright.host.site import settings


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=settings.apt_mirror(runner))


@pytest.fixture(scope="module")
def labelled(runner: Runner, docker: Docker, tiny: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("labelled")
    (folder / "Dockerfile").write_text(f"FROM {tiny}\nLABEL org.stackwright.row=convert\nENV MARK=42\n")
    name = "stackwright/convert-test:1"
    done = runner(docker.command("buildx", "build", "--tag", name, folder))
    assert done.ok, done.stderr
    return name


@pytest.mark.parametrize("way", Way)
def test_it_opens_has_the_labels_and_runs(
    way: Way, labelled: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
) -> None:
    target, said = tmp_path / "x.sif", list[str]()
    made = convert.to_sif(
        labelled, target, docker=docker, runner=runner, apptainer=apptainer, image_bytes=10**7,
        conversion=convert.Conversion(ways=(way,), say=said.append),
    )  # fmt: skip
    assert made.way is way
    assert target.stat().st_size == made.bytes
    assert file_sha256(target) == made.sha256
    assert f"of the image {way}) needs up to 0." in said[0], "the disk at the peak is stated"
    assert convert.labels(apptainer, target)["org.stackwright.row"] == "convert"
    done = convert.execute(apptainer, target, ("sh", "-c", "echo $MARK"), mounts=(), timeout=60)
    assert done.stdout.strip() == "42", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.sif"]


def combinations() -> Iterator[Any]:
    """Each compression in one of the ways, and each way with a compression; all with each other at night."""
    codes = (("zstd:1", 6), ("zstd:19", 6), ("gzip:1", 1), ("lz4", 5), ("none", None))
    for (at, way), (number, (name, code)) in product(enumerate(Way), enumerate(codes)):
        marks = () if at == number % len(Way) else pytest.mark.nightly
        yield pytest.param((name, code), way, marks=marks, id=f"{way.name.lower()}-{name}")


@pytest.mark.parametrize(("compressor", "way"), combinations())
def test_the_compression_is_the_one_that_was_asked_for(
    compressor: tuple[str, int | None], way: Way, labelled: str, tmp_path: Path, runner: Runner,
    docker: Docker, apptainer: Apptainer,
) -> None:  # fmt: skip
    """By the file system's own head: kind of compressor, and whether data is compressed (squashfs_fs.h)."""
    target, (name, code) = tmp_path / "x.sif", compressor
    convert.to_sif(
        labelled, target, docker=docker, runner=runner, apptainer=apptainer, image_bytes=10**7,
        conversion=convert.Conversion(ways=(way,), compression=compression(name)),
    )  # fmt: skip
    with target.open("rb") as file:
        file.seek(layout.root_offset(target))
        head = file.read(96)
    kind, flags = (int.from_bytes(head[at : at + 2], "little") for at in (20, 24))
    uncompressed_data = bool(flags & 0b10)
    assert uncompressed_data == (name == "none")
    assert code is None or kind == code
    done = convert.execute(apptainer, target, ("sh", "-c", "echo $MARK"), mounts=(), timeout=60)
    assert done.stdout.strip() == "42", done.stderr


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
    with pytest.raises(DiskError, match=r"the conversion .* needs"):
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
