"""Compare the committed tables with their sources: an entry agrees, differs, or cannot be checked. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from packaging.version import InvalidVersion, Version

from stackwright.audit.facts.sources import Answer
from stackwright.core.facts.entries import Entry
from stackwright.core.facts.provenance import How, read

Tables = Mapping[str, tuple[Entry, ...]]


class Outcome(StrEnum):
    """NEW is a difference as well: the source has an entry that the table lacks. GONE is the reverse."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NEW = "is new"
    GONE = "is gone"
    CANNOT = "cannot be asked"


DIFFERENCES = (Outcome.DIFFERS, Outcome.NEW, Outcome.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """``had`` is the table's value and ``found`` the source's, as JSON; empty where there is none."""

    table: str
    key: str
    outcome: Outcome
    had: str
    found: str
    source: str

    @property
    def differs(self) -> bool:
        return self.outcome in DIFFERENCES


def compare(tables: Tables, answers: Iterable[Answer]) -> tuple[Compared, ...]:
    """One line for each answer, and one for each entry that no source answered for."""
    said = tuple(answers)
    known = {(table, entry.key): entry for table, entries in tables.items() for entry in entries}
    lines = [_compared(known.get((answer.table, answer.key)), answer) for answer in said]
    away = dict.fromkeys(tables.keys() - {answer.table for answer in said}, "no source was asked")
    away |= {answer.table: answer.why for answer in said if answer.why}
    asked = {(answer.table, answer.key) for answer in said}
    rest = (_unanswered(place[0], entry, away) for place, entry in known.items() if place not in asked)
    return tuple(sorted((*lines, *rest), key=lambda line: (line.table, order(line.key))))


def _compared(entry: Entry | None, answer: Answer) -> Compared:
    had, found = (_text(entry.value) if entry else ""), _text(answer.value)
    if answer.why:
        outcome, found, source = Outcome.CANNOT, "", answer.why
    else:
        outcome = Outcome.NEW if not entry else Outcome.AGREES if had == found else Outcome.DIFFERS
        source = answer.source
    return Compared(table=answer.table, key=answer.key, outcome=outcome, had=had, found=found, source=source)


def _unanswered(table: str, entry: Entry, away: Mapping[str, str]) -> Compared:
    """An entry from a document has no source to ask. One that was read is gone, if its table was asked."""
    was_read = entry.fact.how is How.READ
    gone = was_read and table not in away
    source = away[table] if was_read and not gone else str(entry.fact)
    return Compared(
        table=table, key=entry.key, outcome=Outcome.GONE if gone else Outcome.CANNOT,
        had=_text(entry.value), found="", source=source,
    )  # fmt: skip


def updated(tables: Tables, answers: Iterable[Answer], today: str) -> dict[str, tuple[Entry, ...]]:
    """Return the tables as their sources have them now.

    What did not change keeps the day on which it was read.
    """
    said = tuple(answers)
    gone = {(line.table, line.key) for line in compare(tables, said) if line.outcome is Outcome.GONE}
    new = {table: {entry.key: entry for entry in entries} for table, entries in tables.items()}
    for table, key in gone:
        del new[table][key]
    for (table, key), value in _values(said).items():
        old = new.setdefault(table, {}).get(key)
        if old is None or old.value != value or old.fact.how is not How.READ:
            sources = "; ".join(
                answer.source
                for answer in said
                if (answer.table, answer.key) == (table, key) and not answer.why
            )
            new[table][key] = Entry(key=key, value=value, fact=read(sources, today))
    return {
        table: tuple(sorted(entries.values(), key=lambda entry: order(entry.key)))
        for table, entries in new.items()
    }


def _values(answers: Iterable[Answer]) -> dict[tuple[str, str], Any]:
    """By table and key; of two sources the first counts, and the comparison shows where they differ."""
    found: dict[tuple[str, str], Any] = {}
    for answer in answers:
        if not answer.why:
            found.setdefault((answer.table, answer.key), json.loads(json.dumps(answer.value)))
    return found


def _text(value: Any) -> str:
    return "" if value is None else json.dumps(value)


def order(key: str) -> tuple[int, Version | str]:
    try:
        return 0, Version(key)
    except InvalidVersion:
        return 1, key
