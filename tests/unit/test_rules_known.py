"""The rules against what the world runs, and against what it saw fail."""

from __future__ import annotations

import pytest
from known_stacks import FAIL, RUN, Stack

from stackwright.core.config.setting import Question
from stackwright.core.resolve.explain import explain
from stackwright.core.rules.rule import About, Ruling, weigh
from stackwright.core.rules.table import CELL_RULES

STACK_RULES = tuple(rule for rule in CELL_RULES if rule.about is About.STACK)


def refusals(stack: Stack) -> list[str]:
    return [rule.name for rule in STACK_RULES if weigh(rule, rule.ask(stack.cell)) is Ruling.REFUSES]


def name(stack: Stack) -> str:
    return stack.name


@pytest.mark.parametrize("stack", RUN, ids=name)
def test_what_others_run_is_accepted_or_refused_for_the_reason_that_is_written_down(stack: Stack) -> None:
    refused = refusals(stack)
    assert bool(stack.rule) == bool(stack.why)
    assert refused[:1] == ([stack.rule] if stack.rule else [])


@pytest.mark.parametrize("stack", FAIL, ids=name)
def test_what_is_known_to_fail_is_refused_by_the_rule_that_names_the_true_cause(stack: Stack) -> None:
    named = frozenset(field for field, _ in stack.values)
    extras = (stack.extra,) if stack.extra else ()
    chosen = frozenset(field for field, _ in extras) | (
        named & {"torch", "mxnet", "cuda"} if extras else named
    )
    told = explain(stack.cell, Question(cell=stack.cell, chosen=chosen, extras=extras), None)
    assert told.cause
    assert told.cause.rule == stack.rule
    if not extras:
        assert refusals(stack)[0] == stack.rule


def test_there_are_enough_of_both_and_each_has_a_source() -> None:
    assert len(RUN) >= 25
    assert len(FAIL) >= 30
    assert all(stack.source for stack in (*RUN, *FAIL))
    assert len({stack.name for stack in (*RUN, *FAIL)}) == len(RUN) + len(FAIL)


def test_most_published_stacks_are_accepted() -> None:
    assert sum(not stack.rule for stack in RUN) >= 20
