"""What an image shows against what its row says. Pure: facts in, a verdict out.

docs/checks.md lists the checks; it is made from the table below, and a unit test keeps it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stackwright.core.benchmarks import checks as benchmarks
from stackwright.core.checks import stranger
from stackwright.core.checks.check import Finding, MissingFact, NotAsked, Rule
from stackwright.core.checks.tables import (
    additions,
    collective,
    declared,
    fabric,
    gpu,
    ledger,
    link,
    settings,
    static,
    tools,
)
from stackwright.core.compiled import checks as compiled
from stackwright.core.components.shared import loaded, together
from stackwright.core.components.table import COMMUNICATION, has
from stackwright.core.credentials import redact
from stackwright.core.model.row import Check, Outcome, Stack, Tier, Verdict, World
from stackwright.core.ofi import checks as ofi

NOT_ASKED = "not asked, because"

RULES: tuple[Rule, ...] = (
    *static.RULES,
    *settings.RULES,
    *ledger.RULES,
    *declared.RULES,
    *link.RULES,
    *fabric.RULES,
    *ofi.RULES,
    *benchmarks.RULES,
    *additions.RULES,
    *compiled.RULES,
    *tools.RULES,
    *(replace(check, applies=has(layer)) for layer in COMMUNICATION for check in layer.checks),
    *loaded.RULES,
    *collective.RULES,
    *together.RULES,
    *stranger.RULES,
    *gpu.RULES,
)


def rules(world: str) -> tuple[Rule, ...]:
    """The checks that mean something in a world: a SIF has no default user, an image no runscript."""
    return tuple(rule for rule in RULES if World(world) in rule.worlds)


def verify(stack: Stack, facts: Mapping[str, Any], world: str, not_run: Mapping[Tier, str]) -> Verdict:
    """Judge every check. A fact that is missing is a failure.

    NOT_RUN are those of a tier in ``not_run``, and those that need a check which failed: one cause is one
    failure.
    """
    table = {rule.id: rule for rule in rules(world) if rule.applies(stack)}
    made: dict[str, Check] = {}

    def check(rule: Rule) -> Check:
        if rule.id not in made:
            needed = [check(table[name]) for name in rule.needs if name in table]
            made[rule.id] = _check(rule, stack, facts, not_run.get(rule.tier) or _because(needed))
        return made[rule.id]

    return Verdict(world=World(world), checks=tuple(check(rule) for rule in table.values()))


def _because(needed: Iterable[Check]) -> str:
    """Why a check is not asked, by the first of those that it needs; empty where it is to be asked."""
    for check in needed:
        if check.outcome is Outcome.FAILED:
            return f"{NOT_ASKED} {check.id} failed"
        if check.outcome is Outcome.NOT_RUN and check.detail.startswith(NOT_ASKED):
            return check.detail
    return ""


def _check(rule: Rule, stack: Stack, facts: Mapping[str, Any], not_run: str) -> Check:
    try:
        found = Finding() if not_run else _judge(rule, stack, facts)
    except NotAsked as reason:
        found, not_run = Finding(), f"there is nothing to judge: {reason}"
    outcome = Outcome.NOT_RUN if not_run else Outcome.FAILED if found.problems else Outcome.PASSED
    detail = not_run or "; ".join(found.problems) or found.seen
    return Check(id=rule.id, tier=rule.tier, why=rule.why, outcome=outcome, detail=redact(detail))


def _judge(rule: Rule, stack: Stack, facts: Mapping[str, Any]) -> Finding:
    """A fact of the wrong shape fails the check too: probes run in an image that may be anything."""
    try:
        return rule.judge(stack, facts)
    except MissingFact as missing:
        return Finding(problems=(str(missing),))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        return Finding(problems=(f"the probe's facts cannot be read: {type(error).__name__}: {error}",))


def document() -> str:
    """docs/checks.md."""
    lines = [
        "# What is checked in every image",
        "",
        "Generated from `stackwright/core/checks/tables/`; a test compares them. A check passes, fails, or",
        "was not run; a check whose probe left nothing fails. *Docker only*: a SIF has no such thing.",
        "A check is not asked where one that it needs has failed: one cause is one failure.",
        "",
        "| check | tier | what it is for | needs |",
        "|---|---|---|---|",
    ]
    for rule in RULES:
        only = (
            ""
            if len(rule.worlds) > 1
            else " *Docker only.*"
            if World.DOCKER in rule.worlds
            else " *SIF only.*"
        )
        needs = ", ".join(f"`{name}`" for name in rule.needs)
        lines.append(f'| <a id="{rule.id}"></a>`{rule.id}` | {rule.tier} | {rule.why}{only} | {needs} |')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
