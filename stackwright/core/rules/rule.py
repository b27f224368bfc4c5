"""Rules: each a row with a name, a source and a small function; the code only asks them in order.

A rule looks at values and answers with a Clash, with FITS, or with SILENT where it has nothing to say.
Rules on a Cell need no lock and no network; rules on a Lock read what the wheels brought; extra rules
speak of a constraint that is no field of a row, such as the driver of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from stackwright.core.facts.provenance import How, Provenance
from stackwright.core.model.row import Cell, Lock


class Ruling(StrEnum):
    """What an answer means.

    WARNS: the values clash by a fact that is unchecked, or they work together at a cost. UNKNOWN: a value is
    in no table, so that no rule can tell whether it works. ALLOWED: the values clash by a document, and a
    person said --allow. SILENT: a value that the rule is about is left out, or the tables do not know it.
    """

    FITS = "fits"
    REFUSES = "refuses"
    UNKNOWN = "does not know"
    WARNS = "warns"
    ALLOWED = "is allowed"
    SILENT = "does not apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two (or more) values that do not go together: (field, value) pairs and why.

    ``fact`` is the entry of a table that the clash rests on; None: it rests on the rule's own fact.
    ``said`` is REFUSES, WARNS where the values work together at a cost, or UNKNOWN.
    """

    values: tuple[tuple[str, str], ...]
    reason: str
    fact: Provenance | None = None
    said: Ruling = Ruling.REFUSES


Answer = Clash | Ruling


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
    fact: Provenance
    ask: Callable[[Cell], Answer]

    @property
    def source(self) -> str:
        return self.fact.source


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRule:
    name: str
    says: str
    fact: Provenance
    ask: Callable[[Cell, Lock], Clash | None]

    @property
    def source(self) -> str:
        return self.fact.source


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraRule:
    """``subject`` is the extra constraint that the rule is about; ``ask`` gets its value. ``fields`` are
    what it reads of the cell, ``instead`` is what goes with the cells that it refuses, as text."""

    name: str
    subject: str
    fields: tuple[str, ...]
    says: str
    fact: Provenance
    instead: str
    ask: Callable[[Cell, str], Answer]

    def about(self, value: str) -> CellRule:
        """Return the rule on cells that this one is for one value of its subject."""
        return CellRule(
            name=self.name,
            about=About.STACK,
            fields=self.fields,
            says=self.says,
            fact=self.fact,
            ask=lambda cell: self.ask(cell, value),
        )


Rule = CellRule | LockRule


def weigh(rule: Rule, answer: Answer, allowed: Collection[str] = ()) -> Ruling:
    """Return what an answer means: a clash refuses unless its fact is unchecked, or documented and
    allowed."""
    if not isinstance(answer, Clash):
        return answer
    if answer.said is not Ruling.REFUSES:
        return answer.said
    how = fact_of(rule, answer).how
    if how is How.UNCHECKED:
        return Ruling.WARNS
    return Ruling.ALLOWED if how is How.DOCUMENTED and rule.name in allowed else Ruling.REFUSES


def fact_of(rule: Rule, clash: Clash) -> Provenance:
    """Return the fact that a clash rests on."""
    return clash.fact or rule.fact
