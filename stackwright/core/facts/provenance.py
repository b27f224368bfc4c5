"""How each fact of the tables was obtained, and what a rule may do with a fact of that kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class How(StrEnum):
    """READ: from the primary source itself, by a program that can read it again. DOCUMENTED: a document or
    another project says so. UNCHECKED: it was not read; such a fact warns and never refuses."""

    READ = "read"
    DOCUMENTED = "documented"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """``when`` is the day on which the source was read, as 2026-11-22; empty: each time anew."""

    how: How
    source: str
    when: str

    def __str__(self) -> str:
        return f"{self.source} ({' '.join(filter(None, (self.how, self.when)))})"


def read(source: str, when: str) -> Provenance:
    return Provenance(how=How.READ, source=source, when=when)


def documented(source: str, when: str) -> Provenance:
    return Provenance(how=How.DOCUMENTED, source=source, when=when)


def unchecked(source: str, when: str) -> Provenance:
    return Provenance(how=How.UNCHECKED, source=source, when=when)


WEAKEST_FIRST = (How.UNCHECKED, How.DOCUMENTED, How.READ)


def weakest(*facts: Provenance) -> Provenance:
    """Return the provenance of a conclusion: it is as good as the weakest fact that it rests on."""
    return min(facts, key=lambda fact: WEAKEST_FIRST.index(fact.how))
