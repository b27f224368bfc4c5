"""The answer of the morning for a person: plain text, and markdown for the summary of a CI job. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stackwright.core.model.night import (
    DIGESTS,
    UPSTREAM,
    Change,
    Difference,
    Failure,
    Morning,
    RowNight,
    State,
)
from stackwright.core.steps.names import of_recorded
from stackwright.records.report.wording import clean, duration, plural, size

NAMED = 20
"""So many unchanged rows are named; more are counted."""

FOLLOWING = 12
"""Changes of a row that get a line each; the JSON has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """``head`` is of one row or one change, ``lines`` say more of it."""

    head: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    items: tuple[Item, ...]


def text(morning: Morning) -> str:
    """For a terminal or a log."""
    lines = [_headline(morning)]
    for section in sections(morning):
        lines += ["", section.title]
        for item in section.items:
            lines.append(f"  {clean(item.head)}")
            lines += [f"      {clean(line)}" for line in item.lines]
    return "\n".join(lines) + "\n"


def markdown(morning: Morning) -> str:
    """For a job's summary. What comes from outside cannot become markup in it."""
    lines = [f"## {_quoted(_headline(morning))}"]
    for section in sections(morning):
        lines += ["", f"### {_quoted(section.title)}", ""]
        for item in section.items:
            lines.append(f"- **{_quoted(item.head)}**")
            lines += [f"  - {_quoted(line)}" for line in item.lines]
    return "\n".join(lines) + "\n"


def sections(morning: Morning) -> Iterator[Section]:
    """Those that have something to say, what needs a person first."""
    margins = morning.margins
    crossed = f"by more than {margins.size:g} % of the bytes or {margins.time:g} % of the time"
    named: tuple[tuple[str, Iterable[Item]], ...] = (
        ("Failed", map(_failed, morning.of(State.FAILED))),
        ("Newly impossible", (_impossible(row) for row in morning.of(State.IMPOSSIBLE) if row.new)),
        ("Not resolved", map(_failed, morning.of(State.UNRESOLVED))),
        ("Not published", map(_unpublished, (row for row in morning.rows if row.unpublished))),
        ("Definition file failed", map(_definition, (row for row in morning.rows if row.definition))),
        ("Changed upstream", (_upstream(change, rows) for change, rows in morning.upstream)),
        ("Rebuilt", map(_rebuilt, morning.of(State.REBUILT))),
        (f"Slower, faster, larger, smaller ({crossed})", _differing(morning)),
        ("Published", (_pushed(row) for row in morning.rows if row.pushed)),
        ("Impossible as before", (_impossible(row) for row in morning.of(State.IMPOSSIBLE) if not row.new)),
        ("No longer in the matrix", (Item(head=row.row) for row in morning.of(State.GONE))),
        ("Unchanged", _unchanged(morning.of(State.UNCHANGED))),
    )
    for title, items in named:
        if found := tuple(items):
            yield Section(title=title, items=found)


def _headline(morning: Morning) -> str:
    counts = {state: len(morning.of(state)) for state in State}
    told = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
    asked = "; upstream was not asked, the locks are those of the project" if morning.locked else ""
    return f"Night of {morning.started}: {plural(len(morning.rows), 'row')}: {told}{asked}"


def change_text(change: Change) -> str:
    """Return one change as text: "package numpy 2.2.3 -> 2.2.4"."""
    name = f"{change.kind.value} {change.name}"
    if not change.old:
        return f"{name} is new" + ("" if change.kind in DIGESTS else f": {change.new}")
    if not change.new:
        return f"{name} is gone" + ("" if change.kind in DIGESTS else f", it was {change.old}")
    return f"{name} changed" if change.kind in DIGESTS else f"{name} {change.old} -> {change.new}"


def _upstream(change: Change, rows: tuple[str, ...]) -> Item:
    return Item(head=change_text(change), lines=(f"in {_rows(rows)}",))


def _rows(rows: tuple[str, ...]) -> str:
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return ", ".join(rows[:NAMED]) + more


def _rebuilt(row: RowNight) -> Item:
    took = f" ({duration(row.seconds)})" if row.seconds else ""
    return Item(head=f"{row.row}: {row.why}{took}", lines=(*_because(row), *_stages(row), *row.notes))


def _because(row: RowNight) -> Iterator[str]:
    """First what was changed here, then what came with it, or moved by itself upstream."""
    ours = [change for change in row.changes if change.kind not in UPSTREAM]
    theirs = [change for change in row.changes if change.kind in UPSTREAM]
    yield from (f"because {change_text(change)}" for change in ours[:FOLLOWING])
    if theirs and not ours:
        yield f"because the lock changed: {'; '.join(change_text(change) for change in theirs[:FOLLOWING])}"
    elif theirs:
        yield f"and with it {'; '.join(change_text(change) for change in theirs[:FOLLOWING])}"
    left = max(0, len(ours) - FOLLOWING) + max(0, len(theirs) - FOLLOWING)
    if left:
        yield f"and {plural(left, 'more change')}"


def _stages(row: RowNight) -> Iterator[str]:
    ran = [f"{stage.name} ({plural(stage.executed, 'step')})" for stage in row.stages if stage.executed]
    had = [stage.name for stage in row.stages if not stage.executed]
    if row.stages:
        yield f"stages built: {', '.join(ran) or 'none'}; from the cache: {', '.join(had) or 'none'}"


def _failed(row: RowNight) -> Item:
    failure = row.failure
    assert failure, "a row that failed says how"
    again = "" if row.new else " (as in the night before)"
    where = f" in the phase {failure.phase}" if failure.phase else ""
    return Item(head=f"{row.row}{where}{again}: {failure.reason}", lines=(*_known(failure), *_because(row)))


def _known(failure: Failure) -> Iterator[str]:
    if failure.known:
        yield f"known cause: {failure.known} ({failure.source})"
    if failure.hint:
        yield f"next: {failure.hint}"
    if failure.log:
        yield f"the whole log: {failure.log}"


def _unpublished(row: RowNight) -> Item:
    assert row.unpublished
    return Item(head=f"{row.row}: {row.unpublished.reason}", lines=tuple(_known(row.unpublished)))


def _definition(row: RowNight) -> Item:
    line = f"not in this night; again: ./build.py sif {row.row} --from def"
    return Item(head=f"{row.row}: {row.definition}", lines=(line,))


def _impossible(row: RowNight) -> Item:
    found = row.rejection
    assert found, "an impossible row says by which rule"
    clash = " with ".join(f"{name} {value}" for name, value in found.clash)
    lines = [f"rule: {found.rule} ({found.source})", f"clash: {clash}"]
    lines += [f"nearest: {found.nearest}"] if found.nearest else []
    return Item(head=f"{row.row}: {found.reason}", lines=(*lines, *_because(row)))


def _differing(morning: Morning) -> Iterator[Item]:
    for row in morning.rows:
        if row.differences:
            yield Item(head=row.row, lines=tuple(map(_difference, row.differences)))


def _difference(difference: Difference) -> str:
    shown = (
        (size(int(difference.old)), size(int(difference.new)))
        if difference.unit == "bytes"
        else (duration(difference.old), duration(difference.new))
    )
    part = f" ({(difference.new - difference.old) / difference.old * 100:+.0f} %)" if difference.old else ""
    return f"{of_recorded(difference.what)} is {difference.word}: {shown[0]} -> {shown[1]}{part}"


def _pushed(row: RowNight) -> Item:
    assert row.pushed
    lines = (
        f"tags: {', '.join(row.pushed.tags)}",
        f"{size(row.pushed.sent_bytes)} sent, {size(row.pushed.present_bytes)} were there",
        *_pull(row.pushed.pull_bytes),
    )
    return Item(head=f"{row.row}: {row.pushed.reference}", lines=lines)


def _pull(lacked: int | None) -> Iterator[str]:
    if lacked is not None:
        yield f"a node that has the image before it pulls {size(lacked)}"


def _unchanged(rows: tuple[RowNight, ...]) -> Iterator[Item]:
    if rows:
        names = tuple(row.row for row in rows)
        yield Item(head=_rows(names) if len(rows) <= NAMED else plural(len(rows), "row"))


def _quoted(line: str) -> str:
    return re.sub(r"([\\`*_{}\[\]#|<>~$&@])", r"\\\1", clean(line))
