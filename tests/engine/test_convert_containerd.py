"""An engine with containerd's store of images, as new ones have it: the same files, the disk told right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import work_on_row
from own_engine import TINY, StartEngine

from bench import contents
from stackwright.build import row
from stackwright.build.sif import convert
from stackwright.core.model.compression import compression
from stackwright.core.model.record import Phase
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.engines import apptainer
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.engines.sif import squashfs
from stackwright.engines.sif.squashfs import Squashing, Way
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = [pytest.mark.engine, pytest.mark.long]
MADE = "stackwright-test/in-containerds-store:1"
MEGABYTES = 60
ZEROS = f"dd if=/dev/zero of=/zeros bs=1048576 count={MEGABYTES}"
STORE = {"features": {"containerd-snapshotter": True}, "storage-driver": "overlayfs"}
OPEN = (Way.MOUNTED, Way.STREAM, Way.ARCHIVE)


@pytest.fixture
def own(start_engine: StartEngine, docker: Docker, runner: Runner, tmp_path: Path) -> Docker:
    """With the image of Apptainer, and one of which little is left when it is packed."""
    apptainer.find(runner, docker, mirror=settings.apt_mirror(runner))
    own = start_engine(STORE).docker
    program = engine.save(docker, runner, apptainer.IMAGE, tmp_path / "apptainer.tar")
    text = f"FROM {TINY}\nLABEL a=b\nRUN {ZEROS}\n"
    (tmp_path / "Dockerfile").write_text(text + "RUN touch /x && echo gone > /gone\nRUN busybox rm /gone\n")
    for words in (
        ("load", "--input", program),
        ("buildx", "build", "--network=none", "--tag", MADE, "--file", tmp_path / "Dockerfile", tmp_path),
    ):
        done = runner(own.command(*words))
        assert done.ok, done.stderr
    program.unlink()
    return own


def test_the_same_file_by_every_way_and_no_more_disk_than_is_stated(
    own: Docker, runner: Runner, tmp_path: Path
) -> None:
    size, found = engine.size(engine.layers(own, MADE)), engine.inspect(own, MADE)
    assert size >= MEGABYTES * 2**20
    assert found and found["Size"] < size / 4, "its own answer is of packed layers: that trap is gone"
    program = apptainer.find(runner, own)
    none = compression("none")
    task = Squashing(
        docker=own, runner=runner, apptainer=program, image=MADE, found=found, folder=tmp_path,
        compression=none, timeout=600,
    )  # fmt: skip
    assert tuple(way for way in Way if squashfs.can(task, way)) == OPEN
    of: dict[Way, dict[str, contents.Entry]] = {}
    for way in OPEN:
        target, said = tmp_path / way.name / "x.sif", list[str]()
        made = convert.to_sif(
            MADE, target, docker=own, runner=runner, apptainer=program, image_bytes=size,
            conversion=convert.Conversion(ways=(way,), compression=none, say=said.append),
        )  # fmt: skip
        assert made.bytes <= convert.needed(way, size, none)
        of[way] = contents.of_sif(own, target)
        differing = contents.differences(of[OPEN[0]], of[way])
        assert [difference for difference in differing if difference.what != "time"] == []
    assert {"zeros", "x"} <= set(of[Way.ARCHIVE])
    assert "gone" not in of[Way.ARCHIVE]


def test_a_record_has_the_size_of_the_files(start_engine: StartEngine, tmp_path: Path) -> None:
    """What a conversion claims of the disk is reckoned from it."""
    own = start_engine(STORE).docker
    job = replace(work_on_row.job(tmp_path, "size"), engine=own)
    for _, name in PROVIDERS[job.row.stack.provider].wanted(job.row.stack):
        engine.tag(own, TINY, name)
    text = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}} AS final\nRUN --network=none {ZEROS}\n"
    recipe = replace(job.row.recipe, files=(("Dockerfile", text.encode()),))
    done = row.work(replace(job, row=replace(job.row, recipe=recipe)), (Phase.BUILD,))
    assert done.image
    assert done.image.bytes >= MEGABYTES * 2**20
