"""The history is one file that any tool opens, and that merges without loss."""

from __future__ import annotations

import itertools
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import call
from histories import a_night, filled
from report_samples import broken, built
from rows import ROOT

from stackwright.core.errors import RecordError
from stackwright.core.model.night import Input, Kind, Pushed, RowNight, State
from stackwright.core.model.record import Status
from stackwright.records.history import builds, nights, show
from stackwright.records.history.merge import merge
from stackwright.records.history.schema import APPLICATION, MIGRATIONS, TABLES


def content(path: Path) -> dict[str, list[Any]]:
    """Every row of every table, in an order of its own."""
    with sqlite3.connect(path) as db:
        return {table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}


def test_a_record_becomes_rows_that_any_tool_reads(tmp_path: Path) -> None:
    path = filled(tmp_path, built(row="one"), broken())
    asked = "SELECT row, status, (SELECT bytes FROM size WHERE build = id AND kind = 'image') FROM build"
    with sqlite3.connect(path) as db:
        assert ("one", "complete", 5_860_000_000) in db.execute(asked).fetchall()
        failed = db.execute("SELECT world, name FROM failed_check").fetchall()
        assert failed == [("docker", "link.one-nccl")]
        tiers = db.execute("SELECT tier, outcome FROM tier WHERE world = 'sif' AND tier = 'gpu'").fetchall()
        assert tiers == [("gpu", "not run")]


def test_every_column_of_the_schema_is_documented() -> None:
    text = (ROOT / "docs" / "history.md").read_text()
    for table, columns in TABLES.items():
        section = text.split(f"\n## `{table}`\n")[1].split("\n## ")[0]
        assert all(f"`{column}`" in section for column in columns), table


def test_the_columns_are_those_of_the_tables(tmp_path: Path) -> None:
    with builds.opened(tmp_path / "h.sqlite") as db:
        for table, columns in TABLES.items():
            assert tuple(column[1] for column in db.execute(f"PRAGMA table_info({table})")) == columns


def test_a_record_that_grew_replaces_what_was_known_of_it(tmp_path: Path) -> None:
    early = replace(built(row="one"), status=Status.INTERRUPTED, finished=None, verdicts=())
    path = filled(tmp_path, early)
    assert content(path)["tier"] == []
    filled(tmp_path, built(row="one"))
    assert len(content(path)["build"]) == 1
    assert len(content(path)["tier"]) == 10


def test_what_is_known_is_not_read_again_and_a_damaged_record_is_passed_over(tmp_path: Path) -> None:
    path = filled(tmp_path, built(row="one"))
    before = content(path)
    (tmp_path / "records" / "one" / "20260101T000000Z-aaaaaaaaaaaa.json").write_text("{")
    assert content(filled(tmp_path)) == before


def test_of_each_row_the_last_record_and_the_last_complete_one_are_kept_in_full(tmp_path: Path) -> None:
    days = [replace(built(row="one"), started=f"2026-01-0{day}T03:00:00Z") for day in (1, 2, 3)]
    failed = [replace(day, status=Status.FAILED) for day in days[2:]]
    path = filled(tmp_path, *days[:2], *failed, built(row="two"))
    with builds.opened(path) as db:
        assert set(builds.newest_records(db)) == {days[1], failed[0], built(row="two")}


def test_a_history_of_the_first_format_takes_the_records_again(tmp_path: Path) -> None:
    path = filled(tmp_path, built(row="one"))
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE record")
        db.execute("ALTER TABLE build DROP COLUMN definition")
        db.execute("PRAGMA user_version = 1")
    assert len(content(filled(tmp_path))["record"]) == 1


# -- merging ---------------------------------------------------------------------------------------


def shards(folder: Path) -> list[Path]:
    """Three histories with rows of their own, and a build that two have, of which one came further."""
    early = replace(built(row="shared"), status=Status.INTERRUPTED, finished=None, verdicts=(), steps=())
    one = filled(folder / "1", built(row="one"), early)
    two = filled(folder / "2", built(row="two"), built(row="shared"))
    three = filled(folder / "3", broken())
    for number, path in enumerate((one, two, three)):
        started = f"2026-01-0{number + 1}T03:00:00Z"
        row = RowNight(row=f"row{number}", state=State.REBUILT, key="a" * 64)
        a_night(path, f"run{number}", row, started=started, ended=number != 2)
        with builds.opened(path) as db:
            known = {"k": (Input(kind=Kind.PACKAGE, name=f"numpy{number}", value="2"),)}
            nights.remember_inputs(db, known)
            pushed = Pushed(reference="r/a@1", digest="1", tags=("t",), sent_bytes=1, present_bytes=2)
            nights.remember_published(db, f"row{number}", "k", pushed, started)
    return [one, two, three]


def test_the_order_does_not_matter_and_twice_is_once(tmp_path: Path) -> None:
    files = shards(tmp_path)
    results = []
    for number, order in enumerate(itertools.permutations(files)):
        into = tmp_path / f"into{number}.sqlite"
        for path in order:
            merge(into, [path])
        assert merge(into, order) == 0
        results.append(content(into))
    assert all(result == results[0] for result in results)
    whole = results[0]
    assert {line[2] for line in whole["build"]} == {"one", "two", "shared", broken().row}
    assert {line[7] for line in whole["build"] if line[2] == "shared"} == {"complete"}
    assert len([line for line in whole["step"] if line[0].startswith("shared/")]) == len(built().steps)
    assert {line[0].partition("/")[0] for line in whole["record"]} == {line[2] for line in whole["build"]}
    assert [len(whole[table]) for table in ("run", "night", "input", "published")] == [3, 3, 3, 3]


def test_merging_loses_nothing_of_either(tmp_path: Path) -> None:
    files = shards(tmp_path)
    into = tmp_path / "into.sqlite"
    merge(into, files)
    for path in files:
        for table, rows in content(path).items():
            kept = [row for row in rows if "shared/" not in str(row)]
            assert set(kept) <= set(content(into)[table]), table


def test_a_night_that_was_killed_in_one_copy_and_ended_in_another(tmp_path: Path) -> None:
    row = RowNight(row="one", state=State.REBUILT, key="a" * 64)
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    a_night(first, "run", row, started="2026-01-01T03:00:00Z", ended=False)
    a_night(second, "run", row, started="2026-01-01T03:00:00Z")
    merge(first, [second])
    assert content(first) == content(second)
    merge(second, [first])
    assert content(first) == content(second)


def test_the_image_that_was_published_last_stays_so_in_whatever_order(tmp_path: Path) -> None:
    """A row that went back to an image of before: it has the same name, and a later moment."""

    def pushed(path: Path, *keys: str) -> None:
        with builds.opened(path) as db:
            for number, key in enumerate(keys, 1):
                image = Pushed(reference=f"r/a@{key}", digest=key, tags=(), sent_bytes=0, present_bytes=0)
                nights.remember_published(db, "one", key, image, f"2026-01-0{number}T03:00:00Z")

    pushed(before := tmp_path / "before.sqlite", "old", "new")
    pushed(after := tmp_path / "after.sqlite", "old", "new", "old")
    for into, other in ((before, after), (after, before)):
        merge(into, [other])
        with builds.opened(into) as db:
            assert nights.published(db, "r/a") == {"one": "old"}
    assert content(before) == content(after)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda path: path.write_bytes(b"not a database, but long enough to be looked at" * 99),
            "not a database",
        ),
        (
            lambda path: sqlite3.connect(path).execute("CREATE TABLE build (x)").connection.commit(),
            "not a history",
        ),
        (lambda path: None, "no such file"),
    ],
)
def test_a_file_that_is_not_a_history_is_refused_by_name(tmp_path: Path, made: Any, said: str) -> None:
    path = tmp_path / "other.sqlite"
    made(path)
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(RecordError, match=said) as refused:
        merge(tmp_path / "into.sqlite", [path])
    assert str(path) in str(refused.value)
    assert (path.read_bytes() if path.exists() else b"") == before


def test_values_that_no_history_has_are_refused_and_nothing_of_them_is_kept(tmp_path: Path) -> None:
    path = filled(tmp_path, built(row="one"))
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (outcome IN', 'CHECK (1 OR outcome IN')"
        )
    with sqlite3.connect(path) as db:
        db.execute("UPDATE tier SET outcome = 'splendid' WHERE world = 'sif'")
    with pytest.raises(RecordError, match="not a sound history"):
        merge(tmp_path / "into.sqlite", [path])
    assert content(tmp_path / "into.sqlite")["build"] == []


# -- formats ---------------------------------------------------------------------------


def test_a_later_format_and_a_foreign_database_are_left_alone(tmp_path: Path) -> None:
    later, foreign = tmp_path / "later.sqlite", tmp_path / "foreign.sqlite"
    with sqlite3.connect(later) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        db.execute("CREATE TABLE build (x)")
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE mine (x)")
    for path, said in ((later, "format"), (foreign, "not a history")):
        before = path.read_bytes()
        with pytest.raises(RecordError, match=said), builds.opened(path):
            pass
        assert path.read_bytes() == before


def test_the_file_tells_what_it_is(tmp_path: Path) -> None:
    path = filled(tmp_path)
    assert path.read_bytes()[68:72] == b"SWHI"


# -- what a night asks of it -----------------------------------------------------------------------


def test_nights_that_were_killed_do_not_move_what_is_compared_with(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    row = RowNight(row="one", state=State.REBUILT, baseline="before")
    a_night(path, "r1", replace(row, baseline="long ago"), started="2026-01-01T03:00:00Z")
    with builds.opened(path) as db:
        assert nights.baselines(db, {"one": "newest"}) == {"one": "newest"}
    a_night(path, "r2", row, started="2026-01-02T03:00:00Z", ended=False)
    a_night(path, "r3", replace(row, baseline="after"), started="2026-01-02T04:00:00Z", ended=False)
    with builds.opened(path) as db:
        assert nights.baselines(db, {"one": "newest", "two": ""}) == {"one": "before", "two": ""}


def test_the_build_that_counts_is_the_one_that_the_last_night_went_back_to(tmp_path: Path) -> None:
    old, new = built(row="one"), built(row="one", key="d" * 64, started="2026-03-03T02:00:00Z")
    path = filled(tmp_path, old, replace(new, finished="2026-03-03T02:30:00Z"))
    with builds.opened(path) as db:
        assert nights.current_builds(db)["one"].key == "d" * 64
    back = RowNight(row="one", state=State.REBUILT, build=builds.id_of(old))
    a_night(path, "r", back, started="2026-03-04T03:00:00Z")
    with builds.opened(path) as db:
        assert nights.current_builds(db)["one"].key == old.key


def test_the_table_and_the_morning_are_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = built(row="one")
    path = filled(tmp_path, known)
    row = RowNight(
        row="one", state=State.REBUILT, why="its key changed", key=known.key, build=builds.id_of(known)
    )
    a_night(path, "r", row, started="2026-03-04T03:00:00Z")
    code, out, _ = call(capsys, "history", "--history", str(path), "show", "--format", "json")
    (line,) = json.loads(out)["nights"]
    assert (code, line["state"], line["image"]) == (0, "rebuilt", 5_860_000_000)
    assert line["tiers"] == "docker 4 of 5, sif 4 of 5"
    code, out, _ = call(capsys, "history", "--history", str(path), "morning", "--format", "markdown")
    assert code == 0
    assert "- **one: its key changed**" in out
    assert (
        call(capsys, "history", "--history", str(path), "show", "other*", "--format", "json")[1].count("row")
        == 0
    )


def test_a_night_that_cannot_be_read_is_an_error_and_no_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.sqlite"
    a_night(path, "r", RowNight(row="[bold]one", state=State.REBUILT), started="2026-03-04T03:00:00Z")
    with sqlite3.connect(path) as db:
        db.execute("""UPDATE night SET document = '{"row": 5}', state = '[/]x' """)
        db.execute("INSERT INTO input VALUES ('k', 'of the future', 'a', 'b'), ('k', 'package', 'a', 'b')")
    code, _, err = call(capsys, "history", "--history", str(path), "morning")
    assert (code, "cannot be read" in err) == (12, True)
    code, out, _ = call(capsys, "history", "--history", str(path))
    assert (code, "[bold]one" in out, "[/]x" in out) == (0, True, True)
    with builds.opened(path) as db:
        assert [entry.kind for entry in nights.inputs_of(db, "k")] == [Kind.PACKAGE]


def test_without_a_night_there_is_no_morning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "history", "--history", str(tmp_path / "h.sqlite"), "morning")
    assert (code, "no night has ended yet" in err) == (12, True)


def test_each_row_has_nights_of_its_own(tmp_path: Path) -> None:
    """One night of CI is a run for each shard."""
    path = filled(tmp_path)
    for number, row in enumerate(("one", "two", "two", "three", "one")):
        night = RowNight(row=row, state=State.REBUILT, key=f"{number}")
        a_night(path, f"run{number}", night, started=f"2026-01-0{number + 1}T03:00:00Z")
    found = [(line.row, line.key) for line in show.lines(path, ("one", "t*"), 1)]
    assert found == [("one", "4"), ("three", "3"), ("two", "2")]


@pytest.mark.parametrize("words", [(), ("show",), ("show", "cuda12-torch"), ("show", "--format", "json")])
def test_a_history_without_nights_says_why_and_what_adds_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """As after ``run``, which writes records and no night."""
    code, out, err = call(capsys, "history", "--history", str(tmp_path / "history.sqlite"), *words)
    assert code == 0
    assert "./build.py nightly" in err
    assert "./build.py report" in err
    assert out == "" or json.loads(out) == {"version": 1, "nights": [], "definitions": []}


def test_a_row_or_a_night_that_nobody_knows_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.sqlite"
    words = ("history", "--history", str(path), "show", "no-such-*")
    code, _, err = call(capsys, *words)
    assert code == 2, "also where there is no night yet"
    assert "cuda12-torch" in err.partition("next: ")[2], "the hint names the rows"
    a_night(path, "n", RowNight(row="one", state=State.REBUILT), started="2026-01-01T00:00:00Z")
    code, _, err = call(capsys, *words)
    assert code == 2
    assert "no row of the matrix or of a night matches 'no-such-*'" in err
    with (
        builds.opened(path) as db,
        pytest.raises(RecordError, match="no night 20260101T000000Z-0 that ended"),
    ):
        nights.morning_of(db, "20260101T000000Z-0")
