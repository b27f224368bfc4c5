"""What a fact of each kind may do: warn, refuse unless allowed, refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rows import cell

from stackwright.model import Cell
from stackwright.rules import About, Answer, CellRule, Clash, ExtraRule, LockRule, Said, strongest, weigh
from stackwright.rules.cell import CELL_RULES
from stackwright.rules.extra import EXTRA_RULES
from stackwright.rules.lock import LOCK_RULES
from stackwright.rules.partial import Partial
from stackwright.rules.provenance import How, Provenance, documented, read, unchecked, weakest

OWN = documented("a document", "2026-11-20")
KINDS = {how: Provenance(how=how, source=f"source {how}", when="2026-11-22") for how in How}


def rule(fact: Provenance, entry: Provenance | None = None) -> CellRule:
    def ask(cell: Cell) -> Answer:
        return Clash(values=(("gcc", "14"),), reason="why", fact=entry)

    return CellRule(name="planted", about=About.STACK, fields=("gcc",), says="says", fact=fact, ask=ask)


@pytest.mark.parametrize(
    ("how", "allowed", "said"),
    [
        (How.READ, (), Said.REFUSES),
        (How.READ, ("planted",), Said.REFUSES),
        (How.DOCUMENTED, (), Said.REFUSES),
        (How.DOCUMENTED, ("another",), Said.REFUSES),
        (How.DOCUMENTED, ("planted",), Said.ALLOWED),
        (How.UNCHECKED, (), Said.WARNS),
        (How.UNCHECKED, ("planted",), Said.WARNS),
    ],
)
def test_a_clash_counts_as_its_fact_allows(how: How, allowed: tuple[str, ...], said: Said) -> None:
    of_rule, of_entry = rule(KINDS[how]), rule(OWN, KINDS[how])
    asked = replace(cell(), allow=allowed)
    for one in (of_rule, of_entry):
        assert weigh(one, one.ask(asked), allowed) is said
        partial = Partial(asked, ("gcc",), (one,))
        assert (partial.clash(["14"]) is one) == (said is Said.REFUSES)


def test_a_warning_hides_no_refusal() -> None:
    weak, strong = (Clash(values=(), reason="", fact=KINDS[how]) for how in (How.UNCHECKED, How.READ))
    assert strongest([weak, strong]) is strong
    assert strongest([weak]) is weak
    assert strongest([]) is None


def test_a_conclusion_is_as_good_as_its_weakest_fact() -> None:
    assert weakest(read("a", ""), unchecked("b", ""), documented("c", "")).source == "b"


def test_every_rule_says_how_its_fact_was_obtained() -> None:
    rules: tuple[CellRule | LockRule | ExtraRule, ...] = (*CELL_RULES, *LOCK_RULES, *EXTRA_RULES)
    for one in rules:
        assert one.fact.source
        assert one.fact.when.startswith("2026-"), one.name
        assert "unchecked" not in one.fact.source, one.name
