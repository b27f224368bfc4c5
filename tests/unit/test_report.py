"""Reports for a terminal and for CI: what could not run is never shown as passed."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from report_samples import NO_GPU, all_passed, broken, built, rejected, verdict
from rich.console import Console

from stackwright.core.model.record import Phase, Record, Status
from stackwright.core.model.row import Outcome, Tier, Verdict, World
from stackwright.records.files import dumps
from stackwright.records.report.table import MARKS, counts, table
from stackwright.records.report.wording import State, agrees, clean, duration, size, state, tier_cells


def shown(*records: Record, plain: bool = False, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=not plain, color_system=None)
    console.print(table(records, [rejected()], plain=plain))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# -- what is said of a row ---------------------------------------------------------------------------


def test_the_samples_are_records() -> None:
    for record in (built(), broken(), all_passed()):
        dumps(record)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (all_passed(), State.PROVEN),
        (built(), State.PARTLY),
        (broken(), State.FAILED),
        (built(verdicts=()), State.UNPROVEN),
        (built(verdicts=(verdict("docker"),)), State.PARTLY),
        (built(status=Status.INTERRUPTED), State.INTERRUPTED),
        (built(status=Status.FAILED, verdicts=()), State.FAILED),
        (replace(broken(), status=Status.COMPLETE), State.FAILED),
    ],
)
def test_the_state_of_a_row(record: Record, expected: State) -> None:
    assert state(record) is expected


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("world", ["docker", "sif"])
def test_one_check_that_could_not_run_keeps_a_row_from_being_proven(tier: Tier, world: str) -> None:
    def without(judged: Verdict) -> Verdict:
        hit = judged.world == world
        checks = (
            replace(check, outcome=Outcome.NOT_RUN, detail="") if hit and check.tier is tier else check
            for check in judged.checks
        )
        return replace(judged, checks=tuple(checks))

    record = replace(all_passed(), verdicts=tuple(without(judged) for judged in all_passed().verdicts))
    assert state(record) is State.PARTLY
    cell = next(cell for cell in tier_cells(record, world) if cell.tier is tier)
    assert cell.outcome is Outcome.NOT_RUN and cell.reason


@pytest.mark.parametrize(
    ("record", "world", "reason"),
    [
        (built(), "docker", NO_GPU),
        (built(verdicts=(Verdict(world=World.DOCKER, checks=()),)), "docker",
         "no check of this tier was asked for"),
        (built(verdicts=(), sif=None), "sif", "no SIF was made"),
        (built(verdicts=()), "docker", "this world was not probed"),
        (broken(), "sif", "the run failed in the phase probe docker"),
        (built(verdicts=(), status=Status.INTERRUPTED, phase=Phase.BUILD), "docker",
         "the run was interrupted in the phase build"),
    ],
)  # fmt: skip
def test_a_tier_that_did_not_run_has_a_reason(record: Record, world: str, reason: str) -> None:
    cell = tier_cells(record, world)[-1]
    assert (cell.outcome, cell.reason) == (Outcome.NOT_RUN, reason)


@pytest.mark.parametrize(
    ("declared", "found", "same"),
    [
        ("12.4", "12.4", True), ("12.4", "12.4.131", True), ("12.4", "12.41", False), ("12.4", "12", True),
        ("2.6.0", "2.6.0+cu124", True), ("2.6.0", "2.6.1", False), ("", "2.6.1", False),
        ("8.0 9.0", "9.0 8.0", True), ("8.0 9.0", "8.0", False), ("13", "130", False),
    ],
)  # fmt: skip
def test_a_declared_version_agrees_with_a_more_exact_one(declared: str, found: str, same: bool) -> None:
    assert agrees(declared, found) is same


def test_units() -> None:
    assert [size(count) for count in (5_860_000_000, 419_000_000, 99_000_000, 1_204)] == [
        "5.9 GB", "419 MB", "99 MB", "1 kB",
    ]  # fmt: skip
    assert [duration(seconds) for seconds in (0.04, 9.94, 59.4, 59.6, 822.7, 3599.7, 3725)] == [
        "0.0 s", "9.9 s", "59 s", "1 min 00 s", "13 min 43 s", "1 h 00 min", "1 h 02 min",
    ]  # fmt: skip


# -- the terminal ------------------------------------------------------------------------------------


def test_the_table_marks_each_tier_in_both_worlds() -> None:
    text = shown(built(), broken())
    expected = [Outcome.PASSED, Outcome.FAILED, Outcome.PASSED, Outcome.PASSED, Outcome.NOT_RUN]
    docker = next(line for line in text.splitlines() if "torch2.8.0" in line)
    assert re.findall(f"[{''.join(MARKS.values())}]", docker) == [MARKS[outcome] for outcome in expected]
    assert text.count("5.9 GB") == 2 and "13 min 43 s" in text
    assert f"not run: gpu in docker and sif: {NO_GPU}" in text
    assert "rejected by one-cuda" in text and "nearest that works: debian13-cuda12.8" in text


def test_the_plain_table_says_it_in_ascii_words() -> None:
    text = shown(built(), broken(), plain=True)
    assert "failed" in text and "not run" in text and "passed" in text
    assert text.isascii()


def test_the_newest_record_of_each_row_is_counted() -> None:
    records = [built(started="2026-03-01T02:00:00Z", status=Status.FAILED), built(), broken()]
    assert counts(records) == "2 rows: 1 partly proven, 1 failed"
    assert counts([]) == "0 rows: nothing was built"


def test_a_failed_check_is_told_below_the_table() -> None:
    assert "failed: docker link link.one-nccl: 2 files are mapped:" in shown(broken())


def test_a_name_cannot_steer_the_terminal() -> None:
    evil = built(row="x\x1b[31m[red]y", reason="a\x1b]0;title\x07\nb", status=Status.FAILED)
    for text in (shown(evil), shown(evil, plain=True)):
        assert "\x1b" not in text.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
        assert "\x07" not in text and "[red]y" in text
    assert clean("a\u202eb\x00c\n d") == "a b c d"
