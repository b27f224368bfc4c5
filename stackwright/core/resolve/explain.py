"""Why a row can or cannot work: every rule that was asked, what it said, and what would work instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from stackwright.core.components.component import Advice
from stackwright.core.components.table import ADVICE, COMPONENTS, versions
from stackwright.core.config.change import changes
from stackwright.core.config.setting import Question
from stackwright.core.facts import distributions
from stackwright.core.facts.provenance import Provenance, read
from stackwright.core.model.row import Cell, Lock
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.ways import Way, ways
from stackwright.core.rules.derived import cuda_of, gcc_of
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import About, Answer, Clash, LockRule, Rule, Ruling, fact_of, weigh
from stackwright.core.rules.table import CELL_RULES


class Feasibility(StrEnum):
    CAN_WORK = "can work"
    CANNOT_WORK = "cannot work"
    NOT_KNOWN = "is not known to work"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAnswer:
    """One rule and what it said; ``clash`` where values do not go together. ``fact`` is what it rests on."""

    rule: str
    about: str
    says: str
    fact: Provenance
    said: Ruling
    clash: Clash | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """``answers``: what refuses comes first, the true cause before all. ``changed`` is what --set changed."""

    cell: Cell
    changed: tuple[str, ...]
    answers: tuple[RuleAnswer, ...]
    ways: tuple[Way, ...]
    advice: tuple[Advice, ...]

    @property
    def cause(self) -> RuleAnswer | None:
        return self.answers[0] if self.answers[0].said is Ruling.REFUSES else None

    @property
    def unknown(self) -> RuleAnswer | None:
        """What is not known, of a row that no rule refuses."""
        return None if self.cause else next(iter(self.said(Ruling.UNKNOWN)), None)

    @property
    def verdict(self) -> Feasibility:
        if self.cause:
            return Feasibility.CANNOT_WORK
        return Feasibility.NOT_KNOWN if self.unknown else Feasibility.CAN_WORK

    def said(self, said: Ruling) -> tuple[RuleAnswer, ...]:
        return tuple(answer for answer in self.answers if answer.said is said)


def explain(row: Cell, asked: Question, lock: Lock | None) -> Explanation:
    """Ask every rule; where one refuses, look for the nearest rows that none refuses."""
    cell = asked.cell
    extras = tuple(rule.about(value) for rule in EXTRA_RULES for value in _given(asked, rule.subject))
    rules = (*extras, *CELL_RULES)
    current = lock if lock and lock.request == _request(cell) else None
    answers = [_rule_answer(rule, rule.about, rule.ask(cell), cell.allow) for rule in rules]
    if current and not current.refused:
        answers = [_settled(answer) for answer in answers]
    answers += _lock_answers(cell, current)
    refused = any(answer.said in (Ruling.REFUSES, Ruling.UNKNOWN) for answer in answers)
    return Explanation(
        cell=cell,
        changed=(*changes(row, cell), *(f"{name} {value}" for name, value in asked.extras)),
        answers=tuple(sorted(answers, key=lambda answer: _rank(answer, asked.chosen))),
        ways=ways(row, asked, extras) if refused else (),
        advice=() if refused else tuple(advice for advice in ADVICE if advice.applies(_values(cell))),
    )


RESOLVER = LockRule(
    name="resolver",
    says="the package index has wheels that go together",
    fact=read("uv pip compile", ""),
    ask=lambda cell, lock: (
        Clash(values=tuple(versions(cell).items()), reason=lock.refused) if lock.refused else None
    ),
)  # fmt: skip


def _lock_answers(cell: Cell, lock: Lock | None) -> list[RuleAnswer]:
    """Without a lock of these very values, the rules on one have nothing to say; nor if uv made none."""
    made = lock if lock and not lock.refused else None
    asked = [(RESOLVER, lock), *((rule, made) for rule in LOCK_RULES)]
    return [
        _rule_answer(
            rule, "lock", (rule.ask(cell, given) or Ruling.FITS) if given else Ruling.SILENT, cell.allow
        )
        for rule, given in asked
    ]


def _request(cell: Cell) -> str:
    """Empty where not even a lock could be asked for: no lock has that."""
    return request(cell) if distributions.distribution(cell.os) else ""


def _given(asked: Question, subject: str) -> list[str]:
    return [value for name, value in asked.extras if name == subject]


def _rule_answer(rule: Rule, about: str, answer: Answer, allowed: tuple[str, ...]) -> RuleAnswer:
    clash = answer if isinstance(answer, Clash) else None
    fact = fact_of(rule, clash) if clash else rule.fact
    said = weigh(rule, answer, allowed)
    return RuleAnswer(rule=rule.name, about=about, says=rule.says, fact=fact, said=said, clash=clash)


def _settled(answer: RuleAnswer) -> RuleAnswer:
    """By a lock of these very values: the index knows what the tables do not."""
    return replace(answer, said=Ruling.FITS, clash=None) if answer.said is Ruling.UNKNOWN else answer


def _rank(answer: RuleAnswer, chosen: frozenset[str]) -> tuple[bool, bool, int]:
    """Refusals first; of these the ones between values that were set, and what this release lacks last."""
    if answer.clash is None or answer.said is not Ruling.REFUSES:
        return True, answer.said is not Ruling.UNKNOWN, 0
    named = [name in chosen for name, _ in answer.clash.values]
    return False, answer.about == About.RELEASE, -(2 if all(named) else min(sum(named), 2))


def _values(cell: Cell) -> Mapping[str, str]:
    """The row's versions by the names that the advice is about."""
    named: dict[str, str | None] = {"python": cell.python, **versions(cell, COMPONENTS)}
    named |= {"gcc": gcc_of(cell), "cuda": cuda_of(cell), cell.mpi.flavour: cell.mpi.version}
    return {name: value for name, value in named.items() if value}
