"""Report a comparison of the tables with their sources: as text, as JSON, and as a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from stackwright.audit.facts.compare import Compared, Outcome, Tables
from stackwright.core.components.table import COMPONENTS
from stackwright.core.facts import distributions
from stackwright.core.facts.provenance import How, Provenance
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import CellRule, ExtraRule, LockRule
from stackwright.core.rules.table import CELL_RULES

LONGEST = 160  # characters of a value in a line


def document(compared: Sequence[Compared]) -> dict[str, Any]:
    """``facts --check --format json``."""
    counts = Counter(str(line.outcome) for line in compared)
    return {"version": 1, "counts": counts, "entries": [asdict(line) for line in compared]}


def shown(known: Tables) -> dict[str, Any]:
    """``facts --format json``: every entry as it is committed."""
    return {
        "version": 1,
        "tables": {
            table: [{"key": entry.key, "value": entry.value, **asdict(entry.fact)} for entry in entries]
            for table, entries in known.items()
        },
    }


def lines(compared: Iterable[Compared], *, every: bool = False) -> Iterator[str]:
    """Yield what differs and what could not be asked; with ``every`` what agrees as well."""
    for line in compared:
        if every or line.outcome is not Outcome.AGREES:
            yield f"{line.table} {line.key}: {line.outcome}: {_difference(line)}{line.source}"


def _difference(line: Compared) -> str:
    if line.outcome is Outcome.NEW:
        return f"{_short(line.found)}; "
    if line.outcome is Outcome.GONE:
        return f"it was {_short(line.had)}; "
    had, found = _different(line.had, line.found) if line.differs else ("", "")
    return f"{_short(had)} here, {_short(found)} there; " if line.differs else ""


def _different(had: str, found: str) -> tuple[str, str]:
    """Of values with names, those that differ alone."""
    one, other = json.loads(had), json.loads(found)
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return had, found
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return (
        json.dumps({name: one.get(name) for name in names}),
        json.dumps({name: other.get(name) for name in names}),
    )


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def summary(compared: Sequence[Compared]) -> str:
    counts = Counter(line.outcome for line in compared)
    differences = sum(line.differs for line in compared)
    return (
        f"{len(compared)} entries: {counts[Outcome.AGREES]} agree, {differences} differ, "
        f"{counts[Outcome.CANNOT]} cannot be asked"
    )


def page(compared: Sequence[Compared], today: str) -> str:
    """Return the report that is committed."""
    per_table = [
        f"| {table} | {' | '.join(str(count) for count in _counts(compared, table))} |"
        for table in dict.fromkeys(line.table for line in compared)
    ]
    body = [f"| {line.table} | {line.key} | {line.outcome} | {_cell(line)} |" for line in compared]
    return "\n".join(
        (
            f"# Facts, compared with their sources on {today}\n",
            "Made by `./build.py facts --check --report FILE`.\n",
            f"{summary(compared)}.\n",
            "| table | agree | differ | cannot be asked |",
            "|---|---|---|---|",
            *per_table,
            "",
            "## Every entry\n",
            "| table | entry | outcome | source, or why it cannot be asked |",
            "|---|---|---|---|",
            *body,
            "",
            "## Facts from documents, which no program can ask\n",
            "| fact | how | when |",
            "|---|---|---|",
            *(
                f"| {_escaped(document.source)} | {document.how} | {document.when} |"
                for document in from_documents()
            ),
            "",
        )
    )


def _counts(compared: Sequence[Compared], table: str) -> tuple[int, int, int]:
    own = [line for line in compared if line.table == table]
    agree, cannot = (
        sum(line.outcome is outcome for line in own) for outcome in (Outcome.AGREES, Outcome.CANNOT)
    )
    return agree, sum(line.differs for line in own), cannot


def _cell(line: Compared) -> str:
    return _escaped(f"{_difference(line)}{line.source}")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def from_documents() -> tuple[Provenance, ...]:
    """Return the facts of rules and of tables in the code that are not read by a program."""
    every: tuple[CellRule | LockRule | ExtraRule, ...] = (*CELL_RULES, *LOCK_RULES, *EXTRA_RULES)
    rules = (rule.fact for rule in every)
    rows = (row[2] for row in distributions.NVIDIA_IMAGES)
    tables = (fact for component in COMPONENTS for fact in (*component.facts, *component.tested))
    facts = dict.fromkeys((*rules, *rows, *tables, distributions.NVIDIA_COMPAT))
    return tuple(fact for fact in facts if fact.how is not How.READ)
