"""A row's runs over time, as small charts that line up night by night. A table on the page says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stackwright.core.model.record import Record, Status
from stackwright.core.model.row import IMAGE_WORLDS, Outcome, Tier
from stackwright.records.report.wording import State, duration, plural, size, state, tier_cells

SHOWN = 16
"""Runs in a chart: so many are as wide as a phone."""
PITCH, BAR, HEIGHT = 14, 9, 46
"""Units of the drawing between two runs, the width of a bar, and the height of the highest one."""
WORST = (Outcome.FAILED, Outcome.NOT_RUN, Outcome.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run of a row. ``tiers`` has the worst outcome of each tier over the image's worlds."""

    row: str
    key: str
    started: str
    state: State
    image: int | None = None
    sif: int | None = None
    seconds: float | None = None
    tiers: tuple[tuple[Tier, Outcome], ...] = ()

    @property
    def passed(self) -> int:
        return sum(outcome is Outcome.PASSED for _, outcome in self.tiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A bar of a chart: where it begins, how high it is, and its value as text."""

    x: float
    y: float
    height: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """``text`` says what the picture shows; ``top`` is the value of the highest bar."""

    title: str
    text: str
    top: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    x: int
    outcome: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLine:
    tier: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """``width`` is that of all charts, so that one night is at one place in each of them."""

    width: int
    charts: tuple[Chart, ...]
    tiers: tuple[TierLine, ...]
    tiers_text: str


def of_record(record: Record) -> Point:
    return Point(
        row=record.row, key=record.key, started=record.started, state=state(record),
        image=record.image.bytes if record.image else None, sif=record.sif.bytes if record.sif else None,
        seconds=record.own_seconds,
        tiers=worst(
            (cell.tier, cell.outcome) for world in IMAGE_WORLDS for cell in tier_cells(record, world)
        ),
    )  # fmt: skip


def worst(outcomes: Iterable[tuple[Tier, Outcome]]) -> tuple[tuple[Tier, Outcome], ...]:
    """Return one outcome of each tier; a tier of which nothing is known was not run."""
    found: dict[Tier, set[Outcome]] = {}
    for tier, outcome in outcomes:
        found.setdefault(tier, set()).add(outcome)
    return tuple((tier, _worst_of(found.get(tier, set()))) for tier in Tier)


def _worst_of(outcomes: set[Outcome]) -> Outcome:
    return next((outcome for outcome in WORST if outcome in outcomes), Outcome.NOT_RUN)


def state_of(status: Status, tiers: Sequence[tuple[Tier, Outcome]]) -> State:
    """As ``state`` judges a record, of what the history knows."""
    outcomes = {outcome for _, outcome in tiers}
    if status is Status.FAILED or Outcome.FAILED in outcomes:
        return State.FAILED
    if status is Status.INTERRUPTED:
        return State.INTERRUPTED
    if outcomes == {Outcome.PASSED}:
        return State.PROVEN
    return State.PARTLY if Outcome.PASSED in outcomes else State.UNPROVEN


def runs(records: Iterable[Record], known: Iterable[Point]) -> dict[str, tuple[Point, ...]]:
    """Return the runs of each row from old to new; what a record says counts, else what is ``known``."""
    points = {(point.row, point.key, point.started): point for point in (*known, *map(of_record, records))}
    rows: dict[str, list[Point]] = {}
    for point in sorted(points.values(), key=lambda point: point.started):
        rows.setdefault(point.row, []).append(point)
    return {row: tuple(found) for row, found in rows.items()}


def trend(points: Sequence[Point]) -> Trend | None:
    """None before the second run: one bar is no history."""
    shown = tuple(points[-SHOWN:])
    if len(shown) < 2:
        return None
    charts = (
        _chart("Image size", shown, lambda point: point.image, lambda value: size(round(value))),
        _chart("SIF size", shown, lambda point: point.sif, lambda value: size(round(value))),
        _chart("Run time", shown, lambda point: point.seconds, duration),
    )
    return Trend(
        width=PITCH * len(shown), charts=tuple(filter(None, charts)),
        tiers=tuple(_line(tier, shown) for tier in Tier), tiers_text=_in_words(shown),
    )  # fmt: skip


def _chart(
    title: str,
    points: Sequence[Point],
    value: Callable[[Point], float | None],
    words: Callable[[float], str],
) -> Chart | None:
    """From zero, so that twice as high is twice as much."""
    found = [
        (place, point, amount) for place, point in enumerate(points) if (amount := value(point)) is not None
    ]
    if not found:
        return None
    highest = max(amount for _, _, amount in found) or 1
    columns = tuple(
        Column(
            x=place * PITCH + (PITCH - BAR) / 2, height=round(HEIGHT * amount / highest, 1),
            y=round(HEIGHT * (1 - amount / highest), 1), text=f"{_day(point)}: {words(amount)}",
        )
        for place, point, amount in found
    )  # fmt: skip
    low, last = min(amount for _, _, amount in found), found[-1][2]
    text = (
        f"{title} in {plural(len(found), 'run')} from {_day(found[0][1])} to {_day(found[-1][1])}: "
        f"between {words(low)} and {words(highest)}, last {words(last)}"
    )
    return Chart(title=title, text=text, top=words(highest), columns=columns)


def _line(tier: Tier, points: Sequence[Point]) -> TierLine:
    outcomes = [dict(point.tiers).get(tier, Outcome.NOT_RUN) for point in points]
    marks = (
        Mark(x=place * PITCH, outcome=outcome.value, text=f"{_day(point)}: {tier.value} {outcome.value}")
        for place, (point, outcome) in enumerate(zip(points, outcomes, strict=True))
    )
    return TierLine(tier=tier.value, marks=tuple(marks))


def _in_words(points: Sequence[Point]) -> str:
    def passed(tier: Tier) -> int:
        return sum((tier, Outcome.PASSED) in point.tiers for point in points)

    told = ", ".join(f"{tier.value} in {passed(tier)}" for tier in Tier)
    return (
        f"Tiers passed in {plural(len(points), 'run')} from {_day(points[0])} to {_day(points[-1])}: {told}"
    )


def _day(point: Point) -> str:
    return point.started[:16].replace("T", " ")
