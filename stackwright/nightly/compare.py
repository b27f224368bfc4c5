"""What a night came to, as a value: the answer of the morning, compared with the last night. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from stackwright.core.model.row import Rejection
from stackwright.nightly.inputs import UPSTREAM, Change, Kind
from stackwright.records.history.builds import Build

STAGE = re.compile(r"\[([A-Za-z0-9_.-]+) \d+/\d+\] (?!FROM )")
SMALLEST_BYTES, SMALLEST_SECONDS = 10**6, 5.0
"""Differences below these say nothing, whatever part of the whole they are."""


class State(StrEnum):
    """What became of a row in a night."""

    REBUILT = "rebuilt"
    FAILED = "failed"
    UNRESOLVED = "not resolved"
    IMPOSSIBLE = "impossible"
    UNCHANGED = "unchanged"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """In per cent of what it was."""

    size: float = 5.0
    time: float = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """``unit`` is "bytes" or "seconds"; ``what`` names the image, the SIF, a component, a phase or a step."""

    what: str
    unit: str
    old: float
    new: float

    @property
    def word(self) -> str:
        more, less = {"bytes": ("larger", "smaller"), "seconds": ("slower", "faster")}[self.unit]
        return more if self.new > self.old else less


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """``known``: the cause's name in core/facts/build_failures.py. It and ``log``, a path, may be empty."""

    phase: str
    reason: str
    exit_code: int
    known: str = ""
    hint: str = ""
    source: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How many steps of a stage of the Dockerfile ran, and how many were there already."""

    name: str
    executed: int
    cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    reference: str
    digest: str
    tags: tuple[str, ...]
    sent_bytes: int
    present_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNight:
    """One row. ``why`` it was worked on, in words; ``changes`` since ``baseline``, the last complete build.

    ``new``: it was not so in the night before. ``lock`` is the sha256 of the lock that the key was made with.
    ``build`` and ``baseline`` name records. ``unpublished`` says why what passed is not in the registry.
    """

    row: str
    state: State
    new: bool = False
    why: str = ""
    key: str = ""
    lock: str = ""
    build: str = ""
    baseline: str = ""
    changes: tuple[Change, ...] = ()
    differences: tuple[Difference, ...] = ()
    stages: tuple[Stage, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    failure: Failure | None = None
    rejection: Rejection | None = None
    pushed: Pushed | None = None
    unpublished: Failure | None = None

    @property
    def edited(self) -> bool:
        """Whether a person changed the row: then its packages did not change by themselves."""
        return any(change.kind is Kind.VALUE for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """``locked``: the locks were taken as they are, and upstream was not asked."""

    version: int = 1
    run: str
    started: str
    finished: str
    matrix: str
    locked: bool
    margins: Margins
    rows: tuple[RowNight, ...]

    def of(self, state: State) -> tuple[RowNight, ...]:
        return tuple(row for row in self.rows if row.state is state)

    @property
    def upstream(self) -> tuple[tuple[Change, tuple[str, ...]], ...]:
        """What moved without anyone here, with the rows that it moved in."""
        found: dict[Change, list[str]] = {}
        for row in self.rows:
            for change in row.changes if not row.edited else ():
                if change.kind in UPSTREAM:
                    found.setdefault(change, []).append(row.row)
        return tuple((change, tuple(rows)) for change, rows in found.items())


def why_to_work(
    last: Build | None, key: str, *, checks: str, worlds: tuple[str, ...], sif: bool
) -> str:  # fmt: skip
    """Why a row is to be worked on; empty if the last complete build is what would be made again.

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
    """What crossed the margins. Times are compared where the machine is of the same class."""
    sizes = (*_sizes(old, new),)
    times = (*_times(old, new),) if old.host == new.host else ()
    return tuple(one for one in (*sizes, *times) if _crosses(one, margins))


def _crosses(one: Difference, margins: Margins) -> bool:
    part, least = {
        "bytes": (margins.size, SMALLEST_BYTES), "seconds": (margins.time, SMALLEST_SECONDS)
    }[one.unit]  # fmt: skip
    moved = abs(one.new - one.old)
    return moved >= least and moved * 100 > one.old * part


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
        if found := STAGE.match(name):
            counts.setdefault(found[1], [0, 0])[cached] += 1
    return tuple(Stage(name=name, executed=ran, cached=had) for name, (ran, had) in sorted(counts.items()))


def exit_code(morning: Morning) -> int:
    """0 if nothing is wrong that was not so last night: an impossible row fails the first night only."""
    for row in morning.rows:
        for failure in (row.failure, row.unpublished):
            if failure:
                return failure.exit_code
    return 5 if any(row.new for row in morning.of(State.IMPOSSIBLE)) else 0


def together(mornings: Iterable[Morning]) -> Morning:
    """One morning of the shards of a night; of a row that is in several, the one that started last."""
    ordered = sorted(mornings, key=lambda one: one.started)
    rows = {row.row: row for one in ordered for row in one.rows}
    first, last = ordered[0], max(ordered, key=lambda one: one.finished)
    return Morning(
        run=" ".join(one.run for one in ordered), started=first.started, finished=last.finished,
        matrix=" ".join(dict.fromkeys(one.matrix for one in ordered)),
        locked=all(one.locked for one in ordered), margins=first.margins,
        rows=tuple(rows[row] for row in sorted(rows)),
    )  # fmt: skip
