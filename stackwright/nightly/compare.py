"""Compare a night with the last one: reasons to build, differences, the exit code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stackwright.core.errors import RejectedError
from stackwright.core.model.night import Difference, Margins, Morning, Stage, State
from stackwright.records.history.builds import Build

STAGE = re.compile(r"\[([A-Za-z0-9_.-]+) \d+/\d+\] (?!FROM )")
SMALLEST_BYTES, SMALLEST_SECONDS = 10**6, 5.0
"""Differences below these say nothing, whatever part of the whole they are."""


def why_to_work(
    last: Build | None, key: str, *, checks: str, worlds: tuple[str, ...], sif: bool
) -> str:  # fmt: skip
    """Return why a row is to be worked on; empty if the last complete build is what would be made again.

    ``worlds`` are those that must be proven; ``checks`` is the digest of what judges today.
    """
    if last is None:
        return "it was never finished before"
    if last.key != key:
        return "its key changed"
    if worlds and last.checks != checks:
        return "the probes or the checks changed"
    missing = [world for world in worlds if world not in last.proven]
    if sif and not last.has_sif:
        missing.append("sif")
    return f"not done yet: {', '.join(missing)}" if missing else ""


def differences(old: Build, new: Build, margins: Margins) -> tuple[Difference, ...]:
    """Return what crossed the margins. Times are compared where the machine is of the same class."""
    sizes = (*_sizes(old, new),)
    times = (*_times(old, new),) if old.host == new.host else ()
    return tuple(difference for difference in (*sizes, *times) if _crosses(difference, margins))


def _crosses(difference: Difference, margins: Margins) -> bool:
    part, least = {
        "bytes": (margins.size, SMALLEST_BYTES), "seconds": (margins.time, SMALLEST_SECONDS)
    }[difference.unit]  # fmt: skip
    moved = abs(difference.new - difference.old)
    return moved >= least and moved * 100 > difference.old * part


def _sizes(old: Build, new: Build) -> Iterator[Difference]:
    before = {(kind, name): count for kind, name, count in old.sizes}
    for kind, name, count in new.sizes:
        if (kind, name) in before:
            what = name if kind == "component" else kind
            yield Difference(what=what, unit="bytes", old=before[kind, name], new=count)


def _times(old: Build, new: Build) -> Iterator[Difference]:
    """The build as a whole depends on what was cached: its steps are compared, where they ran both times."""
    before = dict(old.seconds)
    for phase, seconds in new.seconds:
        if phase in before and phase not in ("base", "build"):
            yield Difference(what=phase, unit="seconds", old=before[phase], new=seconds)
    ran = {name: seconds for name, seconds, cached in old.steps if not cached}
    for name, seconds, cached in new.steps:
        if name in ran and not cached:
            yield Difference(what=name, unit="seconds", old=ran[name], new=seconds)


def stages(new: Build) -> tuple[Stage, ...]:
    """By name; FROM and the export of the image are no steps."""
    counts: dict[str, list[int]] = {}
    for name, _, cached in new.steps:
        if match := STAGE.match(name):
            counts.setdefault(match[1], [0, 0])[cached] += 1
    return tuple(Stage(name=name, executed=ran, cached=had) for name, (ran, had) in sorted(counts.items()))


def exit_code(morning: Morning) -> int:
    """0 if nothing is wrong that was not so last night: an impossible row fails the first night only."""
    for row in morning.rows:
        for failure in (row.failure, row.unpublished):
            if failure:
                return failure.exit_code
    return RejectedError.exit_code if any(row.new for row in morning.of(State.IMPOSSIBLE)) else 0
