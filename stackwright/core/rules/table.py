"""All rules that need only what a person wrote, in the order in which they are asked.

What no index has comes first, then what no compiler takes, then what the base lacks, and last what this
release cannot build: the first clash is the cause that a person should hear of.
"""

from __future__ import annotations

from collections.abc import Iterator

from stackwright.core.components import frameworks
from stackwright.core.model.row import Cell
from stackwright.core.rules import bases, code, compilers, known, release
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import CellRule, Clash, Said, weigh

CELL_RULES: tuple[CellRule, ...] = (
    *frameworks.RULES, *compilers.RULES, *code.RULES, *frameworks.LATER, known.NCCL_FLOOR, *bases.RULES,
    *release.RULES, *known.RULES,
)  # fmt: skip
NAMES = tuple(rule.name for rules in (CELL_RULES, LOCK_RULES, EXTRA_RULES) for rule in rules)
"""Of all rules, as --allow knows them."""


def first_clash(cell: Cell) -> tuple[CellRule, Clash] | None:
    """The first rule that refuses the cell, in the order of the table."""
    return next((found for found in clashes(cell) if weigh(*found, cell.allow) is Said.REFUSES), None)


def first_unknown(cell: Cell) -> tuple[CellRule, Clash] | None:
    """The first rule that does not know a value of the cell."""
    return next((found for found in clashes(cell) if weigh(*found, cell.allow) is Said.UNKNOWN), None)


def refuses(cell: Cell) -> bool:
    """Whether a rule refuses the cell, or does not know a value of it."""
    return any(weigh(*found, cell.allow) in (Said.REFUSES, Said.UNKNOWN) for found in clashes(cell))


def clashes(cell: Cell) -> Iterator[tuple[CellRule, Clash]]:
    """Every rule whose values clash: those that refuse, those that warn and those that are allowed."""
    for rule in CELL_RULES:
        answer = rule.ask(cell)
        if isinstance(answer, Clash):
            yield rule, answer
