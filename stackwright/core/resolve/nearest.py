"""The nearest row that works: the fewest changes first, and among those the cheapest ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from stackwright.core.benchmarks.nccl_tests import NAME as NCCL_TESTS
from stackwright.core.components.component import Kind
from stackwright.core.components.table import COMMUNICATION, COMPONENTS, FRAMEWORKS, of_kind
from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.gpu_code import Runs
from stackwright.core.model.row import VERBS, Cell, Mpi, ProviderName
from stackwright.core.ofi.plugin import OFI, asked
from stackwright.core.resolve.search import Choices, Rules, Search
from stackwright.core.rules import compilers
from stackwright.core.rules.rule import CellRule, Ruling, weigh

OF_COMPONENTS = of_kind(Kind.COMMUNICATION, Kind.FRAMEWORK, Kind.EXTENSION, Kind.TOOL)
COST = {
    "platform": 5.0, "nccl": 1.5, "provider": 4.0, "os": 3.0, "python": 1.6, "cuda": 2.0, "gcc": 1.0,
    "mpi": 1.4,
    **{component.name: component.field.cost for component in OF_COMPONENTS}, "cudnn": 1.5, "gpu_arch": 1.2,
    "compile": 0.95, "pip": 0.9, "build-env": 0.85, "apt": 0.8, "fabric": 0.75, "benchmarks": 0.72,
    "env": 0.7, "ports": 0.6,
}  # fmt: skip
"""Cost of changing a field; higher is changed last. The search chooses in this order: what other fields
depend on first. A field that is not here is never changed, and nor is the platform, which the nodes decide.
"""

CHANGE = 100.0
"""Cost of every change: more than all fields cost together, so that the fewest changes win."""

CHOSEN = 10_000.0
"""More for a field that a person chose, so that all others are changed first."""

DROPPABLE = frozenset(framework.name for framework in FRAMEWORKS)

DROPPED = 3.0
"""More for leaving out a framework or a layer than for changing it."""

LAYERS = frozenset(layer.name for layer in COMMUNICATION)
"""Never added to a row that has none of it."""
OPTIONAL = LAYERS - {COMMUNICATION[0].name}
"""What a row can do without: every layer but the first."""

STEP = 0.02
"""More for each release further away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A row that the rules accept; ``visited`` choices were made, and ``asked`` questions, to find it."""

    cell: Cell
    visited: int
    asked: int


def nearest(
    cell: Cell,
    rules: tuple[CellRule, ...],
    *,
    keep: frozenset[str] = frozenset(),
    chosen: frozenset[str] = frozenset(),
) -> Near | None:
    """Exact: the fewest changes to what was ``chosen``, then the fewest changes, then the cheapest ones.

    ``keep`` names fields that must not become empty, such as frameworks that a person needs.
    """
    asked = _rules(rules, cell.allow)
    before = asked.asked
    choices = [_choices(field, cell.value(field), field in keep, field in chosen) for field in COST]
    search = Search(cell, choices, asked)
    found = search.best()
    return Near(cell=found, visited=search.visited, asked=asked.asked - before) if found else None


def _rules(rules: tuple[CellRule, ...], allowed: tuple[str, ...]) -> Rules:
    """The same object for the same rules, so that the rows of a plan share its answers."""
    key = (tuple(map(id, rules)), allowed)
    if key not in PREPARED:
        while len(PREPARED) >= MOST_PREPARED:
            del PREPARED[next(iter(PREPARED))]
        PREPARED[key] = (rules, Rules(tuple(COST), rules, allowed))
    return PREPARED[key][1]


MOST_PREPARED = 4
PREPARED: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[tuple[CellRule, ...], Rules]] = {}
"""Keeps the rules alive as well, so that no other rule can get one of their ids."""


@lru_cache(maxsize=1000)
def _choices(field: str, present: Any, kept: bool, chosen: bool) -> Choices:
    others = [value for value in _others(field, present) if value is not None or not kept]
    least = CHANGE + COST[field] + (CHOSEN if chosen else 0)
    dropped = DROPPED if field in DROPPABLE or field in LAYERS else 0
    costs = (least + STEP * further + (0 if value else dropped) for further, value in enumerate(others))
    return tuple(sorted(((present, 0.0), *zip(others, costs, strict=True)), key=lambda choice: choice[1]))


WITH_FEWER = ("pip", "compile", "build-env", "apt", "env", "ports")
"""Of these, without one of them, or without all."""


def _others(field: str, present: Any) -> list[Any]:
    """Return what the tables know for a field, without the present value and the closest to it first."""
    if field in WHOLE:
        return [value for value in WHOLE[field](present) if value != present]
    if field in WITH_FEWER:
        fewer = (tuple(value for value in present if value != left) for left in present)
        return list(dict.fromkeys((*fewer, *([()] if present else []))))
    if field == "mpi":
        versions = dict.fromkeys(getattr(d, present.flavour) for d in distributions.DISTRIBUTIONS)
        return [
            Mpi(flavour=present.flavour, version=version)
            for version in versions
            if version != present.version
        ]
    if field not in KNOWN or (present is None and field in LAYERS):
        return [None] if present and field != "platform" else []
    others = [value for value in KNOWN[field] if value != present]
    if field in ("os", "provider") or present is None:
        return others if field in ("os", "provider") else others[::-1]
    place = sum(as_numbers(value) < as_numbers(present) for value in others)
    ranked = sorted(range(len(others)), key=lambda index: abs(index - place + 0.25))
    return [others[index] for index in ranked] + ([None] if field in DROPPABLE | OPTIONAL else [])


def _fabrics(present: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return what is asked for with the newest plugin, and then without one."""
    return (*([(*VERBS, OFI)] if asked(present) else []), VERBS)


def _benchmarks(present: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return (*([(NCCL_TESTS,)] if present else []), ())


@lru_cache(maxsize=1000)
def _supported(arches: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the row's architectures as far as a release of CUDA and the wheels have code for them, most
    first; 8.0
    where they have it for none."""
    by_cuda = {frozenset(arch for arch in arches if _compiles(cuda, arch)) for cuda in KNOWN["cuda"]}
    by_wheel = [
        {frozenset(arches)}
        | {
            frozenset(arch for arch in arches if code.runs(arch) is not Runs.NOT)
            for entry in table.wheels.entries
            if (code := table.code(entry.newest))
        }
        for table in (component.gpu_code for component in COMPONENTS)
        if table
    ]
    both = {frozenset.intersection(*some) for some in product(by_cuda, *by_wheel)}
    kept = (tuple(arch for arch in arches if arch in some) for some in both)
    ordered = sorted((some for some in kept if some and some != arches), key=lambda some: (-len(some), some))
    return tuple(dict.fromkeys((*ordered, ("8.0",))))


WHOLE: dict[str, Callable[[tuple[str, ...]], tuple[tuple[str, ...], ...]]] = {
    "gpu_arch": _supported, "fabric": _fabrics, "benchmarks": _benchmarks,
}  # fmt: skip
"""Lists that are replaced as a whole."""


def _compiles(cuda: str, arch: str) -> bool:
    cell = ANY_CUDA.changed({"cuda": cuda, "gpu_arch": (arch,)})
    return weigh(CUDA_ARCH, CUDA_ARCH.ask(cell)) is Ruling.FITS


CUDA_ARCH = next(rule for rule in compilers.RULES if rule.name == "cuda-arch")
ANY_CUDA = Cell(id="any", provider=ProviderName.NVIDIA, os="", python="", mpi=Mpi.of("openmpi", ""))


def _releases(*groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({value for group in groups for value in group}, key=as_numbers))


KNOWN: dict[str, tuple[str, ...]] = {
    "provider": tuple(ProviderName),
    "os": tuple(d.id for d in reversed(distributions.DISTRIBUTIONS)),
    "python": _releases(*((d.python, *d.pythons) for d in distributions.DISTRIBUTIONS)),
    "gcc": _releases(*(d.gcc for d in distributions.DISTRIBUTIONS)),
    "cuda": _releases(
        *(tuple(map(distributions.cuda_release, made.split())) for _, made, _ in distributions.NVIDIA_IMAGES),
        tuple(d.cuda for d in distributions.DISTRIBUTIONS if d.cuda),
    ),
    **{component.name: component.field.releases for component in OF_COMPONENTS if component.field.releases},
}
"""Every value that the tables know, in order."""
