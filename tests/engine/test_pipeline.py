"""Killed at any moment, or started twice at once, a run loses nothing and corrupts nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import work_on_row
from work_on_row import KEY, ROOT, STEPS, job

from stackwright.build import row
from stackwright.core.model.compression import DEFAULT
from stackwright.core.model.record import Phase, SifFile, Status
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.probe.digest import checks_digest
from stackwright.records import files as record

FEW, MORE = 2, 10
CHILD = [sys.executable, work_on_row.__file__]


def start(out: Path, salt: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CHILD, str(out), salt], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def salt() -> str:
    """The engine remembers the steps of yesterday's tests: these are new to it."""
    return uuid4().hex


@pytest.fixture(autouse=True)
def _no_image_is_left(docker: Docker) -> Iterator[None]:
    yield
    engine.remove(docker, f"stackwright/pipeline-test:{KEY[:12]}")


@pytest.mark.long
@pytest.mark.parametrize("kills", [FEW, pytest.param(MORE, marks=pytest.mark.nightly)])
def test_killed_at_random_moments_it_goes_on_from_what_was_finished(
    kills: int, tmp_path: Path, salt: str
) -> None:
    chance = random.Random(salt)
    for _ in range(kills):
        child = start(tmp_path, salt)
        time.sleep(chance.uniform(0.3, 2.2))
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert record.load_all(tmp_path / "records").warnings == ()
    last = start(tmp_path, salt)
    assert last.wait(timeout=120) == 0, last.stderr.read() if last.stderr else ""
    loaded = record.load_all(tmp_path / "records")
    assert loaded.warnings == ()
    (newest,) = record.newest(loaded.records)
    assert newest.status is Status.COMPLETE
    assert newest.image
    steps = [step for step in newest.steps if salt in step.name]
    assert len(steps) == STEPS


@pytest.mark.long
def test_two_at_once_make_one_record_and_one_image(tmp_path: Path, salt: str) -> None:
    children = [start(tmp_path, salt) for _ in range(2)]
    told = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], told
    loaded = record.load_all(tmp_path / "records")
    assert len(loaded.records) == 1
    assert loaded.records[0].status is Status.COMPLETE
    assert any("another run works on this row" in text for text in told)


def test_a_second_run_builds_nothing_and_an_image_that_is_gone_is_built_again(
    tmp_path: Path, salt: str, docker: Docker
) -> None:
    wanted = (Phase.BASE, Phase.BUILD)
    work = job(tmp_path, salt)
    first = row.work(work, wanted)
    assert row.work(work, wanted) == first
    assert first.image
    engine.remove(docker, first.image.reference)
    again = row.work(work, wanted)
    assert again.image
    assert engine.image_exists(docker, again.image.reference)
    assert len(record.load_all(tmp_path / "records").records) == 2


def test_an_image_that_other_checks_judged_is_not_built_again(
    tmp_path: Path, salt: str, docker: Docker
) -> None:
    """Its build cache may be gone, and nothing of the image is other than it was."""
    wanted, work = (Phase.BASE, Phase.BUILD), job(tmp_path, salt)
    first = row.work(work, wanted)
    (tmp_path / "one.sif").write_bytes(b"sif")
    sif = SifFile(path=f"{tmp_path.name}/one.sif", bytes=3, sha256="d" * 64, compression=DEFAULT.name)
    tools = {**dict(first.tools), "docker": "20.0", "checks": "0" * 12}
    former = replace(first, sif=sif, tools=tuple(tools.items()))
    record.write(former, work.project.records)
    again = row.work(work, wanted)
    assert again.started != first.started and record.load(record.path_of(former, work.project.records))
    assert (again.image, again.layers, again.steps) == (first.image, first.layers, first.steps)
    assert not any(step.cached for step in again.steps if salt in step.name)
    assert {timing.run for timing in again.timings} == {first.started}
    assert again.sif == sif and again.verdicts == ()
    assert dict(again.tools) == {**tools, "checks": checks_digest(ROOT)}
    assert row.work(work, wanted) == again
    record.write(replace(again, tools=former.tools), work.project.records)
    (tmp_path / "one.sif").unlink()
    assert row.work(work, wanted).sif is None


def test_other_checks_and_another_image_of_the_name_build_it_again(
    tmp_path: Path, salt: str, docker: Docker
) -> None:
    wanted, work = (Phase.BASE, Phase.BUILD), job(tmp_path, salt)
    first = row.work(work, wanted)
    assert first.image
    others = tuple({**dict(first.tools), "checks": "0" * 12}.items())
    record.write(replace(first, tools=others), work.project.records)
    base = first.image.base.partition("@")[0]
    engine.tag(docker, base, first.image.reference)
    again = row.work(work, wanted)
    assert again.image == first.image and again.run_of(Phase.BUILD) == again.started
