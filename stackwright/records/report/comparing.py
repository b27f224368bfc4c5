"""Rows, or runs of one row, side by side; and the bytes that a node pulls to get from one to the other.

The reader chooses two in the page, which shows what all of them have and hides the others by its stylesheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from stackwright.core.model.record import Record
from stackwright.core.model.row import IMAGE_WORLDS, Outcome, Tier
from stackwright.records.report.wording import LABELS, duration, size, state, tier_cells

MOST_ROWS = 10
MOST_RUNS = 6
"""Columns to choose from: the page grows with their square."""
ELSEWHERE = ("id", "lock")
NONE = "\N{EN DASH}"
UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """``same`` are the pairs of columns, counted from 1, that have the same value."""

    label: str
    values: tuple[str, ...]
    same: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``pulls``: what a node that has the first of a pair pulls to have the second.

    ``same``: how many fields are left out; ``left_out``: how many more there are than can be chosen.
    """

    names: tuple[str, ...]
    fields: tuple[Field, ...]
    pulls: tuple[tuple[int, int, str], ...]
    same: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What a node pulls for a row: all of it, and after the image before it; or why that is not known."""

    row: str
    whole: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulls:
    rows: tuple[Pull, ...]
    whole: str
    after: str


def rows(records: Sequence[Record]) -> Comparison | None:
    """The newest run of each row, as many as can be chosen from."""
    return _comparison(records, [record.row for record in records], MOST_ROWS)


def nights(records: Sequence[Record]) -> Comparison | None:
    """Runs of one row, the newest first. What is the same in all of them is left out."""
    names = [record.started[:16].replace("T", " ") + f", {state(record).value}" for record in records]
    found = _comparison(records, names, MOST_RUNS)
    if found is None:
        return None
    kept = tuple(field for field in found.fields if len(set(field.values)) > 1)
    return Comparison(
        names=found.names, fields=kept, pulls=found.pulls, same=len(found.fields) - len(kept),
        left_out=found.left_out,
    )  # fmt: skip


def _comparison(records: Sequence[Record], names: Sequence[str], most: int) -> Comparison | None:
    chosen = records[:most]
    if len(chosen) < 2:
        return None
    told = [_fields(record) for record in chosen]
    labels = dict.fromkeys(label for fields in told for label in fields)
    places = range(1, len(chosen) + 1)
    pulls = (
        (place, other, pulled)
        for place, other in permutations(places, 2)
        if (pulled := lacked(chosen[other - 1], [chosen[place - 1]]))
    )
    return Comparison(
        names=tuple(names[:most]), fields=tuple(_field(label, told) for label in labels), pulls=tuple(pulls),
        left_out=len(records) - len(chosen),
    )  # fmt: skip


def _field(label: str, told: Sequence[Mapping[str, str]]) -> Field:
    values = tuple(fields.get(label, NONE) for fields in told)
    pairs = combinations(range(1, len(values) + 1), 2)
    same = tuple((place, other) for place, other in pairs if values[place - 1] == values[other - 1])
    return Field(label=label, values=values, same=same)


def _fields(record: Record) -> dict[str, str]:
    """Versions as they were found inside the image, and where that was not looked at, as declared."""
    known = {**dict(record.declared), **dict(record.found)}
    return {
        "State": state(record).value,
        **{f"Tiers passed, {world}": _tiers(record, world) for world in IMAGE_WORLDS},
        **{LABELS.get(name, name): value for name, value in known.items() if name not in ELSEWHERE},
        "Image size": size(record.image.bytes) if record.image else NONE,
        "SIF size": size(record.sif.bytes) if record.sif else NONE,
        "Run time": NONE if record.own_seconds is None else duration(record.own_seconds),
        "Base": record.image.base if record.image else NONE,
        "Lock": record.lock[:12],
        "Key": record.key[:12],
    }


def _tiers(record: Record, world: str) -> str:
    cells = tier_cells(record, world)
    bad = [cell.tier.value for cell in cells if cell.outcome is Outcome.FAILED]
    count = sum(cell.outcome is Outcome.PASSED for cell in cells)
    return f"{count} of {len(Tier)}" + (f", failed: {', '.join(bad)}" if bad else "")


# -- what a node pulls ---


def pulls(pairs: Sequence[tuple[Record, Sequence[Record]]]) -> Pulls | None:
    """Each row's newest image with the runs before it. Layers that rows share are pulled once.

    None where no record says which layers its image has.
    """
    known = [(record, before, _before(before)) for record, before in pairs if _layers([record])]
    if not known:
        return None
    lines = tuple(
        Pull(row=record.row, whole=_sum(_layers([record])), after=lacked(record, last) or _why(before))
        for record, before, last in known
    )
    every, had = (
        _layers([record for record, _, _ in known]),
        _layers([old for _, _, last in known for old in last]),
    )
    rest = _sum({digest: count for digest, count in every.items() if digest not in had})
    unsure = any(line.after == UNKNOWN for line in lines)
    return Pulls(rows=lines, whole=_sum(every), after=f"at most {rest}" if unsure else rest)


def _why(before: Iterable[Record]) -> str:
    return UNKNOWN if any(record.image for record in before) else "no run before"


def _before(runs: Iterable[Record]) -> list[Record]:
    """The last run whose layers are known, as a list of one or none."""
    return [run for run in runs if _layers([run])][:1]


def lacked(record: Record, had: Sequence[Record]) -> str:
    """Return the layers of the image that are in none of those that a node has; "" if that is not known."""
    own, there = _layers([record]), _layers(had)
    if not own or not there:
        return ""
    return _sum({digest: count for digest, count in own.items() if digest not in there})


def _layers(records: Iterable[Record]) -> dict[str, int]:
    """Bytes by digest; nothing of an image of which a layer has none."""
    return {
        layer.digest: layer.bytes
        for record in records
        if all(layer.digest for layer in record.layers)
        for layer in record.layers
    }


def _sum(layers: Mapping[str, int]) -> str:
    return size(sum(layers.values()))
