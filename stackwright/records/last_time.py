"""How long a row's phases and steps took when they last ran, for the person who waits for them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from stackwright.core.errors import RecordError
from stackwright.core.model.record import Phase
from stackwright.core.steps.names import of_record
from stackwright.records import files

LOOKED_AT = 5
"""Records of the row, the newest first: what is in none of them was long ago."""

SHORTEST = 5.0
"""Seconds below which an estimate is of no use."""

CACHED = (Phase.BASE, Phase.BUILD)
"""Phases whose time says how much was there already, and not how long the next one takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTime:
    """Seconds by phase, and by the name of a step that was executed."""

    phases: dict[Phase, float]
    steps: dict[str, float]


def last_time(folder: Path, row: str, *, definition: bool = False) -> LastTime:
    """``folder`` is that of all records. A file that cannot be read tells nothing."""
    phases, steps = dict[Phase, float](), dict[str, float]()
    for path in islice(reversed(files.of_row(folder, row, definition=definition)), LOOKED_AT):
        with contextlib.suppress(RecordError):
            record = files.load(path)
            for timing in record.timings:
                if timing.phase not in CACHED and timing.seconds >= SHORTEST:
                    phases.setdefault(timing.phase, timing.seconds)
            for step, name in zip(record.steps, of_record(record), strict=True):
                if not step.cached and step.outcome == "done" and step.seconds >= SHORTEST:
                    steps.setdefault(name, step.seconds)
    return LastTime(phases=phases, steps=steps)
