"""All rules that need only what a person wrote, in the order in which they are asked.

What no index has comes first, then what no compiler takes, then what the base lacks, and last what this
release cannot build: the first clash is the cause that a person should hear of.
"""

from __future__ import annotations

from stackwright.model import Cell
from stackwright.rules import CellRule, Clash, base, compiler, frameworks, release
from stackwright.rules.compiler import cuda_of, gcc_of

CELL_RULES = (*frameworks.RULES, *compiler.RULES, *frameworks.LATER, *base.RULES, *release.RULES)


def first_clash(cell: Cell) -> tuple[CellRule, Clash] | None:
    """The first rule that refuses the cell, in the order of the table."""
    for rule in CELL_RULES:
        answer = rule.ask(cell)
        if isinstance(answer, Clash):
            return rule, answer
    return None


__all__ = ["CELL_RULES", "cuda_of", "first_clash", "gcc_of"]
