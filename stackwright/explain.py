"""Why a row can or cannot work: every rule that was asked, what it said, and what would work instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from stackwright.errors import UsageError
from stackwright.lock import request
from stackwright.model import FRAMEWORKS, Cell, Lock, Mpi
from stackwright.problems import near as suggestion
from stackwright.rules import (
    About,
    Answer,
    CellRule,
    Clash,
    LockRule,
    Rule,
    Said,
    fact_of,
    release,
    tables,
    weigh,
)
from stackwright.rules.cell import CELL_RULES
from stackwright.rules.compiler import cuda_of, gcc_of
from stackwright.rules.extra import EXTRA_RULES
from stackwright.rules.horovod import ADVICE, Advice
from stackwright.rules.lock import LOCK_RULES
from stackwright.rules.near import changes, nearest
from stackwright.rules.provenance import Provenance, read
from stackwright.schema import RowFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One rule and what it said; ``clash`` where values do not go together. ``fact`` is what it rests on."""

    rule: str
    about: str
    says: str
    fact: Provenance
    said: Said
    clash: Clash | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A row that works: what was kept in mind when it was looked for, and its changes in words."""

    kept: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """``asked``: what refuses comes first, the true cause before all. ``changed`` is what --set changed."""

    cell: Cell
    changed: tuple[str, ...]
    asked: tuple[Asked, ...]
    ways: tuple[Way, ...]
    advice: tuple[Advice, ...]

    @property
    def cause(self) -> Asked | None:
        return self.asked[0] if self.asked[0].said is Said.REFUSES else None

    @property
    def unknown(self) -> Asked | None:
        """What is not known, of a row that no rule refuses."""
        return None if self.cause else next(iter(self.said(Said.UNKNOWN)), None)

    @property
    def verdict(self) -> Literal["can work", "cannot work", "is not known to work"]:
        if self.cause:
            return "cannot work"
        return "is not known to work" if self.unknown else "can work"

    def said(self, said: Said) -> tuple[Asked, ...]:
        return tuple(one for one in self.asked if one.said is said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A row with the changes of --set. ``chosen`` are the fields that were set; ``extras`` are no fields."""

    cell: Cell
    chosen: frozenset[str] = frozenset()
    extras: tuple[tuple[str, str], ...] = ()


def question(row: Cell, settings: Sequence[str]) -> Question:
    """Read FIELD=VALUE. UsageError where a field is unknown or a value has another notation."""
    values: dict[str, Any] = {}
    extras: dict[str, str] = {}
    subjects = [rule.subject for rule in EXTRA_RULES]
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting!r} has no '='", hint="write it as in --set cuda=13.0")
        if name in subjects:
            extras[name] = _version(setting, text)
        elif name in FIELDS:
            values[name] = text
        else:
            hint = suggestion(name, (*FIELDS, *subjects)) or f"fields: {', '.join((*FIELDS, *subjects))}"
            raise UsageError(f"--set {setting!r}: unknown field {name!r}", hint=hint)
    if re.fullmatch(r"[0-9]{1,3}", values.get("cuda", ""), re.ASCII):  # CUDA 13, as people say it
        values["cuda"] = (
            row.cuda if (row.cuda or "").startswith(f"{values['cuda']}.") else f"{values['cuda']}.0"
        )
    parsed = {name: _value(name, text, values.get("os", row.os)) for name, text in values.items()}
    return Question(
        cell=replace(row, **parsed), chosen=frozenset({*parsed, *extras}), extras=tuple(extras.items())
    )


FIELDS = tuple(RowFields.__annotations__)


def _version(setting: str, text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,4}", text, re.ASCII):
        raise UsageError(f"--set {setting!r}: not a version", hint="write it as in --set setuptools=75")
    return text


def _value(name: str, text: str, os: str) -> Any:
    """The value of a field as the matrix would have it; an empty text leaves the field out."""
    plain: Any = text or None
    if name == "gpu_arch":
        plain = tuple(text.split(","))
    elif name == "mpi":
        flavour, version = _mpi(text)
        known = tables.distribution(os)
        plain = {"flavour": flavour, "version": version or (getattr(known, flavour, "") if known else "")}
    elif name == "test_on_gpu":
        plain = {"true": True, "false": False}.get(text, text)
    try:
        checked: Any = ROW.validate_python({name: plain})
    except ValidationError as error:
        first = error.errors()[0]
        why = f"not written as in {first['ctx']['like']}" if first["type"] == "notation" else first["msg"]
        raise UsageError(f"--set {name}={text}: {why}", hint="docs/matrix.md has the notation") from None
    value = checked[name]
    return Mpi(**value) if isinstance(value, dict) else value


def _mpi(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"([a-z]+) ?(.*)", text, re.ASCII)
    return (found[1], found[2]) if found else (text, "")


ROW: TypeAdapter[RowFields] = TypeAdapter(RowFields)


def explain(row: Cell, asked: Question, lock: Lock | None) -> Explanation:
    """Ask every rule; where one refuses, look for the nearest rows that none refuses."""
    cell = asked.cell
    extras = tuple(rule.about(value) for rule in EXTRA_RULES for value in _given(asked, rule.subject))
    rules = (*extras, *CELL_RULES)
    current = lock if lock and lock.request == _request(cell) else None
    answers = [_asked(rule, rule.about, rule.ask(cell), cell.allow) for rule in rules]
    if current and not current.refused:
        answers = [_settled(answer) for answer in answers]
    answers += _lock_answers(cell, current)
    refused = any(answer.said in (Said.REFUSES, Said.UNKNOWN) for answer in answers)
    return Explanation(
        cell=cell,
        changed=(*changes(row, cell), *(f"{name} {value}" for name, value in asked.extras)),
        asked=tuple(sorted(answers, key=lambda answer: _rank(answer, asked.chosen))),
        ways=_ways(asked, rules) if refused else (),
        advice=() if refused else tuple(one for one in ADVICE if one.applies(_values(cell))),
    )


RESOLVER = LockRule(
    name="resolver",
    says="the package index has wheels that go together",
    fact=read("uv pip compile", ""),
    ask=lambda cell, lock: (
        Clash(values=tuple((name, value) for name in FRAMEWORKS if (value := getattr(cell, name))),
              reason=lock.refused) if lock.refused else None
    ),
)  # fmt: skip


def _lock_answers(cell: Cell, lock: Lock | None) -> list[Asked]:
    """Without a lock of these very values, the rules on one have nothing to say; nor if uv made none."""
    made = lock if lock and not lock.refused else None
    asked = [(RESOLVER, lock), *((rule, made) for rule in LOCK_RULES)]
    return [
        _asked(rule, "lock", (rule.ask(cell, one) or Said.FITS) if one else Said.SILENT, cell.allow)
        for rule, one in asked
    ]


def _request(cell: Cell) -> str:
    """Empty where not even a lock could be asked for: no lock has that."""
    return request(cell) if tables.distribution(cell.os) else ""


def _given(asked: Question, subject: str) -> list[str]:
    return [value for name, value in asked.extras if name == subject]


def _asked(rule: Rule, about: str, answer: Answer, allowed: tuple[str, ...]) -> Asked:
    clash = answer if isinstance(answer, Clash) else None
    fact = fact_of(rule, clash) if clash else rule.fact
    said = weigh(rule, answer, allowed)
    return Asked(rule=rule.name, about=about, says=rule.says, fact=fact, said=said, clash=clash)


def _settled(answer: Asked) -> Asked:
    """By a lock of these very values: the index knows what the tables do not."""
    return replace(answer, said=Said.FITS, clash=None) if answer.said is Said.UNKNOWN else answer


def _rank(answer: Asked, chosen: frozenset[str]) -> tuple[bool, bool, int]:
    """Refusals first; of these the ones between values that were set, and what this release lacks last."""
    if answer.clash is None or answer.said is not Said.REFUSES:
        return True, answer.said is not Said.UNKNOWN, 0
    named = [name in chosen for name, _ in answer.clash.values]
    return False, answer.about == About.RELEASE, -(2 if all(named) else min(sum(named), 2))


def _ways(asked: Question, rules: tuple[CellRule, ...]) -> tuple[Way, ...]:
    cell = asked.cell
    anywhere = tuple(rule for rule in rules if rule.about is not About.RELEASE or rule is release.UNPATCHED)
    frameworks = frozenset(name for name in FRAMEWORKS if getattr(cell, name))
    ways: list[Way] = []
    for rule in EXTRA_RULES:
        for value in _given(asked, rule.subject):
            if weigh(rule.about(value), rule.ask(cell, value), cell.allow) is Said.REFUSES:
                ways.append(Way(kept=f"another {rule.subject}", changes=(rule.instead,)))
    for kept, among, keep in (
        ("fewest changes", rules, frozenset[str]()),
        ("with every framework", rules, frameworks),
        ("with every framework, on any base", anywhere, frameworks),
    ):
        found = nearest(cell, among, keep=keep)
        words = changes(cell, found.cell) if found else ()
        if words and words not in [way.changes for way in ways]:
            ways.append(Way(kept=kept, changes=words))
    return tuple(ways)


def _values(cell: Cell) -> Mapping[str, str]:
    """The row's versions by the names that the advice is about."""
    named = {name: getattr(cell, name) for name in ("python", *FRAMEWORKS)}
    named |= {"gcc": gcc_of(cell), "cuda": cuda_of(cell), cell.mpi.flavour: cell.mpi.version}
    return {name: value for name, value in named.items() if value}
