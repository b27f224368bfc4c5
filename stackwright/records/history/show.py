"""What a person asks of the history: rows over time, and the answer of a morning again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import starmap
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from stackwright.core.config.messages import near
from stackwright.core.errors import RecordError, UsageError
from stackwright.core.model.night import Morning, combine
from stackwright.host.output import name_column
from stackwright.records.history import builds
from stackwright.records.history import nights as history_nights
from stackwright.records.report.wording import clean, duration, size

LINES = """SELECT row, id, started, state, key, tiers, image, sif, seconds FROM (
    SELECT night.row, run.id, run.started, night.state, night.key,
    coalesce((SELECT group_concat(world || ' ' || passed, ', ') FROM (
        SELECT world, sum(outcome = 'passed') || ' of ' || count(*) AS passed FROM tier
        WHERE tier.build = night.build GROUP BY world ORDER BY world)), '') AS tiers,
    (SELECT bytes FROM size WHERE size.build = night.build AND kind = 'image') AS image,
    (SELECT bytes FROM size WHERE size.build = night.build AND kind = 'sif') AS sif,
    (SELECT sum(seconds) FROM timing WHERE timing.build = night.build) AS seconds,
    row_number() OVER (PARTITION BY night.row ORDER BY run.started DESC) AS number
    FROM night JOIN run ON run.id = night.run WHERE run.finished IS NOT NULL
) WHERE number <= ? ORDER BY row, started DESC"""
"""A night may be of some rows alone, as those of CI's shards are: each row has nights of its own."""

DEFINITIONS = """SELECT row, id, started, 'def ' || status, key,
    coalesce((SELECT world || ' ' || sum(outcome = 'passed') || ' of ' || count(*) FROM tier
        WHERE tier.build = id), '') AS tiers,
    NULL, (SELECT bytes FROM size WHERE size.build = id AND kind = 'sif') AS sif,
    (SELECT sum(seconds) FROM timing WHERE timing.build = id) AS seconds, definition FROM (
    SELECT *, row_number() OVER (PARTITION BY row ORDER BY started DESC) AS number
    FROM build WHERE definition <> ''
) WHERE number <= ? ORDER BY row, started DESC"""

ENDED = "SELECT id FROM run WHERE finished IS NOT NULL ORDER BY started DESC, id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row in one night, and its build at the end of it; or, in any night or day, a build from the
    ``definition`` file with this key. None where it has no such thing.

    ``run``: the night, or the build. ``tiers``: how many passed in each world, as text. ``image`` and ``sif``
    are in bytes.
    """

    row: str
    run: str
    started: str
    state: str
    key: str
    tiers: str
    image: int | None
    sif: int | None
    seconds: float | None
    definition: str = ""


def lines(
    path: Path, rows: Sequence[str], nights: int, known: Collection[str] = (), records: Path | None = None
) -> tuple[Line, ...]:
    """Return the last nights of the rows that a pattern names, or of all; the newest is the first.

    Among them are the last builds from the definition file of each row, as many as nights. ``records``, the
    folder of all, are taken into the history before. UsageError where a pattern matches no row of a night,
    and none of the ``known`` rows.
    """
    with builds.opened(path) as db:
        if records:
            builds.take_records(db, records)
        found = [values for query in (LINES, DEFINITIONS) for values in db.execute(query, (nights,))]
    made = sorted(starmap(_line, found), key=lambda line: line.started, reverse=True)
    made.sort(key=lambda line: line.row)
    names = {*known, *(line.row for line in made)}
    for name in rows:
        if not any(fnmatchcase(row, name) for row in names):
            hint = near(name, sorted(names)) or f"the rows are {', '.join(sorted(names)) or 'none'}"
            raise UsageError(
                f"no row of the matrix or of a night matches {name!r}", place=str(path), hint=hint
            )
    return tuple(line for line in made if not rows or any(fnmatchcase(line.row, name) for name in rows))


def _line(*values: Any) -> Line:
    return Line(**dict(zip(Line.__dataclass_fields__, values, strict=False)))


def nothing(path: Path, rows: Sequence[str]) -> str:
    """Say why no night is shown, and what adds one."""
    of = f" of {', '.join(rows)}" if rows else ""
    return (
        f"{path}: it has no night{of}: a line is added by each `./build.py nightly`, and not by `run`.\n"
        "  What `run` did: ./build.py report"
    )


def document(found: Sequence[Line]) -> dict[str, Any]:
    documents = [asdict(line) for line in found]
    return {
        "version": 1, "nights": [line for line in documents if not line["definition"]],
        "definitions": [line for line in documents if line["definition"]],
    }  # fmt: skip


def table(found: Sequence[Line]) -> Table:
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    name_column(made, "row", [clean(line.row) for line in found])
    for heading in ("night", "result", "key", "tiers passed", "image", "sif", "time"):
        made.add_column(heading, overflow="fold")
    last = ""
    for line in found:
        if line.row != last and last:
            made.add_section()
        texts = (line.started[:16].replace("T", " "), line.state, line.key[:12], line.tiers)
        made.add_row(
            escape(clean(line.row)) if line.row != last else "", *(escape(clean(text)) for text in texts),
            _size(line.image), _size(line.sif), duration(line.seconds) if line.seconds else "",
        )  # fmt: skip
        last = line.row
    return made


def _size(count: int | None) -> str:
    return "" if count is None else size(count)


def morning(path: Path, runs: Sequence[str]) -> Morning:
    """Of the last night that ended, or of those named, together."""
    with builds.opened(path) as db:
        ended = [id for (id,) in db.execute(ENDED)]
        if not ended:
            raise RecordError("no night has ended yet", place=str(path), hint="./build.py nightly")
        unknown = [run for run in runs if run not in ended]
        if unknown:
            raise UsageError(f"no night {unknown[0]!r} has ended", hint="./build.py history names them")
        return combine([history_nights.morning_of(db, run) for run in runs or ended[:1]])
