"""The whole product of the axes, pruned by rules: how many cells each rules out, and how many are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from stackwright.core.components.table import COMMUNICATION, FRAMEWORKS
from stackwright.core.config.expand import excluded, text_of
from stackwright.core.facts import distributions
from stackwright.core.facts.provenance import read
from stackwright.core.model.matrix import Matrix
from stackwright.core.model.row import Cell, Mpi, MpiFlavour, ProviderName
from stackwright.core.resolve.nearest import COST, KNOWN, OPTIONAL
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling, weigh


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    field: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """``fallen``: each rule with the cells that it rules out; a cell is counted once, for the first
    rule that can tell, while its values are chosen in the order of ``axes``. ``asked`` counts the questions
    to rules."""

    axes: tuple[Axis, ...]
    cells: int
    left: int
    fallen: tuple[tuple[CellRule, int], ...]
    asked: int


def sweep(rest: Cell, axes: Sequence[Axis], rules: Sequence[CellRule]) -> Sweep:
    """Count without making the cells: a clash between the values chosen so far prunes all that follow."""
    ordered = tuple(sorted(axes, key=lambda axis: ORDER.get(axis.field, len(ORDER))))
    late = [rule for rule in rules if rule.about is About.RELEASE]
    partial = Partial(
        rest, [axis.field for axis in ordered], [rule for rule in rules if rule not in late], late
    )
    below = [prod(len(axis.values) for axis in ordered[depth + 1 :]) for depth in range(len(ordered))]
    fallen = {rule.name: 0 for rule in rules}

    def go(values: list[Any]) -> int:
        depth, left = len(values), 0
        for value in ordered[depth].values:
            values.append(value)
            rule = partial.clash(values)
            if rule:
                fallen[rule.name] += below[depth]
            else:
                left += go(values) if depth + 1 < len(ordered) else 1
            values.pop()
        return left

    left = go([])
    return Sweep(
        axes=ordered,
        cells=prod(len(axis.values) for axis in ordered),
        left=left,
        fallen=tuple((rule, fallen[rule.name]) for rule in rules),
        asked=partial.asked,
    )


def left(rest: Cell, axes: Sequence[Axis], rules: Sequence[CellRule]) -> Iterator[Cell]:
    """Yield the cells that no rule refuses, each made."""
    ordered = tuple(sorted(axes, key=lambda axis: ORDER.get(axis.field, len(ORDER))))
    fields = [axis.field for axis in ordered]
    partial = Partial(rest, fields, rules)

    def go(values: list[Any]) -> Iterator[Cell]:
        for value in ordered[len(values)].values:
            values.append(value)
            if partial.clash(values) is None:
                if len(values) < len(ordered):
                    yield from go(values)
                else:
                    yield rest.changed(dict(zip(fields, values, strict=True)))
            values.pop()

    return go([])


ORDER = {field: place for place, field in enumerate(COST)}
"""What others hang on is chosen first, as in the search for the nearest row."""

ANY = Cell(
    id="any",
    provider=ProviderName.DEBIAN,
    os="",
    python="",
    components=tuple((layer.name, layer.field.releases[-1]) for layer in COMMUNICATION[:1]),
    mpi=Mpi(flavour=MpiFlavour.OPENMPI, version=""),
)
"""What a cell has where no axis says otherwise."""


def of_tables() -> tuple[Cell, tuple[Axis, ...]]:
    """Return every value that the tables know, without the layers that a row may have besides the first."""
    mpis = dict.fromkeys(
        Mpi(flavour=flavour, version=getattr(known, flavour))
        for known in distributions.DISTRIBUTIONS
        for flavour in MpiFlavour
    )
    optional = {framework.name for framework in FRAMEWORKS}
    axes = [
        Axis(field=field, values=(*([None] if field in optional else []), *values))
        for field, values in KNOWN.items()
        if field not in OPTIONAL
    ]
    arches = tuple((name,) for name in distributions.architectures())
    return ANY, (*axes, Axis(field="mpi", values=tuple(mpis)), Axis(field="gpu_arch", values=arches))


def of_matrix(matrix: Matrix) -> tuple[Cell, tuple[Axis, ...]]:
    """Return the axes of the matrix over its defaults; those of the tables if it has none."""
    if not matrix.axes:
        return of_tables()
    values: dict[str, Any] = dict(matrix.defaults)
    given = {axis.field: axis.values[0] for axis in matrix.axes}
    rest = Cell.of({"id": "any", **values, **given})
    return rest, tuple(Axis(field=axis.field, values=axis.values) for axis in matrix.axes)


def exclusions(matrix: Matrix) -> tuple[CellRule, ...]:
    """``exclude`` as rules, one for each set of axes that its entries name, so that it prunes as they do."""

    def rule(fields: tuple[str, ...], dropped: set[tuple[Any, ...]]) -> CellRule:
        def ask(cell: Cell) -> Answer:
            values = tuple(cell.value(name) for name in fields)
            if values not in dropped:
                return Ruling.FITS
            clash = tuple((name, text_of(value)) for name, value in zip(fields, values, strict=True))
            return Clash(values=clash, reason="the matrix excludes it")

        return CellRule(
            name=f"exclude {', '.join(fields)}".strip(), about=About.STACK, fields=fields, ask=ask,
            fact=read(f"exclude, {Path(matrix.path).name}", ""), says="what the matrix itself leaves out",
        )  # fmt: skip

    return tuple(rule(fields, dropped) for fields, dropped in excluded(matrix).items())


class Partial:
    """Asks rules of a row that is still being chosen, field by field: what already clashes is not gone into.

    ``fields`` are chosen in this order; all others are those of ``rest``.

    A rule is due when the last field that it reads is chosen. It is asked once for the values that it
    reads; ``asked`` counts the questions. Rules in ``late`` wait until every field is chosen.
    """

    def __init__(
        self, rest: Cell, fields: Sequence[str], rules: Sequence[CellRule], late: Sequence[CellRule] = ()
    ) -> None:
        self.asked = 0
        self._rest, self._fields = rest, tuple(fields)
        self._known: dict[tuple[str, tuple[Any, ...]], bool] = {}
        self._due: list[list[tuple[CellRule, tuple[int, ...]]]] = [[] for _ in fields]
        for rule in (*rules, *late):
            places = tuple(sorted(self._fields.index(name) for name in rule.fields if name in self._fields))
            due = len(self._fields) - 1 if rule in late else max(places, default=0)
            self._due[due].append((rule, places))

    def clash(self, values: Sequence[Any]) -> CellRule | None:
        """Return the first rule that refuses, of those that are due at the last value chosen so far."""
        for rule, places in self._due[len(values) - 1]:
            key = (rule.name, tuple([values[place] for place in places]))
            refused = self._known.get(key)
            if refused is None:
                refused = self._known[key] = self._ask(rule, places, key[1])
            if refused:
                return rule
        return None

    def _ask(self, rule: CellRule, places: tuple[int, ...], values: tuple[Any, ...]) -> bool:
        self.asked += 1
        chosen = {self._fields[place]: value for place, value in zip(places, values, strict=True)}
        return weigh(rule, rule.ask(self._rest.changed(chosen)), self._rest.allow) in (
            Ruling.REFUSES,
            Ruling.UNKNOWN,
        )
