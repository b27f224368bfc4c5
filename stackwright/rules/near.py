"""The nearest row that works: the fewest changes first, and among those the ones that people mind least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from stackwright.model import Cell, Mpi
from stackwright.rules import CellRule, Said, horovod, tables, wheels
from stackwright.rules.compiler import cuda_arch
from stackwright.rules.partial import Partial
from stackwright.rules.tables import as_numbers

MIND = {
    "nccl": 1.5, "provider": 4.0, "os": 3.0, "python": 1.6, "cuda": 2.0, "gcc": 1.0, "mpi": 1.4,
    "horovod": 2.5, "torch": 3.1, "tensorflow": 3.2, "mxnet": 3.3, "keras": 1.5, "cudnn": 1.5,
    "gpu_arch": 1.2,
}  # fmt: skip
"""How little people like to give way in a field. The search chooses in this order: what others hang on
first. What is not here is never changed."""

DROPPABLE = ("torch", "tensorflow", "mxnet")

DROPPED = 3.0
"""Minded more, where a framework is left out instead of changed."""

STEP = 0.02
"""Minded more for each release further away."""

Choices = list[tuple[Any, float]]
"""Values of a field, each with how much it is minded; the first is the present one, at no cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A row that the rules accept; ``visited`` choices were made, and ``asked`` questions, to find it."""

    cell: Cell
    visited: int
    asked: int


def nearest(cell: Cell, rules: tuple[CellRule, ...], *, keep: frozenset[str] = frozenset()) -> Near | None:
    """Exact: with no change, then with one, and so on; of equally many, the ones that are minded least.

    ``keep`` names fields that must not become empty, such as frameworks that a person needs.
    """
    choices = [_choices(cell, field, field in keep) for field in MIND]
    search = _Search(Partial(cell, tuple(MIND), rules), choices)
    for most in range(len(MIND) + 1):
        search.go([], 0.0, most)
        if search.best:
            found = replace(cell, **dict(zip(MIND, search.best, strict=True)))
            return Near(cell=found, visited=search.visited, asked=search.partial.asked)
    return None


class _Search:
    """Depth first, with at most so many changes; keeps the cheapest row that is found."""

    def __init__(self, partial: Partial, choices: list[Choices]) -> None:
        self.partial, self.choices = partial, choices
        self.visited = 0
        self.best: tuple[Any, ...] = ()
        self._cost = float("inf")

    def go(self, values: list[Any], cost: float, changes_left: int) -> None:
        if len(values) == len(self.choices):
            self.best, self._cost = tuple(values), cost
            return
        for place, (value, more) in enumerate(self.choices[len(values)]):
            if (place and not changes_left) or cost + more >= self._cost:
                continue
            values.append(value)
            self.visited += 1
            if self.partial.clash(values) is None:
                self.go(values, cost + more, changes_left - bool(place))
            values.pop()


def _choices(cell: Cell, field: str, kept: bool) -> Choices:
    present = getattr(cell, field)
    others = [value for value in _others(cell, field, present) if value is not None or not kept]
    return [
        (present, 0.0),
        *(
            (value, MIND[field] + STEP * further + (DROPPED if value is None and field in DROPPABLE else 0))
            for further, value in enumerate(others)
        ),
    ]


def _others(cell: Cell, field: str, present: Any) -> list[Any]:
    """What the tables know for a field, without the present value and the closest to it first."""
    if field == "gpu_arch":
        return list(_supported(cell))
    if field == "mpi":
        versions = dict.fromkeys(getattr(d, present.flavour) for d in tables.DISTRIBUTIONS)
        return [Mpi(flavour=present.flavour, version=one) for one in versions if one != present.version]
    if field in ("cudnn", "nccl", "keras"):
        return [None] if present else []
    others = [value for value in KNOWN[field] if value != present]
    if field in ("os", "provider") or present is None:
        return others if field in ("os", "provider") else others[::-1]
    place = sum(as_numbers(value) < as_numbers(present) for value in others)
    ranked = sorted(range(len(others)), key=lambda index: abs(index - place + 0.25))
    return [others[index] for index in ranked] + ([None] if field in DROPPABLE else [])


def _supported(cell: Cell) -> Iterator[tuple[str, ...]]:
    """The row's architectures as far as each release of CUDA makes code for them; 8.0 if for none."""
    seen = {cell.gpu_arch}
    for cuda in (cell.cuda, *KNOWN["cuda"]):
        kept = tuple(
            arch
            for arch in cell.gpu_arch
            if cuda_arch(replace(cell, cuda=cuda, gpu_arch=(arch,))) is Said.FITS
        )
        for one in (kept, ("8.0",)):
            if one and one not in seen:
                seen.add(one)
                yield one


def _releases(*groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({value for group in groups for value in group}, key=as_numbers))


KNOWN: dict[str, tuple[str, ...]] = {
    "provider": ("debian", "nvidia"),
    "os": tuple(d.id for d in reversed(tables.DISTRIBUTIONS)),
    "python": _releases(*((d.python, *d.pythons) for d in tables.DISTRIBUTIONS)),
    "gcc": _releases(*(d.gcc for d in tables.DISTRIBUTIONS)),
    "cuda": _releases(
        *(tuple(map(tables.cuda_release, made.split())) for _, made, _ in tables.NVIDIA_IMAGES),
        tuple(d.cuda for d in tables.DISTRIBUTIONS if d.cuda),
    ),
    "horovod": (horovod.RELEASE,),
    "torch": wheels.newest(wheels.TORCH),
    "tensorflow": wheels.newest(wheels.TENSORFLOW),
    "mxnet": wheels.newest(wheels.MXNET),
}
"""Every value that the tables know, in order."""


def changes(old: Cell, new: Cell) -> tuple[str, ...]:
    """In words: "gcc 13 instead of 14"."""
    return tuple(
        f"{name} {shown(getattr(new, name))} instead of {shown(getattr(old, name))}"
        for name in ("provider", "os", "python", "cuda", "cudnn", "nccl", "gcc", "mpi", "torch", "tensorflow",
                     "mxnet", "keras", "gpu_arch")
        if getattr(old, name) != getattr(new, name)
    )  # fmt: skip


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, Mpi):
        return value.version
    return "none" if value is None else str(value)
