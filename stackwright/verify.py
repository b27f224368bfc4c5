"""What an image shows against what its row says. Pure: facts in, a verdict out.

docs/checks.md lists the checks; it is made from the table below, and a unit test keeps it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackwright.checks import built, collective, declared, fabric, gpu, link, static
from stackwright.checks.rule import Finding, MissingFact, Rule
from stackwright.model import Check, Outcome, Stack, Tier, Verdict

RULES: tuple[Rule, ...] = (
    *static.RULES,
    *declared.RULES,
    *link.RULES,
    *fabric.RULES,
    *built.RULES,
    *collective.RULES,
    *gpu.RULES,
)


def rules(world: str) -> tuple[Rule, ...]:
    """The checks that mean something in a world: a SIF has no default user and no entry point."""
    return tuple(rule for rule in RULES if world in rule.worlds)


def verify(stack: Stack, facts: Mapping[str, Any], world: str, not_run: Mapping[Tier, str]) -> Verdict:
    """Judge every check. Only a tier in ``not_run`` is NOT_RUN; a fact that is missing is a failure."""
    return Verdict(world=world, checks=tuple(_check(rule, stack, facts, not_run) for rule in rules(world)))


def _check(rule: Rule, stack: Stack, facts: Mapping[str, Any], not_run: Mapping[Tier, str]) -> Check:
    if rule.tier in not_run:
        outcome, detail = Outcome.NOT_RUN, not_run[rule.tier]
    else:
        found = _judge(rule, stack, facts)
        outcome = Outcome.FAILED if found.problems else Outcome.PASSED
        detail = "; ".join(found.problems) or found.seen
    return Check(id=rule.id, tier=rule.tier, why=rule.why, outcome=outcome, detail=detail)


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
        "Made from the tables in `stackwright/checks/`; a unit test keeps it so. A check passes, fails, or",
        "was not run; a check whose probe left nothing fails. *Docker only*: a SIF has no such thing.",
        "",
        "| check | tier | what it is for |",
        "|---|---|---|",
    ]
    for rule in RULES:
        only = "" if len(rule.worlds) > 1 else " *Docker only.*"
        lines.append(f"| `{rule.id}` | {rule.tier} | {rule.why}{only} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
