"""What the shards of a night handed over becomes one answer, in which no row of the matrix is missing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from command import call
from quiet_nights import NoProgram, no_site, proven, work
from rich.console import Console
from rows import ROOT

from stackwright.core.model.night import Morning, Pushed, State
from stackwright.host.project import Project, cells, plan
from stackwright.nightly import night, shards
from stackwright.nightly.night import Order, Publisher
from stackwright.records.history import builds, nights
from stackwright.records.history.merge import merge


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The shipped rows, all built and proven last night."""
    shutil.copy(ROOT / "matrix.yaml", tmp_path)
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    made = Project(root=ROOT, matrix=tmp_path / "matrix.yaml", out=tmp_path / "out")
    proven(made)
    return made


def yesterday(project: Project) -> None:
    """A night over all rows: moments are seconds, and tonight is not in the same one."""
    work(project)
    with builds.opened(project.out / shards.HISTORY) as db:
        db.execute("UPDATE run SET started = '2026-01-01T03:00:00Z'")


def shard(project: Project, *rows: str) -> Morning:
    """A night over some rows, handed over."""
    order = Order(
        cells=cells(project, rows), whole=False, locked=True,
        ask=lambda wanted: night.committed_locks(project, wanted), site=no_site,
    )  # fmt: skip
    path = project.out / "of-the-shard.sqlite"
    answer = night.work(project, order, history_path=path, runner=NoProgram(), console=Console(stderr=True))
    shards.hand_over(project, answer, path)
    return answer


def report(project: Project, capsys: pytest.CaptureFixture[str], *rows: str) -> str:
    where = ("--matrix", str(project.matrix), "--out", str(project.out))
    code, out, err = call(capsys, *where, "shards", "report", *rows)
    assert code == 0, err
    return out


def test_rows_of_a_shard_that_was_lost_and_rows_that_left_the_matrix_are_told(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    yesterday(project)
    document = yaml.safe_load(project.matrix.read_text())
    document["include"] = [row for row in document["include"] if row["id"] != "cuda11-legacy"]
    project.matrix.write_text(yaml.safe_dump(document))
    shard(project, "cuda12-torch", "cuda12-mpich")
    shard(project, "cuda13-torch", "cuda12-all", "nccl-override", "cuda12-llm", "cuda13-jax")
    said = report(project, capsys)
    assert "9 rows: 1 failed, 7 unchanged, 1 gone" in said
    assert "cuda11-classic: no shard reported it" in said
    assert "No longer in the matrix\n  cuda11-legacy\n" in said
    assert report(project, capsys) == said, "asked again, it says the same"
    with builds.opened(project.out / "history.sqlite") as db:
        known = nights.last_night(db, "matrix.yaml")
    assert (known["cuda11-classic"].state, known["cuda11-legacy"].state) == (State.FAILED, State.GONE)


def test_of_a_night_over_one_row_no_other_is_missing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    yesterday(project)
    shard(project, "cuda12-torch")
    assert "1 row: 1 unchanged" in report(project, capsys, "cuda12-torch")


def test_what_was_published_stands_although_the_clock_of_a_shard_is_ahead(project: Project) -> None:
    answer = shard(project, "cuda12-torch")
    handed = project.out / "nightly" / answer.run / shards.HISTORY
    with builds.opened(handed) as db:
        nights.finish(db, replace(answer, finished="2999-01-01T00:00:00Z"))
    path = project.out / "history.sqlite"
    merge(path, [handed])
    with builds.opened(path) as db:
        ahead = nights.morning_of(db, answer.run)
    row = plan(project, cells(project, ("cuda12-torch",))).rows
    found = shards.Handed(project=project, history_path=path, mornings=(ahead,), rows=row)
    pushed = Pushed(reference="r/a@1", digest="1", tags=("t",), sent_bytes=1, present_bytes=2)
    shards.publish_handed(found, Publisher(place="r/a", push=lambda _: {"cuda12-torch": pushed}))
    merge(path, [handed])  # as the job that reports does
    with builds.opened(path) as db:
        assert nights.morning_of(db, answer.run).rows[0].pushed == pushed


def test_the_page_shows_rows_whose_records_are_not_here(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A runner has the history of the nights before, and files of what it built itself alone."""
    yesterday(project)
    shard(project, *(cell.id for cell in cells(project)))
    shutil.rmtree(project.records)
    report(project, capsys)
    page = (project.out / "report" / "index.html").read_text()
    assert all(f'id="{cell.id}"' in page for cell in cells(project))
