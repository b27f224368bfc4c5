"""Nights in which nothing changed, over the shipped matrix and 1,000 locked rows: nothing is started."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from command import call
from quiet_nights import ROWS, NoProgram, generated, no_site, proven, work
from report_samples import built, failed_definition
from rich.console import Console
from rows import ROOT

from stackwright.build import rows as session
from stackwright.build.rows import Session
from stackwright.core.errors import InternalError, PublishError, RecordError, StackwrightError
from stackwright.core.model.night import Failure, Morning, Pushed, State
from stackwright.core.model.record import Status
from stackwright.host.project import Project, cells, plan
from stackwright.nightly import night, report
from stackwright.nightly.night import Order
from stackwright.nightly.words import text
from stackwright.records import files as record


def test_over_the_shipped_matrix_nothing_is_started_and_nothing_pushed(tmp_path: Path) -> None:
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    proven(project)
    first = work(project)
    assert {row.state for row in first.rows} == {State.UNCHANGED}
    assert {row.state for row in work(project).rows} == {State.UNCHANGED}


def test_a_definition_file_that_failed_is_named_though_the_row_is_unchanged(tmp_path: Path) -> None:
    """With the key of this night: one of an earlier key says nothing about it."""
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    proven(project)
    one, other = plan(project, cells(project, ["cuda12-torch", "cuda12-mpich"])).rows
    record.write(failed_definition(row=one.stack.id, key=one.recipe.key), project.records)
    record.write(failed_definition(row=other.stack.id, key="0" * 64), project.records)
    morning = work(project)
    assert {row.state for row in morning.rows} == {State.UNCHANGED}
    assert {row.row: row.definition for row in morning.rows if row.definition} == {
        "cuda12-torch": "checks failed: 1"
    }
    assert "Definition file failed\n  cuda12-torch: checks failed: 1\n" in text(morning)
    assert report.document(morning)["exit_code"] == 0


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Morning:
    """The report of a night over ROWS rows. That a second night ends the same way: the shipped rows above."""
    project = generated(tmp_path_factory.mktemp("thousand"), ROWS)
    proven(project)
    return work(project)


@pytest.mark.long
def test_over_a_thousand_locked_rows_nothing_is_started(thousand: Morning) -> None:
    assert (len(thousand.rows), {row.state for row in thousand.rows}) == (ROWS, {State.UNCHANGED})
    assert "1000 rows: 1000 unchanged; upstream was not asked" in text(thousand)


def test_a_row_without_a_usable_lock_is_unresolved_and_stops_no_other(tmp_path: Path) -> None:
    project = Project(root=ROOT, matrix=tmp_path / "matrix.yaml", out=tmp_path / "out")
    project.matrix.write_text((ROOT / "matrix.yaml").read_text())
    project.locks.mkdir()
    for path in (ROOT / "locks").iterdir():
        (project.locks / path.name).write_bytes(path.read_bytes())
    proven(project)
    (project.locks / "cuda12-mpich.txt").write_text("damaged")
    (project.locks / "cuda12-all.txt").unlink()
    states = {row.row: row.state for row in work(project).rows}
    assert {row for row, state in states.items() if state is State.UNRESOLVED} == {
        "cuda12-mpich",
        "cuda12-all",
    }
    assert set(states.values()) == {State.UNRESOLVED, State.UNCHANGED}


def test_a_row_that_left_the_matrix_is_told_once(tmp_path: Path) -> None:
    project = generated(tmp_path, 4)
    proven(project)
    work(project)
    lines = project.matrix.read_text().splitlines(keepends=True)
    project.matrix.write_text("".join(lines[:-1]))
    gone = []
    for _ in range(2):
        time.sleep(1.1)  # which night was before is known by the second in which it began
        gone.append(work(project).of(State.GONE))
    assert [[row.row for row in rows] for rows in gone] == [["row003"], []]


def test_locks_of_rows_that_passed_replace_those_of_the_project(tmp_path: Path) -> None:
    """The answers are of another place than the project's own locks, which are as yet empty."""
    shipped = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    proven(shipped)
    (tmp_path / "matrix.yaml").write_text(shipped.matrix.read_text())
    here = replace(shipped, matrix=tmp_path / "matrix.yaml")
    answers = night.committed_locks(shipped, cells(shipped))
    order = Order(cells=cells(here), whole=True, ask=lambda cells: answers, site=no_site)
    asked = partial(
        night.work, here, history_path=tmp_path / "h.sqlite", runner=NoProgram(), console=Console(stderr=True)
    )  # fmt: skip
    asked(order)
    assert not here.locks.exists()
    asked(replace(order, update_locks=True))
    written = {path.name: path.read_bytes() for path in here.locks.iterdir()}
    assert written == {f"{row}.txt": (shipped.locks / f"{row}.txt").read_bytes() for row in answers}


def test_the_command_says_it_in_text_json_and_a_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proven(Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path))
    words = ("--out", str(tmp_path), "nightly", "--locked", "--summary", str(tmp_path / "summary.md"))
    code, out, err = call(capsys, *words, "--format", "json")
    assert (code, err) == (0, "")
    assert '"state": "unchanged"' in out
    assert "### Unchanged" in (tmp_path / "summary.md").read_text()
    (folder,) = (tmp_path / "nightly").glob("2*")
    assert {path.name for path in folder.iterdir()} == {"morning.json", "morning.md", "morning.txt"}


def test_where_nothing_can_be_written_that_is_said_and_is_no_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    code, _, err = call(capsys, "--out", str(tmp_path / "file" / "out"), "nightly", "--locked")
    assert code == RecordError.exit_code
    assert "cannot be written: Not a directory" in err
    assert "next: check the disk" in err


@pytest.mark.long
def test_a_summary_is_no_larger_than_a_service_shows(thousand: Morning, tmp_path: Path) -> None:
    """Of 1,000 rows that all failed, in a file that has something already. What is cut off is said."""
    summary = tmp_path / "summary.md"
    failure = Failure(phase="build", reason="x" * 1100, exit_code=7)
    rows = tuple(replace(row, state=State.FAILED, failure=failure) for row in thousand.rows)
    summary.write_text("before\n")
    report.write(replace(thousand, rows=rows), tmp_path / "report", summary)
    said = summary.read_text()
    assert 900_000 < len(said) < 2**20
    assert said.startswith("before\n## Night of")
    assert said.endswith("\n**More of it is in the file morning.md of the artifacts.**\n")
    assert {len(line) for line in said.splitlines() if line.startswith("- **row")} == {1158}
    assert (tmp_path / "report" / "morning.md").stat().st_size > 2**20


@pytest.mark.parametrize("image_is_gone", [True, False])
def test_a_row_that_was_built_again_only_to_be_published_is_told_as_rebuilt(
    image_is_gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a fresh machine of CI, after a night whose registry was away."""
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    proven(project)
    work(project)

    def made_again(*arguments: object, **options: object) -> Session:
        if image_is_gone:
            for old in record.load_all(project.records).records:
                later = replace(old, started="2100-01-01T02:00:00Z", finished="2100-01-01T02:10:00Z")
                record.write(later, project.records)
        return Session(records=())

    monkeypatch.setattr(session, "work_rows", made_again)
    pushed = Pushed(reference="r/a@1", digest="1", tags=("t",), sent_bytes=1, present_bytes=2)
    publisher = night.Publisher(place="r/a", push=lambda rows: {row.stack.id: pushed for row in rows})
    morning = work(project, publisher=publisher)
    told = {(row.state, "not in the registry" in row.why) for row in morning.rows}
    assert told == {(State.REBUILT, True) if image_is_gone else (State.UNCHANGED, False)}
    assert all(row.pushed for row in morning.rows)


def test_what_was_built_after_a_clock_was_set_back_is_not_told_as_an_image_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    for row in plan(project, cells(project)).rows:
        ahead = {"started": "2100-01-01T02:00:00Z", "finished": "2100-01-01T02:10:00Z"}
        record.write(built(row=row.stack.id, key="d" * 64, status=Status.COMPLETE, **ahead), project.records)

    def made(*arguments: object, **options: object) -> Session:
        now = record.utc(datetime.now(UTC))
        for row in plan(project, cells(project)).rows:
            new = built(row=row.stack.id, key=row.recipe.key, status=Status.COMPLETE)
            record.write(replace(new, started=now, finished=now), project.records)
        return Session(records=())

    monkeypatch.setattr(session, "work_rows", made)
    morning = work(project)
    assert {row.state for row in morning.rows} == {State.REBUILT}
    assert "not rebuilt" not in text(morning)


def test_what_keeps_all_rows_from_the_registry_is_told_of_each_and_ends_no_night(tmp_path: Path) -> None:
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    rows = plan(project, cells(project)).rows[:2]

    def refusing(error: Exception) -> dict[str, Pushed | StackwrightError]:
        def push(_: object) -> NoReturn:
            raise error

        return night.Publisher(place="host/images", push=push).pushed(rows)

    away = PublishError("it is away")
    assert refusing(away) == {row.stack.id: away for row in rows}
    defects = refusing(KeyError("layers"))
    assert set(defects) == {row.stack.id for row in rows}
    assert all(isinstance(defect, InternalError) and "layers" in defect.cause for defect in defects.values())
    assert night.Publisher(place="host/images", push=lambda _: {}).pushed(()) == {}
