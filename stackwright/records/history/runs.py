"""What the history knows of the runs of each row, for the charts of the page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stackwright.core.model.record import Status
from stackwright.core.model.row import IMAGE_WORLDS, Outcome, Tier
from stackwright.records.history import builds
from stackwright.records.report.trend import SHOWN, Point, state_of, worst

RUNS = """SELECT id, row, key, started, status, image, sif, seconds FROM (
    SELECT id, row, key, started, status,
    (SELECT bytes FROM size WHERE size.build = id AND kind = 'image') AS image,
    (SELECT bytes FROM size WHERE size.build = id AND kind = 'sif') AS sif,
    (SELECT sum(seconds) FROM timing WHERE timing.build = id) AS seconds,
    row_number() OVER (PARTITION BY row ORDER BY started DESC) AS number
    FROM build WHERE definition = ''
) WHERE number <= ? ORDER BY row, started"""


def points(path: Path) -> tuple[Point, ...]:
    """Return the last runs of each row; none where there is no history. RecordError where it is none."""
    if not path.is_file():
        return ()
    with builds.opened(path) as db:
        tiers = _tiers(db.execute("SELECT build, world, tier, outcome FROM tier"))
        found = db.execute(RUNS, (SHOWN,)).fetchall()
    return tuple(
        Point(
            row=row, key=key, started=started, state=state_of(Status(status), tiers.get(id, ())),
            image=image, sif=sif, seconds=seconds, tiers=worst(tiers.get(id, ())),
        )
        for id, row, key, started, status, image, sif, seconds in found
    )  # fmt: skip


def _tiers(found: Iterable[tuple[str, str, str, str]]) -> dict[str, list[tuple[Tier, Outcome]]]:
    """Return the outcomes of each build. A world that was not looked at has run none of its tiers."""
    told: dict[str, list[tuple[Tier, Outcome]]] = {}
    worlds: dict[str, set[str]] = {}
    for id, world, tier, outcome in found:
        if world in IMAGE_WORLDS and tier in tuple(Tier):
            told.setdefault(id, []).append((Tier(tier), Outcome(outcome)))
            worlds.setdefault(id, set()).add(world)
    for id, seen in worlds.items():
        if len(seen) < len(IMAGE_WORLDS):
            told[id] += [(tier, Outcome.NOT_RUN) for tier in Tier]
    return told
