"""The history: every night, every build, in one SQLite file. docs/history.md describes its tables.

A rollback journal, and not a write-ahead log, so that the file is whole whenever no process writes to it: it
can be copied and sent as it is. A process that is killed leaves a journal, and the next one rolls it back.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackwright.core.errors import RecordError
from stackwright.core.model.record import Record
from stackwright.core.model.row import Outcome, Tier, Verdict
from stackwright.records import files as record
from stackwright.records.history.schema import APPLICATION, MIGRATIONS, TABLES

BUSY_SECONDS = 60


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The history, made or brought to today's schema if need be; closed when the block ends.

    RecordError where the file is not a history, is one of a later release, or cannot be written.
    """
    hint = "check the disk; a damaged history can be removed: records fill a new one again"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot be made: {error.strerror}", place=str(path), hint=hint) from error
    try:
        with contextlib.closing(
            sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            _migrate(connection, path)
            yield connection
    except sqlite3.ProgrammingError:  # a defect of Stackwright, and not of the file
        raise
    except sqlite3.Error as error:
        raise RecordError(f"the history cannot be used: {error}", place=str(path), hint=hint) from error


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if not empty and application != APPLICATION:
        raise RecordError("a database, but not a history", place=str(path), hint="name another file")
    if version > len(MIGRATIONS):
        hint = "use the release that wrote it, or a later one"
        raise RecordError(f"a history of format {version}", place=str(path), hint=hint)
    if version == len(MIGRATIONS):
        return
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for migration in MIGRATIONS[version:]:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def insert(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Rows in the order of the table's columns; one that is there under the same name is replaced."""
    marks = ", ".join("?" * len(TABLES[table]))
    connection.executemany(f"REPLACE INTO {table} VALUES ({marks})", rows)  # noqa: S608 (names are ours)


# -- builds ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A record in the history. ``checks`` is the digest of what judged it.

    ``proven`` are the worlds whose verdict has no failed check. ``sizes`` are in bytes, by kind and name,
    ``seconds`` by phase. ``steps`` in their order: name, seconds, and whether it came from the cache.
    """

    id: str
    row: str
    key: str
    lock: str
    finished: str
    checks: str
    host: tuple[str, ...]
    has_sif: bool
    proven: tuple[str, ...]
    sizes: tuple[tuple[str, str, int], ...]
    seconds: tuple[tuple[str, float], ...]
    steps: tuple[tuple[str, float, bool], ...]


def id_of(known: Record) -> str:
    """Return the name of the record's file below out/records, without its ending."""
    return record.path_of(known, Path()).with_suffix("").as_posix()


def take_records(connection: sqlite3.Connection, folder: Path) -> None:
    """Every record below the folder that is new or has changed; damaged files are passed over."""
    known = dict(connection.execute("SELECT id, content FROM build"))
    fresh: list[tuple[Record, str]] = []
    for path in (*record.paths(folder), *record.paths(folder, definition=True)):
        with contextlib.suppress(RecordError, OSError):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            if known.get(path.relative_to(folder).with_suffix("").as_posix()) != content:
                fresh.append((record.load(path), content))
    if fresh:
        with transaction(connection):
            for new, content in fresh:
                _take(connection, new, content)
            keep_newest_records(connection)


def keep_newest_records(connection: sqlite3.Connection) -> None:
    """Of every row the record that started last and the last complete one, in full: for the page.

    And of every definition file the record that started last.
    """
    newest = "SELECT id FROM (SELECT id, max(started) FROM build WHERE {} GROUP BY row)"
    kinds = ("definition = ''", "definition = '' AND status = 'complete'", "definition <> ''")
    queries = map(newest.format, kinds)
    connection.execute(f"DELETE FROM record WHERE build NOT IN ({' UNION '.join(queries)})")  # noqa: S608


def newest_records(connection: sqlite3.Connection) -> tuple[Record, ...]:
    """Raise RecordError for one that is none."""
    found = connection.execute("SELECT build, document FROM record ORDER BY build").fetchall()
    return tuple(record.loads(document, f"the history, {build}") for build, document in found)


def _take(connection: sqlite3.Connection, new: Record, content: str) -> None:
    id, tools, image = id_of(new), dict(new.tools), new.image
    connection.execute("DELETE FROM build WHERE id = ?", (id,))
    named = (image.reference, image.id, image.digest, image.base) if image else ("", "", "", "")
    host = new.host
    insert(connection, "build", [(
        id, content, new.row, new.key, new.lock, new.started, new.finished, new.status.value,
        new.phase.value, new.reason, *named, tools.get("checks", ""), tools.get("stackwright", ""),
        tools.get("docker", ""), host.cpus, host.memory, host.machine, host.os,
        new.definition.key if new.definition else "",
    )])  # fmt: skip
    own = (timing for timing in new.timings if timing.run is None)  # the history says what each run did
    insert(connection, "timing", [(id, timing.phase.value, timing.seconds) for timing in own])
    insert(connection, "size", [(id, *size) for size in _sizes(new)])
    insert(connection, "tier", [(id, *tier) for verdict in new.verdicts for tier in _tiers(verdict)])
    failed = (
        (id, verdict.world, check.id, check.detail) for verdict in new.verdicts for check in verdict.failed
    )
    insert(connection, "failed_check", failed)
    steps = (step for step in new.steps if step.outcome == "done" and new.run_of(step.phase) == new.started)
    rows = (
        (id, number, step.phase.value, step.name, step.identity, step.cached, step.seconds)
        for number, step in enumerate(steps)
    )
    insert(connection, "step", rows)
    insert(connection, "declared", [(id, name, value) for name, value in new.declared])
    insert(connection, "record", [(id, record.dumps(new).decode())])


def _sizes(known: Record) -> Iterator[tuple[str, str, int]]:
    if known.image:
        yield "image", "", known.image.bytes
    if known.sif:
        yield "sif", "", known.sif.bytes
    yield from {
        ("component", part.name): ("component", part.name, part.bytes) for part in known.components
    }.values()


def _tiers(verdict: Verdict) -> Iterator[tuple[str, str, str, int, int, int]]:
    for tier in Tier:
        outcomes = [check.outcome for check in verdict.checks if check.tier is tier]
        counts = (outcomes.count(outcome) for outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.NOT_RUN))
        yield (verdict.world, tier.value, verdict.tier(tier).value, *counts)  # type: ignore[misc]


def newest_complete(connection: sqlite3.Connection) -> dict[str, Build]:
    """Of every row the complete build of its image that started last."""
    found = connection.execute(
        "SELECT id, max(started) FROM build WHERE status = 'complete' AND definition = ''"
        " GROUP BY row ORDER BY row"
    )
    builds = (build(connection, id) for id, _ in found.fetchall())
    return {newest.row: newest for newest in builds if newest}


def complete(connection: sqlite3.Connection, row: str, key: str) -> Build | None:
    """Return the newest complete build of the image with exactly this content."""
    found = connection.execute(
        "SELECT id FROM build WHERE row = ? AND key = ? AND status = 'complete' AND definition = ''"
        " ORDER BY started DESC LIMIT 1",
        (row, key),
    ).fetchone()
    return build(connection, found[0]) if found else None


def last_phase(connection: sqlite3.Connection, row: str, key: str) -> str:
    """Return the phase that the last run of this content reached; empty if there was none."""
    found = connection.execute(
        "SELECT phase FROM build WHERE row = ? AND key = ? AND definition = '' ORDER BY started DESC LIMIT 1",
        (row, key),
    ).fetchone()
    return str(found[0]) if found else ""


def failed_definition(connection: sqlite3.Connection, row: str, key: str) -> str:
    """Return why the last build from the definition file of this image failed; empty where it did not."""
    found = connection.execute(
        "SELECT status, reason FROM build WHERE row = ? AND key = ? AND definition <> ''"
        " ORDER BY started DESC LIMIT 1",
        (row, key),
    ).fetchone()
    return str(found[1]) if found and found[0] == "failed" else ""


def build(connection: sqlite3.Connection, id: str) -> Build | None:
    found = connection.execute(
        "SELECT row, key, lock, coalesce(finished, ''), checks, cpus, (memory + (1 << 29)) >> 30, machine"
        " FROM build WHERE id = ?",
        (id,),
    ).fetchone()
    if found is None:
        return None
    row, key, lock, finished, checks, *host = found
    failed = {
        world for (world,) in connection.execute("SELECT world FROM failed_check WHERE build = ?", (id,))
    }
    worlds = connection.execute("SELECT DISTINCT world FROM tier WHERE build = ? ORDER BY world", (id,))
    sizes = connection.execute("SELECT kind, name, bytes FROM size WHERE build = ?", (id,)).fetchall()
    steps = connection.execute(
        "SELECT name, seconds, cached FROM step WHERE build = ? ORDER BY number", (id,)
    )
    return Build(
        id=id, row=row, key=key, lock=lock, finished=finished, checks=checks, host=tuple(map(str, host)),
        has_sif=any(kind == "sif" for kind, _, _ in sizes),
        proven=tuple(world for (world,) in worlds if world not in failed),
        sizes=tuple(sizes),
        seconds=tuple(connection.execute("SELECT phase, seconds FROM timing WHERE build = ?", (id,))),
        steps=tuple((name, seconds, bool(cached)) for name, seconds, cached in steps),
    )  # fmt: skip


def declared(connection: sqlite3.Connection, id: str) -> Mapping[str, str]:
    """Return the row of a build as it was declared, name to value."""
    return dict(connection.execute("SELECT name, value FROM declared WHERE build = ?", (id,)))
