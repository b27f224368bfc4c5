"""Records: what is written is what is read, and a reader never meets half a file."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import time
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackwright.core.errors import RecordError
from stackwright.core.model.record import (
    Component,
    Host,
    Image,
    Layer,
    Phase,
    Record,
    SifFile,
    Status,
    Step,
    Timing,
    flatten,
)
from stackwright.core.model.row import Check, Outcome, Tier, Verdict, World
from stackwright.records import files as records

ROOT = Path(__file__).parents[2]
HOST = Host(cpus=2, memory=24 * 10**9, machine="x86_64", kernel="6.1.0", os="Debian GNU/Linux 12")
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def sample(**changes: Any) -> Record:
    check = Check(
        id="nccl", tier=Tier.BUILT, why="one NCCL", outcome=Outcome.PASSED, detail="22703"
    )  # fmt: skip
    whole = Record(
        row="debian13-cuda12.4-torch2.8.0",
        key="a1" * 32,
        lock="b2" * 32,
        started="2026-03-01T12:00:00Z",
        declared=(("torch", "2.8.0"), ("mpi.version", "5.0.7")),
        found=(("torch", "2.8.0+cu128"),),
        image=Image(reference="x:1", id="sha256:" + "c3" * 32, bytes=6_000_000_000, base="trixie"),
        layers=(Layer(created_by="COPY --link", what="frameworks", bytes=4_000_000_000),),
        components=(Component(name="nvidia/cudnn", bytes=1_000_000_000),),
        sif=SifFile(path="out/x/x.sif", bytes=3_000_000_000, sha256="d4" * 32),
        timings=(Timing(phase=Phase.BUILD, seconds=600.5),),
        steps=(Step(name="[final 1/2] RUN true", seconds=1.5, cached=True),),
        verdicts=(Verdict(world=World.DOCKER, checks=(check,)),),
        tools=(("engine", "28.5.2"),),
        host=HOST,
    )
    return replace(whole, **changes)


def raw(**changes: Any) -> bytes:
    """A record's file with some values replaced by what this program would never write."""
    return json.dumps({**json.loads(records.dumps(sample())), **changes}).encode()


# -- the file --------------------------------------------------------------------------------------


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = records.write(sample(), tmp_path)
    assert path == tmp_path / "debian13-cuda12.4-torch2.8.0" / "20260301T120000Z-a1a1a1a1a1a1.json"
    assert records.load(path) == sample()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_names_and_versions_are_objects_in_the_file() -> None:
    content = json.loads(records.dumps(sample()))
    assert content["declared"] == {"torch": "2.8.0", "mpi.version": "5.0.7"}
    assert content["verdicts"][0]["checks"][0]["outcome"] == "passed"


def test_a_record_is_frozen_and_hashable() -> None:
    with pytest.raises(FrozenInstanceError):
        sample().row = "other"  # type: ignore[misc]
    assert hash(sample()) == hash(sample())


@given(st.text(), st.text(), st.integers(0, 10**15), st.floats(0, 1e9))
def test_any_text_survives(name: str, detail: str, size: int, seconds: float) -> None:
    record = sample(
        found=((name, detail),),
        components=(Component(name=name, bytes=size),),
        steps=(Step(name=detail, seconds=seconds),),
    )
    try:
        content = records.dumps(record)
    except RecordError:
        assert any("\ud800" <= letter <= "\udfff" for letter in name + detail)
    else:
        assert records._ADAPTER.validate_json(content, strict=True) == record


@pytest.mark.parametrize(
    "change",
    [
        {"row": "../../etc/passwd"},
        {"row": ".hidden"},
        {"row": ""},
        {"key": "abc"},
        {"lock": "Z" * 64},
        {"started": "yesterday"},
        {"started": "2026-03-01T12:00:00+01:00"},
        {"status": "fine"},
        {"sif": SifFile(path="/home/somebody/x.sif", bytes=1, sha256="d4" * 32)},
        {"sif": SifFile(path="out/../../x.sif", bytes=1, sha256="d4" * 32)},
        {"steps": (Step(name="x", seconds=-1),)},
        {"steps": (Step(name="x", seconds=float("nan")),)},
        {"components": (Component(name="x", bytes=-1),)},
    ],
)
def test_a_record_that_could_not_be_read_is_not_written(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        records.write(sample(**change), tmp_path)
    assert not any(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        records.dumps(sample())[:-200],
        raw(version=2),
        raw(key=5),
        raw(verdicts=[{"world": "docker", "checks": [{"id": "x"}]}]),
        raw(found=["torch"]),
        raw(image={"bytes": "6"}),
    ],
)
def test_a_damaged_file_is_named_with_the_next_step(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "20260301T120000Z-a1a1a1a1a1a1.json"
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        records.load(path)
    assert caught.value.place == str(path)
    assert caught.value.hint and caught.value.exit_code == 12
    assert len(caught.value.cause.splitlines()) == 1


def test_a_missing_file_and_a_folder_are_errors_too(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(RecordError):
            records.load(path)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        records.write(sample(), tmp_path / "file")


def test_load_all_passes_over_damage_and_says_so(tmp_path: Path) -> None:
    good = records.write(sample(), tmp_path)
    good.with_name("20260301T130000Z-a1a1a1a1a1a1.json").write_text("{")
    good.with_name(".draft.json").write_text("{")
    loaded = records.load_all(tmp_path)
    assert loaded.records == (sample(),)
    assert len(loaded.warnings) == 1 and "20260301T130000Z" in loaded.warnings[0]
    assert records.load_all(tmp_path / "absent") == records.Loaded(records=(), warnings=())


# -- which record ----------------------------------------------------------------------------------


def test_latest_is_the_newest_of_the_same_key(tmp_path: Path) -> None:
    row = sample().row
    twin = "a1" * 6 + "00" * 26
    for change in (
        {},
        {"started": "2026-03-02T12:00:00Z"},
        {"started": "2026-03-03T12:00:00Z", "key": "e5" * 32},
        {"started": "2026-03-04T12:00:00Z", "key": twin},
    ):
        records.write(sample(**change), tmp_path)
    (tmp_path / row / "20260305T120000Z-a1a1a1a1a1a1.json").write_text("half a rec")
    found = records.latest(tmp_path, row, "a1" * 32)
    assert found is not None and found.started == "2026-03-02T12:00:00Z"
    assert records.latest(tmp_path, row, "f6" * 32) is None
    assert records.latest(tmp_path, row, "*") is None
    assert records.latest(tmp_path, "none", "a1" * 32) is None


def test_a_run_goes_on_from_a_record_that_is_not_complete(tmp_path: Path) -> None:
    record = records.begin(sample(timings=()), tmp_path)
    record = records.timed(records.entered(record, Phase.BUILD), Phase.BUILD, 600)
    records.write(records.entered(record, Phase.PROBE_DOCKER), tmp_path)  # and here it is killed

    found = records.latest(tmp_path, record.row, record.key)
    assert found is not None and found.status is Status.INTERRUPTED and found.phase is Phase.PROBE_DOCKER
    assert found.seconds(Phase.BUILD) == 600 and found.seconds(Phase.PROBE_DOCKER) is None

    records.write(records.closed(found, Status.COMPLETE, at=NOON), tmp_path)
    assert len(records.load_all(tmp_path).records) == 1


def test_newest_keeps_one_record_per_row() -> None:
    old, new = sample(), sample(started="2026-03-02T12:00:00Z", key="e5" * 32)
    other = sample(row="another")
    assert records.newest([new, old, other]) == (other, new)


# -- growing ---------------------------------------------------------------------------------------


def test_phases_replace_what_they_were() -> None:
    record = records.timed(records.timed(sample(), Phase.SIF, 30.00049), Phase.BASE, 12)
    record = records.timed(record, Phase.BUILD, 1)
    assert [(timing.phase.value, timing.seconds) for timing in record.timings] == [
        ("base", 12), ("build", 1), ("sif", 30.0),
    ]  # fmt: skip
    again = records.judged(record, Verdict(world=World.DOCKER, checks=()))
    both = records.judged(again, Verdict(world=World.SIF, checks=()))
    assert [verdict.world for verdict in both.verdicts] == ["docker", "sif"]
    assert both.verdict("docker") == Verdict(world=World.DOCKER, checks=()) and both.verdict("moon") is None


def test_closing_is_in_universal_time_and_entering_opens_again() -> None:
    there = datetime(2026, 3, 1, 14, 30, 0, 999, tzinfo=timezone(timedelta(hours=2)))
    done = records.closed(sample(), Status.FAILED, at=there, reason="disk full", cause="disk-full")
    assert (done.finished, done.status, done.reason) == ("2026-03-01T12:30:00Z", Status.FAILED, "disk full")
    assert done.cause == "disk-full"
    again = records.entered(done, Phase.SIF)
    assert (again.finished, again.status, again.reason, again.cause) == (None, Status.INTERRUPTED, "", "")


def test_flatten_gives_each_value_one_name() -> None:
    row = {
        "frameworks": {"torch": "2.8.0"}, "keras": None, "mpi": {"flavour": "openmpi", "version": "5.0.7"},
        "gpu_arch": ("8.0", "9.0"), "test_on_gpu": False, "nccl_code": 22703,
    }  # fmt: skip
    assert flatten(row) == (
        ("torch", "2.8.0"), ("mpi.flavour", "openmpi"), ("mpi.version", "5.0.7"),
        ("gpu_arch", "8.0 9.0"), ("test_on_gpu", "false"), ("nccl_code", "22703"),
    )  # fmt: skip


def test_the_host_is_a_class_of_machine() -> None:
    host = records.this_host()
    assert host.cpus >= 1 and host.memory > 10**8 and host.os and host.kernel
    assert os.uname().nodename not in (host.os, host.kernel, host.machine)


# -- many writers, and death -----------------------------------------------------------------------


def _begin(folder: Path, finish: str, barrier: Any) -> None:
    barrier.wait()
    records.begin(sample(reason=finish), folder)


def test_runs_that_begin_in_the_same_second_each_have_a_file(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(6)
    children = [fork.Process(target=_begin, args=(tmp_path, str(n), barrier)) for n in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    loaded = records.load_all(tmp_path)
    assert not loaded.warnings
    assert sorted(record.reason for record in loaded.records) == [str(n) for n in range(6)]


def _write_for_ever(folder: Path, writer: int) -> None:
    """Grows and shrinks, so that a half-written file could not pass for a whole one."""
    for turn in range(10**9):
        steps = tuple(Step(name=f"step {n}", seconds=n) for n in range(turn % 7 * 100))
        second = f"2026-03-01T12:00:{turn % 5:02}Z"
        records.write(sample(steps=steps, started=second, reason=str(writer)), folder)


@pytest.mark.long
def test_a_writer_killed_at_any_moment_leaves_whole_files(tmp_path: Path) -> None:
    fork, dice = multiprocessing.get_context("fork"), random.Random(20)
    for turn in range(20):
        pair = [fork.Process(target=_write_for_ever, args=(tmp_path, turn)) for _ in range(2)]
        for child in pair:
            child.start()
        time.sleep(dice.uniform(0.02, 0.15))
        for child in pair:
            assert child.pid is not None and child.is_alive()
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        loaded = records.load_all(tmp_path)
        assert not loaded.warnings
    assert 1 <= len(loaded.records) <= 5


def test_a_record_is_not_begun_below_a_file(tmp_path: Path) -> None:
    (tmp_path / sample().row).touch()
    with pytest.raises(RecordError, match="cannot be written"):
        records.begin(sample(), tmp_path)


def test_the_check_for_half_files_can_fail(tmp_path: Path) -> None:
    """The same reader on a writer that is not atomic: it must complain."""
    path = records.write(sample(), tmp_path)
    path.write_bytes(path.read_bytes()[:700])
    assert records.load_all(tmp_path).warnings


# -- the schema ------------------------------------------------------------------------------------


def test_the_schema_in_the_docs_is_that_of_the_model() -> None:
    """To write it again: ``python -m stackwright.records.files > docs/record.schema.json``."""
    assert (ROOT / "docs" / "record.schema.json").read_text() == records.schema_text()


def test_each_field_is_explained_in_the_docs() -> None:
    text = (ROOT / "docs" / "record.md").read_text()
    described = set(re.findall(r"`(\w+)(?:\[\])?`", text))
    kinds = (Record, Image, Layer, Component, SifFile, Step,
             Timing, Host, Check)  # fmt: skip
    for kind in kinds:
        assert {field.name for field in fields(kind)} <= described, kind


def test_the_schema_takes_a_record_and_refuses_a_wrong_one() -> None:
    validator = jsonschema.Draft202012Validator(records.schema())
    validator.check_schema(records.schema())
    validator.validate(json.loads(records.dumps(sample())))
    for wrong in (raw(status="fine"), raw(found={"torch": 2}), raw(version=2), raw(key="abc")):
        assert not validator.is_valid(json.loads(wrong))
