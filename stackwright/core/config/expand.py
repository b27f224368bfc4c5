"""From the matrix to its rows, and from the rows to those that a person asked for. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import product
from math import prod
from typing import Any

from stackwright.core.components.component import Component
from stackwright.core.components.table import COMMUNICATION, FIELDS, MODULES, TOOLS
from stackwright.core.config import additions
from stackwright.core.config.messages import near
from stackwright.core.config.yaml_tree import wrong
from stackwright.core.errors import UsageError
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.matrix import Mark, Matrix, Value
from stackwright.core.model.row import VERBS, Cell, Flavour, Mpi
from stackwright.core.model.target import PLATFORMS, platform_of

MAX_CELLS = 1_000_000

GLOB = frozenset("*?[")


def expand(matrix: Matrix) -> tuple[Cell, ...]:
    """Return the rows: combinations of the axes in the order of the file, then ``include``. Raises
    MatrixError."""
    _refuse_too_many(matrix)
    cells: dict[str, Cell] = {}
    for cell in _combinations(matrix):
        if len(cell.id) > 63:
            hint = "move fields that have one value from 'axes' to 'defaults', or write rows under 'include'"
            raise wrong(matrix.path, _start(matrix), f"the id {cell.id!r} is longer than 63 characters", hint)
        cells[cell.id] = cell
    defaults = dict(matrix.defaults)
    for row in matrix.include:
        if row.id in cells:
            cause = f"duplicate row id {row.id!r}: the axes on line {_start(matrix).line} make it too"
            raise wrong(matrix.path, row.mark, cause, "rename this row, or drop the other under 'exclude'")
        cells[row.id] = _cell(row.id, {**defaults, **dict(row.fields)}, row.mark.line)
    if not cells:
        mark = matrix.exclude[0].mark
        raise wrong(matrix.path, mark, "'exclude' drops every row", "remove one of its entries")
    _refuse_idle_patterns(matrix, cells)
    _refuse_odd_platforms(matrix, cells)
    return tuple(cells.values())


def _start(matrix: Matrix) -> Mark:
    return matrix.axes[0].mark


def _refuse_too_many(matrix: Matrix) -> None:
    count = (prod(len(axis.values) for axis in matrix.axes) if matrix.axes else 0) + len(matrix.include)
    if count > MAX_CELLS:
        cause = f"the axes make {count:,} rows; the limit is {MAX_CELLS:,}"
        raise wrong(
            matrix.path, _start(matrix), cause, "give the axes fewer values, or write rows under 'include'"
        )


def _refuse_idle_patterns(matrix: Matrix, cells: dict[str, Cell]) -> None:
    for pattern in matrix.patterns:
        if pattern.text not in cells and not any(fnmatchcase(id, pattern.text) for id in cells):
            hint = near(pattern.text, cells) or "the ids of the rows are printed by the command plan"
            raise wrong(matrix.path, pattern.mark, f"'select': {pattern.text!r} matches no row", hint)


def _refuse_odd_platforms(matrix: Matrix, cells: dict[str, Cell]) -> None:
    """A tag for several platforms names rows of the matrix, one for each of them: a host pulls its own."""
    for group in matrix.publish.platforms:
        rows: dict[str, str] = {}
        for row in group.rows:
            if row not in cells:
                hint = near(row, cells) or "the ids of the rows are printed by the command plan"
                raise wrong(matrix.path, group.mark, f"'platforms': there is no row {row!r}", hint)
            platform = platform_of(cells[row].platform).name
            other = rows.setdefault(platform, row)
            if other != row:
                cause = f"'platforms': {other} and {row} are both for {platform}"
                raise wrong(matrix.path, group.mark, cause, "name one row for each platform")


# ------------------------------------------------------------------------------------ combinations


def _combinations(matrix: Matrix) -> Iterator[Cell]:
    if not matrix.axes:
        return
    names = [axis.field for axis in matrix.axes]
    order = sorted(range(len(names)), key=lambda index: ID_ORDER.index(names[index]))
    dropped = [
        (tuple(names.index(name) for name in fields), values) for fields, values in excluded(matrix).items()
    ]
    defaults, line = dict(matrix.defaults), _start(matrix).line
    for values in product(*(axis.values for axis in matrix.axes)):
        if any(tuple(values[index] for index in where) in gone for where, gone in dropped):
            continue
        id = "-".join(ID_PART[names[index]](values[index]) for index in order)
        yield _cell(id, {**defaults, **dict(zip(names, values, strict=True))}, line)


def excluded(matrix: Matrix) -> dict[tuple[str, ...], set[tuple[Value, ...]]]:
    """Excluded values, by the axes that they belong to: one look-up for each set of axes that is named,
    however many entries there are. Raises MatrixError where an entry can match nothing."""
    axes = {axis.field: axis.values for axis in matrix.axes}
    shared = dict(matrix.defaults)
    table: dict[tuple[str, ...], set[tuple[Value, ...]]] = {}
    for entry in matrix.exclude:
        pairs: dict[str, Value] = {}
        for name, value in entry.fields:
            have = axes[name] if name in axes else (shared.get(name, UNSET.get(name)),)
            if value not in have:
                never = text_of(value) or "left out"
                cause = f"this entry of 'exclude' matches no row: {name} is never {never!r}"
                hint = f"{name} is one of: {', '.join(text_of(item) or 'null' for item in have[:8])}"
                raise wrong(matrix.path, entry.mark, cause, hint)
            if name in axes:
                pairs[name] = value
        fields = tuple(name for name in axes if name in pairs)
        table.setdefault(fields, set()).add(tuple(pairs[name] for name in fields))
    return table


OWN = ("pip", "compile", "build-env", "apt", "env", "files", "ports", "entrypoint")
"""What a row adds of its own; each is a tuple."""

UNSET: dict[str, Value] = {
    "gpu_arch": (), "flavour": Flavour.RUNTIME, "fabric": VERBS, "benchmarks": (),
    "test_on_gpu": False, **dict.fromkeys(OWN, ()),
}  # fmt: skip
"""What Cell has where a row and the defaults say nothing, other than None."""


def _cell(id: str, values: dict[str, Any], line: int) -> Cell:
    return Cell.of({"id": id, "line": line, **values})


def text_of(value: Value) -> str:
    """Return a value as one word: what ``--where`` compares with and what a message shows. "" is left out."""
    if isinstance(value, Mpi):
        return f"{value.flavour}{value.version}"
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value or "")


def _digest(name: str) -> Callable[[Any], str]:
    """Return what a row adds as a part of an id: its characters are not those of an id."""

    def part(value: Any) -> str:
        text = " ".join(map(str, value))
        return name.replace("-", "") + (hashlib.sha256(text.encode()).hexdigest()[:8] if value else "none")

    return part


def _prefixed(prefix: str) -> Callable[[Any], str]:
    return lambda value: prefix + ("none" if value is None else value.replace("+", "_"))


def _layer(layer: Component) -> Callable[[Any], str]:
    if layer.field.versioned:
        return _prefixed(layer.field.prefix)
    return lambda named: layer.field.prefix if named else f"no{layer.field.prefix}"


ID_PART: dict[str, Callable[[Any], str]] = {
    **{module.name: _prefixed(module.field.prefix) for module in MODULES},
    "cuda": _prefixed("cuda"),
    "cudnn": _prefixed("cudnn"),
    "nccl": _prefixed("nccl"),
    "python": _prefixed("py"),
    "gcc": _prefixed("gcc"),
    "mpi": text_of,
    **{layer.name: _layer(layer) for layer in COMMUNICATION},
    "os": _prefixed(""),
    "provider": lambda provider: f"{provider}base",
    "platform": lambda platform: PLATFORMS[platform].architecture if platform else "platformnone",
    "gpu_arch": lambda arches: "sm" + "_".join(arch.replace(".", "") for arch in arches),
    "flavour": _prefixed(""),
    "fabric": lambda fabrics: "-".join(fabrics).replace("=", ""),
    "benchmarks": lambda benchmarks: "-".join(benchmarks).replace("=", "") or "nobenchmarks",
    "test_on_gpu": lambda asked: "gputest" if asked else "nogputest",
    **{tool.name: _prefixed(tool.field.prefix) for tool in TOOLS},
    **{name: _digest(name) for name in OWN},
    "user": lambda user: f"user{(user or 'none').replace(':', '_')}",
    "wheels": lambda folder: f"wheels{folder.sha256[:8] if folder else 'none'}",
}
"""How each axis shows in an id. The order is that of this table, not of the file: moving an axis in the
file renames no row. Every axis shows, one with a single value too: a second value renames no row either."""

ID_ORDER = tuple(ID_PART)


# ---------------------------------------------------------------------------------------- selection


def select(cells: Sequence[Cell], ids: Sequence[str], where: Sequence[str]) -> tuple[Cell, ...]:
    """Return the rows that match one of ``ids`` (all, if there is none) and every ``field=value`` of
    ``where``.

    In the order of ``cells``. Raises UsageError where an id, a glob or a condition matches nothing.
    """
    wanted = _by_id(cells, ids)
    for condition in where:
        wanted = _by_field(wanted, condition)
    return wanted


def _by_id(cells: Sequence[Cell], ids: Sequence[str]) -> tuple[Cell, ...]:
    if not ids:
        return tuple(cells)
    known = [cell.id for cell in cells]
    found: set[str] = set()
    for pattern in ids:
        matching = {id for id in known if id == pattern or (GLOB & set(pattern) and fnmatchcase(id, pattern))}
        if not matching:
            hint = near(pattern, known) or _some("the rows are", known)
            raise UsageError(f"no row matches {pattern!r}", hint=hint)
        found |= matching
    return tuple(cell for cell in cells if cell.id in found)


def _by_field(cells: tuple[Cell, ...], condition: str) -> tuple[Cell, ...]:
    name, equals, pattern = condition.partition("=")
    if not equals:
        raise UsageError(
            f"--where {condition!r} has no '='", hint=f"write it as in --where {MODULES[0].name}=2.8.0"
        )
    if name not in WHERE:
        hint = near(name, WHERE) or f"the fields are {', '.join(WHERE)}"
        raise UsageError(f"--where {condition!r}: unknown field {name!r}", hint=hint)
    found = tuple(cell for cell in cells if any(fnmatchcase(word, pattern) for word in WHERE[name](cell)))
    if not found:
        have = sorted({word for cell in cells for word in WHERE[name](cell)} - {""})
        hint = near(pattern, have) or _some(f"here {name} is", have)
        raise UsageError(f"--where {condition!r} matches no row", hint=hint)
    return found


def _some(start: str, words: Sequence[str]) -> str:
    if not words:
        return f"{start} left out everywhere"
    return f"{start} {', '.join(words[:8])}" + (f" and {len(words) - 8} more" if len(words) > 8 else "")


def _field(name: str) -> Callable[[Cell], tuple[str, ...]]:
    def words(cell: Cell) -> tuple[str, ...]:
        value: Value = cell.value(name)
        return tuple(map(str, value)) or ("",) if isinstance(value, tuple) else (text_of(value),)

    return words


def _named(added: tuple[Addition, ...]) -> tuple[str, ...]:
    return (*(additions.name(addition) for addition in added), *map(str, added)) or ("",)


WHERE: dict[str, Callable[[Cell], tuple[str, ...]]] = {
    **{name: _field(name) for name in ("id", *FIELDS)},
    "pip": lambda cell: _named(cell.pip),
    "compile": lambda cell: _named(cell.compile),
    "mpi": lambda cell: (text_of(cell.mpi), cell.mpi.flavour),
    "mpi.flavour": lambda cell: (cell.mpi.flavour,),
    "mpi.version": lambda cell: (cell.mpi.version,),
}
"""What a condition is compared with, by field; a row matches if one of the words does."""
