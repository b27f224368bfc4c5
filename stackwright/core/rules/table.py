"""All rules that need only what a person wrote, in the order in which they are asked.

What no index has comes first, then what no compiler takes, then what the base lacks, and last what this
release cannot build: the first clash is the cause that a person should hear of.
"""

from __future__ import annotations

from collections.abc import Iterator

from stackwright.core.benchmarks import rules as benchmarks
from stackwright.core.compiled import rules as compiled
from stackwright.core.components.component import Place
from stackwright.core.components.shared import headers, libraries
from stackwright.core.components.table import COMMUNICATION, COMPONENTS, rules
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell
from stackwright.core.ofi import rules as ofi
from stackwright.core.rules import additions, bases, compilers, own
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling, weigh

OF_RELEASE = rules(Place.RELEASE, libraries.RULES)
"""Rules about what this release cannot build, though it could be written."""

LAYERS = tuple(layer.name for layer in COMMUNICATION)


def _connects(cell: Cell) -> Answer:
    if any(cell.value(name) for name in LAYERS):
        return Ruling.FITS
    reason = "a row has a communication layer: without one nothing connects its ranks"
    return Clash(values=tuple((name, "none") for name in LAYERS), reason=reason)


ONE_LAYER = CellRule(
    name="communication",
    about=About.STACK,
    fields=LAYERS,
    says="a row has a communication layer",
    fact=read("matrix.yaml", "2026-11-22"),
    ask=_connects,
)

CELL_RULES: tuple[CellRule, ...] = (
    *additions.RULES,
    *own.RULES,
    *compiled.RULES,
    ONE_LAYER,
    *rules(Place.INDEX),
    *compilers.RULES,
    *headers.RULES,
    *rules(Place.GPU_CODE),
    *rules(Place.COMPILED, libraries.RULES),
    libraries.NCCL_FLOOR,
    *bases.RULES,
    *ofi.RULES,
    *benchmarks.RULES,
    *OF_RELEASE,
    *rules(Place.RELEASED, libraries.RULES),
)
EVERYWHERE = frozenset(name for component in COMPONENTS for name in component.everywhere)
"""Names of rules about this release that hold with another base or package as well."""
NAMES = tuple(rule.name for rules in (CELL_RULES, LOCK_RULES, EXTRA_RULES) for rule in rules)
"""Of all rules, as --allow knows them."""


def first_clash(cell: Cell) -> tuple[CellRule, Clash] | None:
    """Return the first rule that refuses the cell, in the order of the table."""
    return next((found for found in clashes(cell) if weigh(*found, cell.allow) is Ruling.REFUSES), None)


def first_unknown(cell: Cell) -> tuple[CellRule, Clash] | None:
    """Return the first rule that does not know a value of the cell."""
    return next((found for found in clashes(cell) if weigh(*found, cell.allow) is Ruling.UNKNOWN), None)


def refuses(cell: Cell) -> bool:
    """Return whether a rule refuses the cell, or does not know a value of it."""
    return any(weigh(*found, cell.allow) in (Ruling.REFUSES, Ruling.UNKNOWN) for found in clashes(cell))


def clashes(cell: Cell) -> Iterator[tuple[CellRule, Clash]]:
    """Yield every rule whose values clash: those that refuse, those that warn and those that are allowed."""
    for rule in CELL_RULES:
        answer = rule.ask(cell)
        if isinstance(answer, Clash):
            yield rule, answer
