"""Rules: each a row with a name, a source and a small function; the code only asks them in order.

A rule looks at values and answers with a Clash or None. Rules on a Cell need no lock and no network;
rules on a Lock read what the wheels brought.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stackwright.model import Cell, Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two (or more) values that do not go together: (field, value) pairs and why."""

    values: tuple[tuple[str, str], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRule:
    name: str
    source: str
    ask: Callable[[Cell], Clash | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRule:
    name: str
    source: str
    ask: Callable[[Cell, Lock], Clash | None]


def covers(declared: str | None, found: str) -> bool:
    """Whether a declared version, which may leave parts out, names the found one: 5.0 covers 5.0.7."""
    return declared is None or found == declared or found.startswith(declared + ".")
