"""How often each step was executed over several rows: BuildKit shares steps, and this counts it. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stackwright.core.errors import StackwrightError
from stackwright.core.model.record import Record, Step
from stackwright.core.steps.names import of_record
from stackwright.engines.buildkit.progress import SLACK
from stackwright.engines.buildkit.steps import INSTRUCTION
from stackwright.records.files import load
from stackwright.records.report.wording import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A step that was executed more than once; ``rows`` are those that have it."""

    name: str
    times: int
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """``steps`` is the sum over ``rows``. Of the ``distinct`` ones, ``executed`` ran in the solve of one of
    the rows, ``cached`` in none of them. ``untold`` are rows whose record does not tell steps apart.

    The steps of a build that failed are in no record, and so are not counted."""

    rows: int
    steps: int
    distinct: int
    executed: int
    cached: int
    repeated: tuple[Repeated, ...]
    untold: tuple[str, ...]


def sharing(records: Iterable[Record]) -> Sharing:
    """Of the instructions that do something: FROM and the export of an image are not counted.

    A step is the same in two rows if its text, what it builds on and the files that it reads are. Executed
    more than once is one that BuildKit executed under two digests, or under one at two times.
    """
    found: dict[str, list[tuple[str, Step]]] = {}
    untold, names = list[str](), dict[str, str]()
    for record in (records := tuple(records)):
        steps = [pair for pair in zip(of_record(record), record.steps, strict=True) if _works(pair[1])]
        untold += [] if steps else [record.row]
        for name, step in steps:
            found.setdefault(step.identity, []).append((record.row, step))
            names.setdefault(step.identity, name)
    times = {identity: executions([step for _, step in seen]) for identity, seen in found.items()}
    repeated = (
        Repeated(
            name=names[identity], times=times[identity], rows=tuple(dict.fromkeys(row for row, _ in seen))
        )
        for identity, seen in found.items()
        if times[identity] > 1
    )
    return Sharing(
        rows=len(records) - len(untold),
        steps=sum(map(len, found.values())),
        distinct=len(found),
        executed=sum(count > 0 for count in times.values()),
        cached=sum(count == 0 for count in times.values()),
        repeated=tuple(repeated),
        untold=tuple(untold),
    )


def executions(steps: Iterable[Step]) -> int:
    """Return how often a step ran, told by all rows that have it: solves at one time tell one execution
    each."""
    ran = ((step.digest, datetime.fromisoformat(step.started), step) for step in steps if step.started)
    count, last, until = 0, "", datetime.min.replace(tzinfo=UTC)
    for digest, started, step in sorted(ran, key=lambda run: run[:2]):
        if step.cached:
            continue
        end = started + timedelta(seconds=step.seconds)
        if digest != last or started > until + SLACK:
            count, last, until = count + 1, digest, end
        until = max(until, end)
    return count


def sentence(found: Sharing) -> str:
    """One line for a person, and one for each step that ran more than once; empty if nothing is known."""
    if not found.rows:
        return ""
    twice = f"{len(found.repeated)} more than once" if found.repeated else "none twice"
    line = (
        f"steps: {found.steps} in {plural(found.rows, 'row')}, {found.distinct} distinct: "
        f"{found.executed} executed, {found.cached} from the cache, {twice}"
    )
    line += f"; nothing is known of {plural(len(found.untold), 'row')}" if found.untold else ""
    more = [
        f"  {repeated.times} times, in {', '.join(repeated.rows)}: {repeated.name}"
        for repeated in found.repeated
    ]
    return "\n".join([line, *more])


def of_files(paths: Iterable[str]) -> str:
    return sentence(sharing(load(Path(path)) for path in paths))


def _works(step: Step) -> bool:
    match = INSTRUCTION.match(step.name) if step.identity else None
    return match is not None and not match[1].startswith("FROM ")


if __name__ == "__main__":  # of records anywhere, such as those in docs/results
    try:
        print(of_files(sys.argv[1:]))
    except StackwrightError as error:
        sys.exit(f"error: {error}")
