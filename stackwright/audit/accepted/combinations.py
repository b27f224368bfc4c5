"""The accepted combinations, and the few questions to the index that all of them come down to."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stackwright.core.components.table import COMPONENTS
from stackwright.core.facts import distributions
from stackwright.core.model.row import Cell, Mpi, MpiFlavour
from stackwright.core.resolve.nearest import KNOWN
from stackwright.core.resolve.requirements import platform, question, requirements, toolchain
from stackwright.core.resolve.sweep import left, of_tables
from stackwright.core.rules.derived import gcc_of
from stackwright.core.rules.rule import CellRule, Clash, Ruling, weigh
from stackwright.core.rules.table import CELL_RULES, clashes


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to the index, a row that asks it, and how many accepted rows ask the same."""

    cell: Cell
    wanted: tuple[str, ...]
    rows: int

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(question(self.cell, self.wanted)).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        runs_on = platform(self.cell.os, self.cell.platform)
        return f"{' '.join(self.wanted[:3])}, Python {self.cell.python}, {runs_on}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """Headers of a framework that some accepted row compiles with a release of gcc."""

    name: str
    version: str
    gcc: str


def accepted() -> tuple[Cell, ...]:
    """Return every combination of the tables' values that the rules accept, always in the same order."""
    return tuple(left(*of_tables(), CELL_RULES))


def questions(cells: Iterable[Cell]) -> tuple[Question, ...]:
    found: dict[tuple[object, ...], Question] = {}
    for cell in cells:
        for wanted in (requirements(cell), toolchain(cell)):
            key = question(cell, wanted)
            before = found.get(key)
            if wanted:
                rows = before.rows + 1 if before else 1
                found[key] = Question(cell=before.cell if before else cell, wanted=wanted, rows=rows)
    return tuple(found.values())


def compiles(cells: Iterable[Cell]) -> tuple[Compile, ...]:
    """Return each framework's release with each gcc that an accepted row compiles it with."""
    found = {
        Compile(name=name, version=version, gcc=distributions.gcc_release(gcc))
        for cell in cells
        for name in (component.name for component in COMPONENTS if component.headers)
        if (version := cell.value(name)) and (gcc := gcc_of(cell))
    }
    return tuple(
        sorted(
            found,
            key=lambda headers: (headers.name, distributions.as_numbers(headers.version), int(headers.gcc)),
        )
    )


def sample(cells: Sequence[Cell], seed: int, count: int) -> tuple[Cell, ...]:
    return tuple(random.Random(seed).sample(cells, min(count, len(cells))))  # noqa: S311 (no secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An accepted row with one value changed, and the first rule that refuses it then."""

    cell: Cell
    changed: str
    rule: CellRule
    clash: Clash


def refusals(cells: Sequence[Cell], seed: int, count: int) -> tuple[Refusal, ...]:
    """Rows that one changed value made impossible, so that the refusal is of that value and of no other."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    found: list[Refusal] = []
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    while len(found) < count:
        cell, name = rng.choice(cells), rng.choice(sorted(CHANGED))
        other = cell.changed({name: rng.choice(CHANGED[name])})
        refused = [pair for pair in clashes(other) if weigh(*pair) is Ruling.REFUSES]
        if refused and (refused[0][0].name, refused[0][1].values) not in seen:
            rule, clash = refused[0]
            seen.add((rule.name, clash.values))
            found.append(Refusal(cell=other, changed=name, rule=rule, clash=clash))
    return tuple(found)


CHANGED: dict[str, tuple[Any, ...]] = {
    **{name: values for name, values in KNOWN.items() if name not in ("provider", "horovod")},
    "mpi": tuple(
        Mpi(flavour=flavour, version=getattr(known, flavour))
        for known in distributions.DISTRIBUTIONS
        for flavour in MpiFlavour
    ),
    "nccl": ("2.13.4", "2.18.3", "2.21.5", "2.27.7", "2.30.7"),
    "cudnn": ("8.5.0.96", "8.9.2.26", "9.1.0.70", "9.10.2.21", "9.26.0.51"),
    "gpu_arch": (("3.5",), ("5.0",), ("6.0",), ("7.0",), ("9.0",), ("10.0",), ("12.0",)),
}
"""Values to change a row to."""
