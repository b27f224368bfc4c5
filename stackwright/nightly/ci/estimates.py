"""How long a row takes, step by step: from records where there are any, else as others took. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from stackwright.core.model.record import Phase, Record
from stackwright.core.render.instructions import Instruction, instructions
from stackwright.host.project import Planned

STEP = re.compile(r"\[(?P<stage>\S+) (?P<number>\d+)/\d+\]")
FIRST_GUESS = 60.0
"""Seconds of a step that is in no record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Seconds of one row: ``shared`` by the identity of each instruction, ``own`` of what comes after."""

    row: str
    shared: Mapping[str, float]
    own: float


def works(rows: Iterable[Planned], records: Iterable[Record]) -> tuple[Work, ...]:
    """``records``: of any rows and any age. A row that has one is estimated from it alone, as far as it goes;
    what was found in a cache tells nothing of how long it takes."""
    known = tuple(records)
    everyone = _Seconds(known)
    return tuple(
        _work(row, _Seconds([record for record in known if record.row == row.stack.id]), everyone)
        for row in rows
    )


def unplanned(rows: Iterable[str], planned: Iterable[Work]) -> tuple[Work, ...]:
    """Of rows that have no recipe before a night made their lock: as long as the longest of the others."""
    longest = max((sum(work.shared.values()) + work.own for work in planned), default=FIRST_GUESS)
    return tuple(Work(row=row, shared={}, own=longest) for row in rows)


class _Seconds:
    def __init__(self, records: Iterable[Record]) -> None:
        self._steps: dict[tuple[str, int], list[float]] = {}
        self._after: list[float] = []
        for record in records:
            after = [
                timing.seconds for timing in record.timings if timing.phase not in (Phase.BASE, Phase.BUILD)
            ]
            self._after += [sum(after)] if after else []
            for step in record.steps:
                if (match := STEP.match(step.name)) and not step.cached:
                    self._steps.setdefault((match["stage"], int(match["number"])), []).append(step.seconds)

    def step(self, instruction: Instruction) -> float | None:
        told = self._steps.get((instruction.stage, instruction.number))
        return median(told) if told else None

    @property
    def after(self) -> float | None:
        return median(self._after) if self._after else None


def _work(row: Planned, own: _Seconds, everyone: _Seconds) -> Work:
    shared = {
        instruction.identity: _first(own.step(instruction), everyone.step(instruction))
        for instruction in instructions(row.recipe)
    }
    return Work(row=row.stack.id, shared=shared, own=_first(own.after, everyone.after))


def _first(*told: float | None) -> float:
    return next((seconds for seconds in told if seconds is not None), FIRST_GUESS)
