"""Nightly build over several machines: build jobs, one publish job, one report job.

What is handed over is below ``out``, and is copied from machine to machine as it is: records, facts, and a
folder for each night. Images go through the registry, by digest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stackwright import publish
from stackwright.core.errors import EngineError, InternalError, StackwrightError, UsageError
from stackwright.core.model.night import Morning, Pushed, RowNight, State, combine
from stackwright.core.model.row import Cell, Lock
from stackwright.core.resolve import lockfile
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.engines.gpu import NoGpu, look_for_gpu
from stackwright.host.project import Planned, Project, plan
from stackwright.nightly import judge
from stackwright.nightly.night import Publisher
from stackwright.publish import by_digest
from stackwright.records.files import utc
from stackwright.records.history import builds, nights
from stackwright.records.history.merge import merge

HISTORY = "history.sqlite"
GOOD = (State.REBUILT, State.UNCHANGED)


# -- on the machine of a shard ---------------------------------------------------------------------


def handing_over(host: str, base: str, make: Callable[[], publish.Publisher]) -> Publisher:
    """Return what pushes rows that passed by digest; ``publish_handed`` sets their tags later."""

    def push(rows: Sequence[Planned]) -> Mapping[str, Pushed | StackwrightError]:
        by, wrong = make(), dict[str, Pushed | StackwrightError]()
        for row in rows:
            try:
                by_digest.push(by, row)
            except StackwrightError as error:
                wrong[row.stack.id] = error
        return wrong

    return Publisher(place=f"{host}/{base}", push=push)


def hand_over(project: Project, morning: Morning, history_path: Path) -> None:
    """Copy the history to the night's folder, consistently even while another night runs."""
    folder = project.out / "nightly" / morning.run
    folder.mkdir(parents=True, exist_ok=True)
    with builds.opened(history_path) as db, closing(sqlite3.connect(folder / HISTORY)) as copy:
        db.backup(copy)


# -- where they come together ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """``rows`` are planned with the locks of their night. ``mornings`` are as the histories have them."""

    project: Project
    history_path: Path
    mornings: tuple[Morning, ...]
    rows: tuple[Planned, ...]

    @property
    def answer(self) -> Morning:
        return combine(self.mornings)


def handed(project: Project, cells: Sequence[Cell], history_path: Path) -> Handed:
    """Of all nights below ``out``. Their histories and records are taken into one history.

    UsageError where there is none; InternalError where a row's lock does not give the key that was built.
    """
    folders = sorted(path.parent for path in (project.out / "nightly").glob(f"*/{HISTORY}"))
    if not folders:
        hint = "copy what ./build.py nightly --hand-over left below out to here"
        raise UsageError("no shard has handed over a night", place=str(project.out), hint=hint)
    merge(history_path, [folder / HISTORY for folder in folders])
    with builds.opened(history_path) as db:
        builds.take_records(db, project.records)
        mornings = tuple(nights.morning_of(db, folder.name) for folder in folders)
    rows = _planned(project, cells, combine(mornings))
    return Handed(project=project, history_path=history_path, mornings=mornings, rows=rows)


def _planned(project: Project, cells: Sequence[Cell], answer: Morning) -> tuple[Planned, ...]:
    """Those that passed and whose lock was handed over: rows of which nothing changed have none."""
    passed = {row.row: row for row in answer.rows if row.state in GOOD}
    locks = {row: found for row, night in passed.items() if (found := _lock(project, night))}
    rows = plan(project, [cell for cell in cells if cell.id in locks], locks).rows
    for row in rows:
        if row.recipe.key != passed[row.stack.id].key:
            raise InternalError(f"{row.stack.id}: this checkout makes another key of the same lock")
    return rows


def _lock(project: Project, row: RowNight) -> Lock | None:
    for path in sorted((project.out / "nightly").glob(f"*/locks/{row.row}.txt")):
        found = lockfile.read(path)
        if found.sha256 == row.lock:
            return found
    return None


def require_gpu(docker: Docker) -> None:
    """Raise EngineError where the engine gives containers none: what was proven elsewhere would be proven
    again."""
    with engine.connected(docker) as client:
        found = look_for_gpu(client)
    if isinstance(found, NoGpu):
        hint = "run it on a host with a GPU: ./build.py doctor says what its engine has"
        raise EngineError(found.reason, place="shards prove", hint=hint)


def fetch(found: Handed, by: publish.Publisher) -> tuple[tuple[Planned, ...], tuple[StackwrightError, ...]]:
    """Pull the images of all rows: those that are here now, and what kept the others away."""
    here: list[Planned] = []
    wrong: list[StackwrightError] = []
    for row in found.rows:
        try:
            by_digest.fetch(by, row)
        except StackwrightError as error:
            wrong.append(error)
        else:
            here.append(row)
    return tuple(here), tuple(wrong)


def publish_handed(found: Handed, publisher: Publisher) -> Morning:
    """Tag the rows that may be published, together; the result of each is noted in its night."""
    with builds.opened(found.history_path) as db:
        there = nights.published(db, publisher.place)
        wanted = [row for row in found.rows if there.get(row.stack.id) != row.recipe.key]
        pushed = publisher.pushed(wanted)
        builds.take_records(db, found.project.records)
        mornings = [_noted(db, morning, pushed) for morning in found.mornings]
    return combine(mornings)


def whole_answer(found: Handed, cells: Sequence[Cell], *, whole: bool) -> Morning:
    """Combine all shards, and rows that no shard reported: a shard was lost, or the row left the matrix.

    ``cells`` are what the night was asked for, ``whole`` if they are all. The last shard's night notes it.
    """
    told = {row.row for row in found.answer.rows}
    with builds.opened(found.history_path) as db:
        before = nights.last_night(db, found.project.matrix.name)
        lost = [judge.unreported(before, cell.id) for cell in cells if cell.id not in told]
        more = (*lost, *(judge.gone(before, cells) if whole else ()))
        if not more:
            return found.answer
        *others, last = found.mornings
        last = replace(last, rows=(*last.rows, *more), finished=_after(last.finished))
        nights.finish(db, last)
    return combine((*others, last))


def _after(moment: str) -> str:
    """Now, or just after what the clock of a shard said: where histories are merged, the later one counts."""
    least = datetime.fromisoformat(moment) + timedelta(seconds=1)
    return utc(max(datetime.now(UTC), least))


def _noted(
    db: sqlite3.Connection, morning: Morning, pushed: Mapping[str, Pushed | StackwrightError]
) -> Morning:
    now = _after(morning.finished)
    rows = tuple(
        judge.published(row, pushed[row.row]) if row.row in pushed else row for row in morning.rows
    )  # fmt: skip
    for row in rows:
        if isinstance(result := pushed.get(row.row), Pushed):
            nights.remember_published(db, row.row, row.key, result, now)
    morning = replace(morning, rows=rows, finished=now)
    nights.finish(db, morning)
    return morning
