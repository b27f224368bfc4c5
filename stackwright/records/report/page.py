"""The page: everything that templates/page.html.j2 shows, worked out before the template is filled.

The template decides about looks only. Names and details come from logs and from inside images: they are
escaped by Jinja2, and the page forbids itself every script and every outside resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from stackwright import __version__
from stackwright.core.components.table import COMPILED
from stackwright.core.launch.examples import Recipe
from stackwright.core.model.record import Phase, Record, Step, Timing
from stackwright.core.model.row import IMAGE_WORLDS, Check, Rejection, Tier
from stackwright.core.steps.names import of_record
from stackwright.host.shipped import PROGRAM, called
from stackwright.records.files import newest, utc
from stackwright.records.report import comparing, trend
from stackwright.records.report import definitions as of_definitions
from stackwright.records.report.commands import Command, commands, launches
from stackwright.records.report.comparing import Comparison
from stackwright.records.report.links import Link
from stackwright.records.report.sharing import sentence, sharing
from stackwright.records.report.trend import Point, Trend
from stackwright.records.report.wording import (
    LABELS,
    State,
    TierCell,
    agrees,
    clean,
    duration,
    ending,
    key_versions,
    not_run,
    plural,
    size,
    state,
    tier_cells,
)

STEPS_SHOWN = 12
EARLIER_SHOWN = trend.SHOWN
URGENCY = (State.FAILED, State.INTERRUPTED, State.UNPROVEN, State.PARTLY, State.PROVEN)
"""The order of rows on the page: what needs a person comes first."""
IDENTITY = ("id", "lock")
"""Declared fields that the page shows elsewhere."""

TIERS = {
    Tier.STATIC: "Files, packages, user and labels are as declared; nothing secret or left over.",
    Tier.LINK: f"Each framework and each {COMPILED} extension imports; one CUDA, one cuDNN, one NCCL is "
    "mapped.",
    Tier.BUILT: f"Each {COMPILED} extension was compiled with the NCCL, MPI and Gloo of the row.",
    Tier.COLLECTIVE: "Real collectives and training steps over two ranks, by MPI and by Gloo.",
    Tier.GPU: "NCCL on the device, and kernels for the architectures of the row.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """``percent`` is the length, of the longest in its picture; ``share`` is text next to the value."""

    label: str
    value: str
    percent: float
    share: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    label: str
    declared: str
    found: str
    standing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckView:
    """One check and what it saw in each world that it was asked in."""

    id: str
    why: str
    seen: tuple[tuple[str, Check], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierView:
    tier: Tier
    purpose: str
    cells: tuple[TierCell, ...]
    checks: tuple[CheckView, ...]
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    record: Record
    state: State
    ending: str
    tail: str
    where: str
    versions_line: str
    numbers: tuple[tuple[str, str], ...]
    worlds: tuple[tuple[str, tuple[TierCell, ...]], ...]
    not_run: tuple[tuple[str, str], ...]
    failed: tuple[tuple[str, Check], ...]
    changes: tuple[str, ...]
    versions: tuple[Version, ...]
    tiers: tuple[TierView, ...]
    phases: tuple[Bar, ...]
    steps: tuple[Bar, ...]
    more_steps: str
    components: tuple[Bar, ...]
    layers: tuple[tuple[str, str, str], ...]
    commands: tuple[tuple[str, tuple[Command, ...]], ...]
    recipes: tuple[Recipe, ...]
    earlier: tuple[tuple[str, ...], ...]
    links: tuple[Link, ...]
    trend: Trend | None
    nights: Comparison | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionView:
    """A SIF of a definition file. ``notes`` are what must be known in addition to its marks."""

    record: Record
    trouble: str
    cells: tuple[TierCell, ...]
    numbers: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is known besides the records: files that are there, runs in the history, and how we are called.

    ``problem`` says why nothing of the history is shown, where it cannot be read.
    """

    links: Callable[[Record], tuple[Link, ...]] = lambda record: ()
    known: tuple[Point, ...] = ()
    problem: str = ""
    program: str = PROGRAM


NOTHING = Around()


def page(
    records: Sequence[Record],
    rejections: Sequence[Rejection],
    at: datetime,
    definitions: Sequence[Record] = (),
    around: Around = NOTHING,
) -> str:
    runs = trend.runs(records, around.known)
    pairs = [(record, _before(record, records)) for record in newest(records)]
    pairs.sort(key=lambda pair: URGENCY.index(state(pair[0])))
    rows = tuple(_row(record, before, runs[record.row], around) for record, before in pairs)
    counts = {kind: sum(row.state is kind for row in rows) for kind in State}
    views = tuple(_definition(definition, records) for definition in definitions)
    shared = sentence(sharing(row.record for row in rows)).splitlines()
    text = _template().render(
        headline=_headline(rows, counts, views), counts=counts, rows=rows, rejections=tuple(rejections),
        definitions=views, pulls=comparing.pulls(pairs), problem=around.problem,
        comparison=comparing.rows([record for record, _ in pairs]),
        tiers=tuple(Tier), purposes=TIERS, shared=shared, made=utc(at), version=__version__, shown=_moment,
        height=trend.HEIGHT, bar=trend.BAR, pitch=trend.PITCH,
    )  # fmt: skip
    return called(text, around.program)


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.j2")


def _headline(rows: Sequence[RowView], counts: dict[State, int], views: Sequence[DefinitionView]) -> str:
    unsound = [view.record.row for view in views if view.trouble]
    if unsound and not counts[State.FAILED] + counts[State.INTERRUPTED]:
        return f"The definition file of {', '.join(unsound)} needs attention"
    if not rows:
        return "No image has been built yet"
    bad = counts[State.FAILED] + counts[State.INTERRUPTED]
    if not bad:
        kept = any(cell.reason for row in rows for _, cells in row.worlds for cell in cells)
        what = "passed every check that could run" if kept else "passed every check"
        return f"{plural(len(rows), 'image')} {what}" if counts[State.UNPROVEN] == 0 else "Not proven yet"
    verb = "needs" if bad == 1 else "need"
    return f"{bad} of {plural(len(rows), 'image')} {verb} attention"


def _row(record: Record, before: tuple[Record, ...], runs: Sequence[Point], around: Around) -> RowView:
    worlds = tuple((world, tier_cells(record, world)) for world in IMAGE_WORLDS)
    named = zip(of_record(record), record.steps, strict=True)
    steps = sorted(named, key=lambda pair: (pair[1].outcome == "done", -pair[1].seconds))
    return RowView(
        record=record,
        state=state(record),
        ending=ending(record),
        tail="\n".join(clean(line) for line in record.tail),
        where=ending(record).removeprefix(f"{record.status.value} "),
        versions_line=key_versions(record),
        numbers=_numbers(record),
        worlds=worlds,
        not_run=tuple((what, reason) for reason, what in not_run(record).items()),
        failed=tuple((verdict.world, check) for verdict in record.verdicts for check in verdict.failed),
        changes=_changes(record, before),
        versions=_versions(record),
        tiers=tuple(_tier(tier, worlds) for tier in Tier),
        phases=_phases(record),
        steps=_steps(steps[:STEPS_SHOWN]),
        more_steps=_more([step for _, step in steps[STEPS_SHOWN:]]),
        components=_components(record),
        layers=tuple((layer.what, layer.created_by, size(layer.bytes)) for layer in record.layers),
        commands=commands(record),
        recipes=launches(record),
        earlier=tuple(_earlier(run) for run in reversed(runs[-EARLIER_SHOWN:])) if len(runs) > 1 else (),
        links=around.links(record),
        trend=trend.trend(runs),
        nights=comparing.nights((record, *before)),
    )


def _definition(record: Record, images: Sequence[Record]) -> DefinitionView:
    seconds = record.seconds(Phase.DEFINITION)
    figures = (
        size(record.sif.bytes) if record.sif else "",
        "" if seconds is None else f"built in {duration(seconds)}",
    )
    return DefinitionView(
        record=record, trouble=of_definitions.trouble(record), cells=of_definitions.cells(record),
        numbers=" · ".join(filter(None, figures)), notes=of_definitions.notes(record, newest(images)),
    )  # fmt: skip


def _before(record: Record, records: Iterable[Record]) -> tuple[Record, ...]:
    """Earlier runs of the row, from new to old."""
    older = (old for old in records if old.row == record.row and old.started < record.started)
    return tuple(sorted(older, key=lambda old: old.started, reverse=True))


def _numbers(record: Record) -> tuple[tuple[str, str], ...]:
    pairs = (
        ("image", size(record.image.bytes) if record.image else ""),
        ("SIF", size(record.sif.bytes) if record.sif else ""),
        ("run time", "" if record.own_seconds is None else duration(record.own_seconds)),
    )
    return tuple((name, text) for name, text in pairs if text)


def _versions(record: Record) -> tuple[Version, ...]:
    """List each declared field with what was found, then what was found beyond that."""
    declared, found = dict(record.declared), dict(record.found)
    names = [name for name in {**declared, **found} if name not in IDENTITY]
    return tuple(
        Version(
            label=LABELS.get(name, name), declared=declared.get(name, ""), found=found.get(name, ""),
            standing=_standing(declared.get(name), found.get(name)),
        )
        for name in names
    )  # fmt: skip


def _standing(declared: str | None, found: str | None) -> str:
    if found is None:
        return "not read back"
    if declared is None:
        return "not declared"
    return "as declared" if agrees(declared, found) else "differs"


def _changes(record: Record, before: Sequence[Record]) -> tuple[str, ...]:
    """Return what is other than in the last run that had looked inside: what upstream did, most of the
    time."""
    last = next((old for old in before if old.found), None)
    if last is None or not record.found:
        return ()
    old, new = dict(last.found), dict(record.found)
    lines = [
        f"{LABELS.get(name, name)}: {old.get(name, 'absent')} → {new.get(name, 'absent')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    if last.image and record.image and size(last.image.bytes) != size(record.image.bytes):
        lines.append(f"Image size: {size(last.image.bytes)} → {size(record.image.bytes)}")
    if pulled := comparing.lacked(record, [last]):
        lines.append(f"A node that has that image pulls layers of {pulled}, unpacked")
    if last.lock != record.lock:
        lines.append("The lock was renewed")
    return tuple(lines)


def _tier(tier: Tier, worlds: Sequence[tuple[str, tuple[TierCell, ...]]]) -> TierView:
    cells = tuple(cell for _, row in worlds for cell in row if cell.tier is tier)
    seen: dict[str, list[tuple[str, Check]]] = {}
    for cell in cells:
        for check in cell.checks:
            seen.setdefault(check.id, []).append((cell.world, check))
    checks = (CheckView(id=id, why=found[0][1].why, seen=tuple(found)) for id, found in seen.items())
    failed = any(check.outcome == "failed" for cell in cells for check in cell.checks)
    return TierView(tier=tier, purpose=TIERS[tier], cells=cells, checks=tuple(checks), failed=failed)


def _phases(record: Record) -> tuple[Bar, ...]:
    pairs = [(_named(timing), timing.seconds) for timing in record.timings]
    total = sum(seconds for _, seconds in pairs)
    return _bars([(name, seconds, duration(seconds), "") for name, seconds in pairs], total)


def _named(timing: Timing) -> str:
    return f"{timing.phase}, in the run of {_moment(timing.run)}" if timing.run else timing.phase.value


def _steps(steps: Sequence[tuple[str, Step]]) -> tuple[Bar, ...]:
    def note(step: Step) -> str:
        return step.outcome if step.outcome != "done" else "cached" if step.cached else ""

    return _bars([(name, step.seconds, duration(step.seconds), note(step)) for name, step in steps], 0)


def _more(steps: Sequence[Step]) -> str:
    cached = sum(step.cached for step in steps)
    text = f"{plural(len(steps), 'shorter step')}, {duration(sum(step.seconds for step in steps))} in all"
    return (f"{text}, {cached} of them cached" if cached else text) if steps else ""


def _components(record: Record) -> tuple[Bar, ...]:
    """Largest first; what no component claims is shown, so that the picture adds up to the image."""
    pairs = sorted(((part.name, part.bytes) for part in record.components), key=lambda pair: -pair[1])
    known = sum(count for _, count in pairs)
    total = max(record.image.bytes if record.image else 0, known)
    if pairs and total - known >= 10**7:
        pairs.append(("everything else", total - known))
    return _bars([(name, count, size(count), "") for name, count in pairs], total)


def _bars(items: Sequence[tuple[str, float, str, str]], total: float) -> tuple[Bar, ...]:
    longest = max((amount for _, amount, _, _ in items), default=0)
    return tuple(
        Bar(
            label=label, value=value, note=note, percent=100 * amount / longest if longest else 0,
            share=f"{100 * amount / total:.0f} %" if total else "",
        )
        for label, amount, value, note in items
    )  # fmt: skip


def _earlier(point: Point) -> tuple[str, ...]:
    sizes = (size(count) if count else "" for count in (point.image, point.sif))
    time = duration(point.seconds) if point.seconds else ""
    tiers = f"{point.passed} of {len(Tier)}"
    return _moment(point.started), point.state.value, tiers, *sizes, time, point.key[:12]


def _moment(stamp: str) -> str:
    """2026-03-01T12:00:00Z as people read it; always UTC, and says so."""
    return stamp.replace("T", " ").removesuffix("Z")[:16] + " UTC"
