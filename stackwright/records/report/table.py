"""Records for a person: a table for a terminal, text for CI, and one page for a browser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.box import ASCII, SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from stackwright.core.model.record import Phase, Record
from stackwright.core.model.row import IMAGE_WORLDS, Check, Outcome, Rejection, Tier, World
from stackwright.host.files import replace_durably
from stackwright.host.output import name_column
from stackwright.host.shipped import called
from stackwright.records.files import newest
from stackwright.records.report import definitions as of_definitions
from stackwright.records.report.page import NOTHING, Around, page
from stackwright.records.report.wording import (
    State,
    clean,
    duration,
    ending,
    key_versions,
    not_run,
    plural,
    size,
    state,
    tier_cells,
)

MARKS = {Outcome.PASSED: "✔", Outcome.FAILED: "✘", Outcome.NOT_RUN: "\N{EN DASH}"}
STYLES = {Outcome.PASSED: "green", Outcome.FAILED: "bold red", Outcome.NOT_RUN: "yellow"}


def table(
    records: Iterable[Record],
    rejections: Sequence[Rejection],
    definitions: Sequence[Record] = (),
    *,
    plain: bool = False,
) -> Table:
    """Return the newest record of each row, a line per world. ``plain``: words in ASCII for a dumb terminal.

    ``definitions`` are records of definition files, at most one of a row: each has a line of its own, whether
    or not there is an image.
    """
    chosen, left = newest(records), {definition.row: definition for definition in definitions}
    result = Table(
        box=ASCII if plain else SIMPLE_HEAD, caption=_caption(chosen, rejections, definitions, plain),
        caption_justify="left", caption_style="", pad_edge=False, collapse_padding=True,
    )  # fmt: skip
    name_column(result, "row", [clean(row) for row in (*left, *(record.row for record in chosen))])
    result.add_column("format", no_wrap=True)
    for tier in Tier:
        result.add_column(tier.value, justify="left" if plain else "center", no_wrap=plain, overflow="fold")
    result.add_column("size", justify="right", no_wrap=True)
    result.add_column("time", justify="right", no_wrap=True)
    for record in chosen:
        for world in IMAGE_WORLDS:
            first = Text(clean(record.row) if world is World.DOCKER else "", "bold")
            marks = [_mark(cell.outcome, plain) for cell in tier_cells(record, world)]
            result.add_row(first, world, *marks, _size(record, world), _time(record, world))
        if definition := left.pop(record.row, None):
            result.add_row("", *_definition_line(definition, plain))
        result.add_section()
    for definition in left.values():
        result.add_row(Text(clean(definition.row), "bold"), *_definition_line(definition, plain))
        result.add_section()
    return result


def counts(records: Iterable[Record]) -> str:
    """How many rows are in which state, in one line."""
    chosen = newest(records)
    numbers = {kind: sum(state(record) is kind for record in chosen) for kind in State}
    told = ", ".join(f"{count} {kind.value}" for kind, count in numbers.items() if count)
    return f"{plural(len(chosen), 'row')}: {told or 'nothing was built'}"


def write_page(
    records: Iterable[Record],
    rejections: Sequence[Rejection],
    path: Path,
    *,
    definitions: Sequence[Record] = (),
    at: datetime | None = None,
    around: Around = NOTHING,
) -> Path:
    """Write one HTML file that needs no other, and replace it as a whole. ``at`` is when it is made: now."""
    text = page(tuple(records), rejections, at or datetime.now(UTC), definitions, around)
    return replace_durably(path, text.encode(errors="replace"))


# -- parts ---


def _mark(outcome: Outcome, plain: bool) -> Text:
    return Text(outcome.value if plain else MARKS[outcome], "" if plain else STYLES[outcome])


MADE_IN = {World.DOCKER: Phase.BUILD, World.SIF: Phase.SIF, World.DEFINITION: Phase.DEFINITION}


def _definition_line(record: Record, plain: bool) -> tuple[str | Text, ...]:
    world = World.DEFINITION
    marks = (_mark(cell.outcome, plain) for cell in of_definitions.cells(record))
    return (world, *marks, _size(record, world), _time(record, world))


def _size(record: Record, world: World) -> str:
    file = record.image if world is World.DOCKER else record.sif
    return size(file.bytes) if file else ""


def _time(record: Record, world: World) -> str:
    seconds = record.seconds(MADE_IN[world])
    return "" if seconds is None else duration(seconds)


def _caption(
    records: Sequence[Record], rejections: Sequence[Rejection], definitions: Sequence[Record], plain: bool
) -> Text:
    legend = "" if plain else "  ".join(f"{mark} {outcome.value}" for outcome, mark in MARKS.items())
    lines = [line for record in records for line in _notes(record)]
    lines += [
        f"{clean(definition.row)}: {note}"
        for definition in definitions
        for note in of_definitions.notes(definition, records)
    ]
    lines += [_rejected(rejection) for rejection in rejections]
    return Text(called("\n".join([legend, *lines] if legend else lines)))


def _notes(record: Record) -> list[str]:
    """Return what a reader must know besides the marks: versions, failed checks, tiers not run, an early
    end."""
    row = clean(record.row)
    lines = [f"{row}: {key_versions(record)}"]
    lines += [f"{row}: {ending(record)}"] if ending(record) else []
    for verdict in record.verdicts:
        lines += [f"{row}: {_failed(verdict.world, check)}" for check in verdict.failed]
    lines += [f"{row}: not run: {what}: {reason}" for reason, what in not_run(record).items()]
    return lines


def _failed(world: str, check: Check) -> str:
    name = clean(check.id)
    return f"failed: {world} {check.tier.value} {name}: {clean(check.detail)} (docs/checks.md#{name})"


def _rejected(rejection: Rejection) -> str:
    clash = ", ".join(f"{name} {value}" for name, value in rejection.clash)
    nearest = f"; nearest that works: {rejection.nearest}" if rejection.nearest else ""
    return clean(f"{rejection.id}: rejected by {rejection.rule} ({clash}): {rejection.reason}{nearest}")
