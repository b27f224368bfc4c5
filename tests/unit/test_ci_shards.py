"""Which rows share a job: told from the rendered files, and from how long records say that a step took."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from rows import ROOT, SOURCES, stack

from stackwright.core.model.record import Record
from stackwright.core.model.row import Recipe
from stackwright.core.render.dockerfile import render
from stackwright.core.render.instructions import instructions
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.nightly.ci.estimates import FIRST_GUESS, Work, works
from stackwright.nightly.ci.shards import MOST_JOBS, OTHER_JOBS, Shard, seconds, shards
from stackwright.records import files as record
from stackwright.records.report import sharing

RESULTS = ROOT / "docs" / "results" / "2026-11-22"
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [record.load(path) for path in sorted(RESULTS.glob("*.json"))]


@pytest.fixture(scope="module")
def shipped(records: list[Record]) -> tuple[Planned, ...]:
    """The rows that there were on that day."""
    known = {run.row for run in records}
    return tuple(row for row in plan(PROJECT, cells(PROJECT)).rows if row.stack.id in known)


def identities(files: dict[str, bytes]) -> list[str]:
    recipe = Recipe(id="x", key="0" * 64, files=tuple(files.items()))
    return [instruction.identity for instruction in instructions(recipe)]


def dockerfile(*lines: str, **files: bytes) -> dict[str, bytes]:
    return {"Dockerfile": "\n".join(lines).encode(), **files}


# -- instructions ----------------------------------------------------------------------------------


def test_as_many_are_shared_as_buildkit_said_of_the_real_run(
    shipped: tuple[Planned, ...], records: list[Record]
) -> None:
    told = sharing.sharing(records)
    found = [instruction.identity for row in shipped for instruction in instructions(row.recipe)]
    assert (len(found), len(set(found))) == (told.steps, told.distinct)


def test_they_are_numbered_as_buildkit_does(shipped: tuple[Planned, ...], records: list[Record]) -> None:
    real = next(run for run in records if run.row == "cuda13-torch")
    row = next(row for row in shipped if row.stack.id == "cuda13-torch")
    shown = {step.name.split("/")[0] for step in real.steps if " FROM " not in step.name}
    assert {f"[{instruction.stage} {instruction.number}" for instruction in instructions(row.recipe)} <= shown


@pytest.mark.parametrize(
    ("name", "same"),
    [("wanted.txt", False), ("other.txt", True)],
)
def test_a_file_that_is_read_makes_another_instruction(name: str, same: bool) -> None:
    lines = ("FROM x AS a", "RUN --mount=type=bind,source=wanted.txt,target=/w cat /w")
    files = {"wanted.txt": b"1", "other.txt": b"1"}
    assert (
        identities(dockerfile(*lines, **files)) == identities(dockerfile(*lines, **{**files, name: b"2"}))
    ) is same


def test_what_comes_after_another_instruction_is_another_one() -> None:
    first = identities(dockerfile("FROM x AS a", "RUN one", "RUN two"))
    other = identities(dockerfile("FROM x AS a", "ENV A=1", "RUN one", "RUN two"))
    assert not set(first) & set(other)


def test_a_stage_that_is_copied_from_counts() -> None:
    lines = ("FROM x AS final", "COPY --from=made /a /a")
    first = identities(dockerfile("FROM x AS made", "RUN one", *lines))
    other = identities(dockerfile("FROM x AS made", "RUN two", *lines))
    assert first[-1] != other[-1]


def test_the_base_is_what_its_argument_says() -> None:
    first, other = (
        identities(dockerfile(f"ARG BASE={base}", "FROM ${BASE} AS a", "RUN one")) for base in ("x", "y")
    )
    assert first != other


# -- minutes ---------------------------------------------------------------------------------------


def test_a_row_that_was_measured_takes_what_it_took(
    shipped: tuple[Planned, ...], records: list[Record]
) -> None:
    row = next(row for row in shipped if row.stack.id == "cuda12-torch")
    work = works([row], records)[0]
    assert seconds([work]) == pytest.approx(322 + 16 + 16 + 18 + 246, abs=40)  # stages in parallel: 246 s


def test_a_row_that_was_never_built_is_told_from_the_others(records: list[Record]) -> None:
    row = stack(id="new-row")
    work = works([Planned(stack=row, recipe=render(row, SOURCES))], records)[0]
    assert 300 < seconds([work]) < 1200


def test_without_any_record_each_step_counts_the_same(shipped: tuple[Planned, ...]) -> None:
    assert {took for work in works(shipped, []) for took in work.shared.values()} == {FIRST_GUESS}


def test_what_was_in_the_cache_tells_nothing(shipped: tuple[Planned, ...], records: list[Record]) -> None:
    cached = [
        replace(run, steps=tuple(replace(step, cached=True, seconds=0.0) for step in run.steps))
        for run in records
    ]
    assert {took for work in works(shipped, cached) for took in work.shared.values()} == {FIRST_GUESS}


# -- shards ----------------------------------------------------------------------------------------


def rows_of(found: tuple[Shard, ...]) -> list[tuple[str, ...]]:
    return [shard.rows for shard in found]


def test_the_shipped_rows_that_share_dear_stages_stay_together(
    shipped: tuple[Planned, ...], records: list[Record]
) -> None:
    found = rows_of(shards(works(shipped, records), minutes=30))
    assert any({"cuda12-torch", "nccl-override"} <= set(rows) for rows in found), "the same PyTorch"
    assert any({"cuda12-all", "cuda12-llm"} <= set(rows) for rows in found), "the same toolchain"
    assert sorted(row for rows in found for row in rows) == sorted(row.stack.id for row in shipped)


@cache
def thousand() -> tuple[Work, ...]:
    return tuple(
        Work(
            row=f"row{number}",
            own=90,
            shared={
                f"base{number % 5}": 4,
                f"toolchain{number % 20}": 120,
                f"frameworks{number % 100}": 100,
                f"horovod{number % 500}": 180,
                f"final{number}": 10,
            },
        )
        for number in range(1000)
    )


def test_a_thousand_rows_fit_into_the_jobs_that_there_may_be() -> None:
    found = shards(thousand(), minutes=10)
    assert len(found) + OTHER_JOBS <= MOST_JOBS
    assert Counter(row for shard in found for row in shard.rows) == Counter(work.row for work in thousand())
    assert max(shard.minutes for shard in found) <= 1.5 * min(shard.minutes for shard in found)


def test_a_thousand_rows_hardly_do_anything_twice() -> None:
    found = shards(thousand(), minutes=60)
    once = seconds(thousand())
    by_row = {work.row: work for work in thousand()}
    apart = sum(seconds([by_row[row] for row in shard.rows]) for shard in found)
    alone = sum(seconds([work]) for work in thousand())
    assert once <= apart < once + 0.25 * (alone - once)


def test_the_order_of_the_rows_does_not_matter() -> None:
    mixed = list(thousand())
    random.Random(5).shuffle(mixed)
    assert shards(mixed, minutes=60) == shards(thousand(), minutes=60)


def test_rows_with_nothing_in_common_fill_jobs_as_well() -> None:
    alone = [Work(row=f"row{number}", own=60, shared={f"step{number}": 540}) for number in range(12)]
    found = shards(alone, minutes=30)
    assert [shard.minutes for shard in found] == [30, 30, 30, 30]


def test_rows_that_are_alike_are_parted_where_they_take_too_long() -> None:
    alike = [Work(row=f"row{number}", own=600, shared={"all": 600}) for number in range(8)]
    assert [len(shard.rows) for shard in shards(alike, minutes=50)] == [4, 4]


def test_a_row_that_takes_longer_than_a_shard_may_is_one() -> None:
    found = shards([Work(row="long", own=9000, shared={}), Work(row="short", own=60, shared={})], minutes=30)
    assert rows_of(found) == [("long",), ("short",)]


def test_no_rows_make_no_shards() -> None:
    assert shards([], minutes=30) == ()
