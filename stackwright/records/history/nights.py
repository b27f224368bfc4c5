"""The history of nights: when each began and ended, the result of each row, and what was published."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from stackwright.core.errors import RecordError
from stackwright.core.model.night import Input, Kind, Margins, Morning, Pushed, RowNight
from stackwright.records.history.builds import Build, build, insert, newest_complete, transaction

_ROW = TypeAdapter(RowNight)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastNight:
    """The result of a row; ``rule`` is the one that refused it, or empty."""

    state: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One ``nightly``. ``locked``: upstream was not asked."""

    id: str
    started: str
    matrix: str
    locked: bool
    margins: Margins


def begin(db: sqlite3.Connection, run: Run, compared: Mapping[str, str]) -> None:
    """Note that a night has begun. If it is killed, the next one still compares with the same builds."""
    margins = run.margins
    with transaction(db):
        insert(db, "run", [
            (run.id, run.started, None, run.matrix, run.locked, margins.size, margins.time)
        ])  # fmt: skip
        insert(db, "night", [(run.id, row, build, "begun", "", "", "{}") for row, build in compared.items()])


def baselines(db: sqlite3.Connection, newest: Mapping[str, str]) -> dict[str, str]:
    """Return what each row is compared with: its newest complete build, by row, as it was before nights that
    were killed since the last one that ended."""
    killed = db.execute(
        "SELECT row, baseline, min(run.started) FROM night JOIN run ON run.id = night.run"
        " WHERE run.finished IS NULL AND run.started > coalesce((SELECT max(ended.started) FROM run AS ended"
        " JOIN night AS other ON other.run = ended.id"
        " WHERE ended.finished IS NOT NULL AND other.row = night.row), '') GROUP BY row"
    )
    before = {row: build for row, build, _ in killed}
    return {row: before.get(row, build) for row, build in newest.items()}


def current_builds(db: sqlite3.Connection) -> dict[str, Build]:
    """Of every row the complete build that counts: the newest one, or an older one that the last night
    went back to, because the row is again what it was."""
    builds = newest_complete(db)
    found = db.execute(
        "SELECT row, build, max(run.finished) FROM night JOIN run ON run.id = night.run"
        " WHERE run.finished IS NOT NULL AND build <> '' GROUP BY row"
    )
    for row, id, finished in found.fetchall():
        newest = builds.get(row)
        if newest and newest.id != id and finished >= newest.finished and (older := build(db, id)):
            builds[row] = older
    return builds


def last_night(db: sqlite3.Connection, matrix: str) -> dict[str, LastNight]:
    """Return the result of each row of a matrix in the last finished night that it was in."""
    found = db.execute(
        "SELECT row, state, coalesce(json_extract(document, '$.rejection.rule'), ''), max(run.started)"
        " FROM night JOIN run ON run.id = night.run WHERE run.finished IS NOT NULL AND run.matrix = ?"
        " GROUP BY row",
        (matrix,),
    )
    return {row: LastNight(state=state, rule=rule) for row, state, rule, _ in found}


def finish(db: sqlite3.Connection, morning: Morning) -> None:
    with transaction(db):
        db.execute("UPDATE run SET finished = ? WHERE id = ?", (morning.finished, morning.run))
        rows = [(row, _ROW.dump_json(row, exclude_defaults=True).decode()) for row in morning.rows]
        insert(db, "night", [
            (morning.run, row.row, row.baseline, row.state.value, row.key, row.build, document)
            for row, document in rows
        ])  # fmt: skip


def morning_of(db: sqlite3.Connection, run: str) -> Morning:
    """Return the answer of a night that ended. RecordError where it is not one that can be read."""
    noted = db.execute(
        "SELECT started, finished, matrix, locked, size_margin, time_margin FROM run"
        " WHERE id = ? AND finished IS NOT NULL",
        (run,),
    ).fetchone()
    if noted is None:
        raise RecordError(
            f"the history knows no night {run} that ended", hint="./build.py history names them"
        )
    started, finished, matrix, locked, size, time = noted
    rows = db.execute("SELECT document FROM night WHERE run = ? AND state <> 'begun' ORDER BY row", (run,))
    try:
        found = tuple(_ROW.validate_json(document, strict=True) for (document,) in rows)
    except ValidationError as error:
        cause = f"the night {run} cannot be read: {error.errors(include_url=False)[0]['msg']}"
        raise RecordError(cause, hint="was it written by another release?") from error
    return Morning(
        run=run, started=started, finished=finished, matrix=matrix, locked=bool(locked),
        margins=Margins(size=size, time=time),
        rows=found,
    )  # fmt: skip


# -- inputs of keys --------------------------------------------------------------------------------


def remember_inputs(db: sqlite3.Connection, known: Mapping[str, Iterable[Input]]) -> None:
    """What goes into each key, by key."""
    if known:
        with transaction(db):
            for key, found in known.items():
                insert(db, "input", [(key, entry.kind.value, entry.name, entry.value) for entry in found])


def inputs_of(db: sqlite3.Connection, key: str) -> tuple[Input, ...]:
    """Return the noted inputs. Kinds that only another release knows are skipped."""
    found = db.execute("SELECT kind, name, value FROM input WHERE key = ?", (key,))
    known = {kind.value: kind for kind in Kind}
    return tuple(
        Input(kind=known[kind], name=name, value=value) for kind, name, value in found if kind in known
    )  # fmt: skip


def keys_with_inputs(db: sqlite3.Connection) -> frozenset[str]:
    return frozenset(key for (key,) in db.execute("SELECT DISTINCT key FROM input"))


# -- what was published ----------------------------------------------------------------------------


def published(db: sqlite3.Connection, place: str) -> dict[str, str]:
    """Row to the key that it was last published with below a place, HOST/REPOSITORY."""
    found = db.execute(
        "SELECT row, key, max(at) FROM published WHERE substr(reference, 1, ?) IN (?, ?) GROUP BY row",
        (len(place) + 1, f"{place}/", f"{place}@"),
    )
    return {row: key for row, key, _ in found}


def remember_published(db: sqlite3.Connection, row: str, key: str, pushed: Pushed, at: str) -> None:
    insert(db, "published", [(
        row, key, pushed.reference, pushed.digest, " ".join(pushed.tags), pushed.sent_bytes,
        pushed.present_bytes, at,
    )])  # fmt: skip
