"""Values of a night: inputs, what changed, and the state of each row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from stackwright.core.model.row import Rejection


class Kind(StrEnum):
    """What goes into a key: what a person wrote, what upstream has, what the project brings."""

    VALUE = "matrix value"
    BASE = "base"
    DISTRIBUTION = "distribution package"
    PACKAGE = "package"
    COMPILER = "compiler package"
    FILES = "locked files"
    PATCH = "patch"
    SOURCE = "source"
    TEMPLATE = "template"
    SCRIPT = "script"
    CONTEXT = "context"
    DECLARED = "declared"


UPSTREAM = (Kind.BASE, Kind.DISTRIBUTION, Kind.PACKAGE, Kind.COMPILER, Kind.FILES)
"""Inputs that change upstream: the answers of mirror and index."""


ORDER = {kind: number for number, kind in enumerate(Kind)}


DIGESTS = frozenset((Kind.FILES, Kind.PATCH, Kind.SOURCE, Kind.TEMPLATE, Kind.SCRIPT, Kind.CONTEXT))
"""Kinds whose values are digests: that they differ says all."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Input:
    kind: Kind
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``old`` or ``new`` is empty where there was or is none."""

    kind: Kind
    name: str
    old: str
    new: str


class State(StrEnum):
    """The result of a row in a night."""

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
    pull_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNight:
    """One row. ``why`` it was worked on, as text; ``changes`` since ``baseline``, the last complete build.

    ``new``: it was not so in the night before. ``lock`` is the sha256 of the lock that the key was made with.
    ``build`` and ``baseline`` name records. ``unpublished`` says why what passed is not in the registry,
    ``definition`` why the last build from the definition file of this key failed.
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
    definition: str = ""

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
        """Return what changed upstream, with the rows that it changed."""
        found: dict[Change, list[str]] = {}
        for row in self.rows:
            for change in row.changes if not row.edited else ():
                if change.kind in UPSTREAM:
                    found.setdefault(change, []).append(row.row)
        return tuple((change, tuple(rows)) for change, rows in found.items())


def combine(mornings: Iterable[Morning]) -> Morning:
    """One morning of the shards of a night; of a row that is in several, the one that started last."""
    ordered = sorted(mornings, key=lambda morning: morning.started)
    rows = {row.row: row for morning in ordered for row in morning.rows}
    first, last = ordered[0], max(ordered, key=lambda morning: morning.finished)
    return Morning(
        run=" ".join(morning.run for morning in ordered), started=first.started, finished=last.finished,
        matrix=" ".join(dict.fromkeys(morning.matrix for morning in ordered)),
        locked=all(morning.locked for morning in ordered), margins=first.margins,
        rows=tuple(rows[row] for row in sorted(rows)),
    )  # fmt: skip
