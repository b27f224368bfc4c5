"""Rules: each a row with a name, a source and a small function; the code only asks them in order.

A rule looks at values and answers with a Clash, with FITS, or with SILENT where it has nothing to say.
Rules on a Cell need no lock and no network; rules on a Lock read what the wheels brought; extra rules
speak of a constraint that is no field of a row, such as the driver of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from stackwright.model import Cell, Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two (or more) values that do not go together: (field, value) pairs and why."""

    values: tuple[tuple[str, str], ...]
    reason: str


class Said(StrEnum):
    """SILENT: a value that the rule is about is left out, or the tables do not know it."""

    FITS = "fits"
    REFUSES = "refuses"
    SILENT = "does not apply"


Answer = Clash | Said


class About(StrEnum):
    """What a rule is about: the stack wherever it runs, the base that it is built on, or this release."""

    STACK = "stack"
    BASE = "base"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRule:
    """``fields`` are all that ``ask`` reads: an answer holds for every cell with the same values there."""

    name: str
    about: About
    fields: tuple[str, ...]
    says: str
    source: str
    ask: Callable[[Cell], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRule:
    name: str
    says: str
    source: str
    ask: Callable[[Cell, Lock], Clash | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraRule:
    """``subject`` is the extra constraint that the rule is about; ``ask`` gets its value. ``fields`` are
    what it reads of the cell, ``instead`` is what goes with the cells that it refuses, in words."""

    name: str
    subject: str
    fields: tuple[str, ...]
    says: str
    source: str
    instead: str
    ask: Callable[[Cell, str], Answer]

    def about(self, value: str) -> CellRule:
        """The rule on cells that this one is for one value of its subject."""
        return CellRule(
            name=self.name,
            about=About.STACK,
            fields=self.fields,
            says=self.says,
            source=self.source,
            ask=lambda cell: self.ask(cell, value),
        )


def covers(declared: str | None, found: str) -> bool:
    """Whether a declared version, which may leave parts out, names the found one: 5.0 covers 5.0.7."""
    return declared is None or found == declared or found.startswith(declared + ".")
