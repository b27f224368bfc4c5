"""The nearest rows that work: each is checked, as a user would paste it, before it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from stackwright.core.components.table import versions
from stackwright.core.config.change import changes, settings
from stackwright.core.config.setting import Question, question
from stackwright.core.model.row import Cell
from stackwright.core.resolve.nearest import nearest
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.rule import About, CellRule, Ruling, weigh
from stackwright.core.rules.table import CELL_RULES, EVERYWHERE, OF_RELEASE, refuses


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """``kept`` is the field that stays, ``changes`` what differs from the question, as text. ``settings``
    are what ``--set`` takes to get there from the row of the matrix; empty where it is not in the matrix."""

    kept: str
    changes: tuple[str, ...]
    settings: tuple[str, ...] = ()


def ways(row: Cell, asked: Question, extras: tuple[CellRule, ...]) -> tuple[Way, ...]:
    """Rows that work, those that keep what a person set first. ``extras`` are the rules on asked.extras."""
    rules = (*extras, *CELL_RULES) if extras else CELL_RULES
    frameworks = frozenset(versions(asked.cell))
    found = list(_others(asked))
    for kept, keep, chosen in (
        ("keeping what was set", frozenset[str](), asked.chosen),
        ("fewest changes", frozenset[str](), frozenset[str]()),
        ("with every framework", frameworks, frozenset[str]()),
    ):
        near = nearest(asked.cell, rules, keep=keep, chosen=chosen)
        way = _way(row, asked, near.cell, kept) if near else None
        if way and way.settings not in [known.settings for known in found]:
            found.append(way)
    return (*found, *_elsewhere(asked, extras, frameworks))


def nearest_way(row: Cell) -> Way | None:
    """Return the row with the fewest changes, of one that was refused as it is in the matrix."""
    near = nearest(row, CELL_RULES)
    return _way(row, Question(cell=row), near.cell, "fewest changes") if near else None


def _way(row: Cell, asked: Question, cell: Cell, kept: str) -> Way | None:
    """None where the row, asked for as it is printed, is another one, or is refused."""
    line = (*settings(row, cell), *(f"{name}={value}" for name, value in asked.extras))
    again = question(row, line)
    if again.cell != cell or cell == asked.cell or refuses(again.cell) or _extra_refuses(again):
        return None
    if asked.chosen and kept == "keeping what was set" and _gives_way(asked, cell):
        kept = "fewest changes to what was set"
    return Way(kept=kept, changes=changes(asked.cell, cell), settings=line)


def _gives_way(asked: Question, cell: Cell) -> bool:
    fields = asked.chosen - {name for name, _ in asked.extras}
    return any(asked.cell.value(name) != cell.value(name) for name in fields)


def _extra_refuses(asked: Question) -> bool:
    return any(
        weigh(rule.about(value), rule.ask(asked.cell, value), asked.cell.allow) is Ruling.REFUSES
        for rule in EXTRA_RULES
        for name, value in asked.extras
        if name == rule.subject
    )


def _others(asked: Question) -> list[Way]:
    """Where a constraint that is no field is refused, another one of it is the first way."""
    return [
        Way(kept=f"another {rule.subject}", changes=(rule.instead,))
        for rule in EXTRA_RULES
        for name, value in asked.extras
        if name == rule.subject
        and weigh(rule.about(value), rule.ask(asked.cell, value), asked.cell.allow) is Ruling.REFUSES
    ]


def _elsewhere(asked: Question, extras: tuple[CellRule, ...], frameworks: frozenset[str]) -> list[Way]:
    """Return what would go together where another Horovod, base or package is at hand: it is not built
    here."""
    cell = asked.cell
    if not any(weigh(rule, rule.ask(cell), cell.allow) is Ruling.REFUSES for rule in OF_RELEASE):
        return []
    rules = (*extras, *CELL_RULES)
    anywhere = tuple(rule for rule in rules if rule.about is not About.RELEASE or rule.name in EVERYWHERE)
    near = nearest(cell, anywhere, keep=frameworks)
    words = changes(cell, near.cell) if near else ()
    return [Way(kept="what goes together, and is not built here", changes=words)] if words else []
