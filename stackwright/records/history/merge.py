"""One history out of several, as shards of a night leave them: nothing lost, nothing twice.

Everything in a history has a name that says what it is: a row, a key and a moment. What two of them have
under one name is one thing; where it grew meanwhile, the one that came further is kept. So the order does not
matter, and to merge again changes nothing.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stackwright.core.errors import RecordError
from stackwright.records.history import builds
from stackwright.records.history.schema import APPLICATION, MIGRATIONS, OF_BUILD, TABLES


def merge(into: Path, others: Sequence[Path]) -> int:
    """Take over all of the others, each as a whole or not at all; how many builds and nights were new.

    RecordError names a file that is not a history; those before it are merged then.
    """
    new = 0
    with builds.opened(into) as db:
        for path in others:
            with _source(path) as source:
                try:
                    with builds.transaction(db):
                        new += _merge(db, source)
                except sqlite3.IntegrityError as error:
                    raise _refused(path, f"not a sound history: {error}") from error
    return new


@contextlib.contextmanager
def _source(path: Path) -> Iterator[sqlite3.Connection]:
    """A copy, with the journal of a process that was killed: the file itself is left as it is."""
    if not path.is_file():
        raise _refused(path, "no such file")
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-journal", "-wal"):
            beside = path.with_name(path.name + suffix)
            if beside.is_file():
                shutil.copyfile(beside, copy.with_name(copy.name + suffix))
        _refuse_foreign(copy, path)
        with builds.opened(copy) as source:
            yield source


def _refuse_foreign(copy: Path, path: Path) -> None:
    """Looked at before it is brought to today's schema."""
    try:
        with contextlib.closing(sqlite3.connect(copy)) as source:
            application = source.execute("PRAGMA application_id").fetchone()[0]
            version = source.execute("PRAGMA user_version").fetchone()[0]
            sound = source.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise _refused(path, f"not a database: {error}") from error
    if application != APPLICATION:
        raise _refused(path, "not a history")
    if version > len(MIGRATIONS):
        raise _refused(path, f"a history of format {version}")
    if sound != "ok":
        raise _refused(path, f"damaged: {sound}")


def _refused(path: Path, cause: str) -> RecordError:
    return RecordError(cause, place=str(path), hint="histories are made by build.py nightly")


def _merge(db: sqlite3.Connection, source: sqlite3.Connection) -> int:
    new = 0
    for row in _rows(source, "build"):
        new += _take_build(db, source, row)
    for row in _rows(source, "run"):
        new += _take_run(db, source, row)
    marks = ", ".join("?" * len(TABLES["input"]))
    db.executemany(f"INSERT OR IGNORE INTO input VALUES ({marks})", _rows(source, "input"))  # noqa: S608
    for row in _rows(source, "published"):
        _take_published(db, row)
    builds.keep_newest_records(db)
    return new


def _take_published(db: sqlite3.Connection, values: tuple[Any, ...]) -> None:
    """An image that a row went back to is published again: the later moment says what is published now."""
    row, key, reference, *_, at = values
    known = db.execute(
        "SELECT at FROM published WHERE row = ? AND key = ? AND reference = ?", (row, key, reference)
    ).fetchone()
    if known is None or known[0] < at:
        builds.insert(db, "published", [values])


def _take_build(db: sqlite3.Connection, source: sqlite3.Connection, row: tuple[Any, ...]) -> bool:
    id = row[0]
    known = next(_rows(db, "build", "id", id), None)
    if known is not None and _further("build", known) >= _further("build", row):
        return False
    builds.insert(db, "build", [row])  # with the old one go the rows that belong to it
    for table in OF_BUILD:
        builds.insert(db, table, _rows(source, table, "build", id))
    return known is None


def _take_run(db: sqlite3.Connection, source: sqlite3.Connection, row: tuple[Any, ...]) -> bool:
    id = row[0]
    known = next(_rows(db, "run", "id", id), None)
    if known is not None and _further("run", known) >= _further("run", row):
        return False
    builds.insert(db, "run", [row])
    builds.insert(db, "night", _rows(source, "night", "run", id))
    return known is None


def _further(table: str, row: tuple[Any, ...]) -> tuple[str, str]:
    """What ended is further than what did not, what ended later further still; then the content decides."""
    named = dict(zip(TABLES[table], row, strict=True))
    return named["finished"] or "", named.get("content", "")


def _rows(db: sqlite3.Connection, table: str, column: str = "", value: str = "") -> Iterator[tuple[Any, ...]]:
    columns = ", ".join(TABLES[table])
    where = f" WHERE {column} = ?" if column else ""
    found = db.execute(f"SELECT {columns} FROM {table}{where}", (value,) if column else ())  # noqa: S608
    yield from found.fetchall()
