"""One night: ask, compare, build what changed, prove it, hand on what passed, and note what came of it."""

from __future__ import annotations

import contextlib
import errno
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from stackwright.build import rows as session
from stackwright.build.job import Request
from stackwright.core.errors import LockError, RecordError, StackwrightError
from stackwright.core.model.night import Margins, Morning, Pushed, State
from stackwright.core.model.record import Phase
from stackwright.core.model.row import Cell, Lock, Refused, Rejection
from stackwright.core.model.site import Site
from stackwright.core.resolve import lockfile
from stackwright.host.defects import internal_error
from stackwright.host.files import held, replace_file
from stackwright.host.project import Plan, Planned, Project, plan, sources
from stackwright.host.runner import Runner
from stackwright.nightly import judge
from stackwright.nightly.compare import why_to_work
from stackwright.nightly.inputs import inputs
from stackwright.nightly.judge import Seen
from stackwright.nightly.upstream import Answers
from stackwright.probe.digest import checks_digest
from stackwright.records.files import utc
from stackwright.records.history import builds as history
from stackwright.records.history import nights
from stackwright.records.history.builds import Build
from stackwright.records.history.nights import Run

NOT_WRITABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOTDIR}
)
PHASES = (Phase.BASE, Phase.BUILD, Phase.PROBE_DOCKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """``place`` is HOST/REPOSITORY. ``push`` takes rows that passed, and moves their tags together."""

    place: str
    push: Callable[[Sequence[Planned]], Mapping[str, Pushed | StackwrightError]]

    def pushed(self, rows: Sequence[Planned]) -> dict[str, Pushed | StackwrightError]:
        """Return the result of each row; an error that concerns all is repeated for each."""
        try:
            return dict(self.push(rows)) if rows else {}
        except StackwrightError as error:
            return {row.stack.id: error for row in rows}
        except Exception as defect:
            return dict.fromkeys((row.stack.id for row in rows), internal_error(defect))


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of a night. ``whole``: all rows of the matrix. ``ask`` answers with a lock for each row.

    ``site`` is asked for when there is a row to build. ``locked``: the answers are the project's own locks.
    ``update_locks``: those that passed become them.
    """

    cells: tuple[Cell, ...]
    whole: bool
    ask: Callable[[Sequence[Cell]], Answers]
    site: Callable[[], Site]
    locked: bool = False
    update_locks: bool = False
    phases: tuple[Phase, ...] = PHASES
    jobs: int = 1
    gpu: bool = False
    margins: Margins = field(default_factory=Margins)
    publisher: Publisher | None = None


@dataclass(slots=True, kw_only=True)
class Night:
    """A night that is under way."""

    project: Project
    order: Order
    runner: Runner
    console: Console
    db: sqlite3.Connection
    run: Run

    @property
    def folder(self) -> Path:
        return self.project.out / "nightly" / self.run.id

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def work(project: Project, order: Order, *, history_path: Path, runner: Runner, console: Console) -> Morning:
    """Run one night. A row's failure is recorded and does not stop the others."""
    nightly = project.out / "nightly"
    with (
        _writing(nightly),
        held(nightly / ".lock", lambda: console.print("another night is running; waiting for it")),
        history.opened(history_path) as db,
    ):
        started = datetime.now(UTC)
        run = Run(
            id=f"{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}", started=utc(started),
            matrix=project.matrix.name, locked=order.locked, margins=order.margins,
        )  # fmt: skip
        night = Night(project=project, order=order, runner=runner, console=console, db=db, run=run)
        return _work(night)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Report a full disk or a missing permission as an error of the site, not as a defect."""
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_WRITABLE:
            raise
        hint = "check the disk, and who may write there; ./build.py history morning prints what was noted"
        cause = f"cannot be written: {error.strerror or error}"
        raise RecordError(cause, place=str(error.filename or folder), hint=hint) from error


def _work(night: Night) -> Morning:
    db, project, order = night.db, night.project, night.order
    history.take_records(db, project.records)
    current = nights.current_builds(db)
    before = nights.last_night(db, project.matrix.name)
    compared = _begin(night, current)
    answers = order.ask(order.cells)
    planned, unresolved = plan_each(project, order.cells, answers)
    _remember_inputs(night, planned)
    failed = _build(night, _todo(night, planned, current))
    history.take_records(db, project.records)
    pushed = _publish(night, [row for row in planned.rows if row.stack.id not in failed])
    seen = Seen(
        project=project, started=night.run.started, db=db, phases=order.phases, margins=order.margins,
        compared=compared, before=before, answers=answers, unresolved=unresolved, failed=failed,
        pushed=pushed,
    )  # fmt: skip
    rows = judge.rows(seen, planned, [cell.id for cell in order.cells])
    gone = judge.gone(before, order.cells) if order.whole else ()
    run = night.run
    morning = Morning(
        run=run.id, started=run.started, finished=utc(datetime.now(UTC)), matrix=run.matrix,
        locked=run.locked, margins=run.margins, rows=(*rows, *gone),
    )  # fmt: skip
    nights.finish(db, morning)
    if order.update_locks:
        _update_locks(night, morning, answers)
    return morning


def _begin(night: Night, current: Mapping[str, Build]) -> dict[str, str]:
    """Return what each row is compared with, noted before anything is done."""
    builds = {cell.id: current[cell.id].id if cell.id in current else "" for cell in night.order.cells}
    compared = nights.baselines(night.db, builds)
    nights.begin(night.db, night.run, compared)
    return compared


def plan_each(
    project: Project, cells: Sequence[Cell], answers: Answers
) -> tuple[Plan, dict[str, StackwrightError]]:
    """Return the rows that have a lock or are refused without one, and the errors of the others."""
    wrong = {row: answer for row, answer in answers.items() if isinstance(answer, StackwrightError)}
    locks = {row: answer for row, answer in answers.items() if isinstance(answer, Lock)}
    wanted = [cell for cell in cells if cell.id not in wrong]
    try:
        found = plan(project, wanted, locks)
    except Exception:  # one of the rows: each on its own, so that it is that one alone
        found, more = _one_by_one(project, wanted, locks)
        wrong |= more
    unlocked = [rejection for rejection in found.rejections if rejection.verdict is Refused.UNLOCKED]
    wrong |= {rejection.id: _unlocked(rejection) for rejection in unlocked}
    refused = tuple(rejection for rejection in found.rejections if rejection.verdict is not Refused.UNLOCKED)
    return Plan(rows=found.rows, rejections=refused), wrong


def _one_by_one(
    project: Project, wanted: Sequence[Cell], locks: Mapping[str, Lock]
) -> tuple[Plan, dict[str, StackwrightError]]:
    rows: list[Planned] = []
    rejections: list[Rejection] = []
    wrong: dict[str, StackwrightError] = {}
    for cell in wanted:
        try:
            found = plan(project, [cell], locks)
        except StackwrightError as error:
            wrong[cell.id] = error
        except Exception as defect:
            wrong[cell.id] = internal_error(defect)
        else:
            rows += found.rows
            rejections += found.rejections
    return Plan(rows=tuple(rows), rejections=tuple(rejections)), wrong


def _unlocked(rejection: Rejection) -> LockError:
    return LockError(rejection.reason, place=rejection.id, hint=rejection.nearest)


def committed_locks(project: Project, cells: Sequence[Cell]) -> Answers:
    """Return the committed locks; upstream is not asked. A row without one is reported by the plan."""
    found: dict[str, Lock | StackwrightError] = {}
    for cell in cells:
        path = project.lock_path(cell)
        if path.exists():
            try:
                found[cell.id] = lockfile.read(path)
            except LockError as error:
                found[cell.id] = error
    return found


def _remember_inputs(night: Night, planned: Plan) -> None:
    known = nights.keys_with_inputs(night.db)
    found, cells = sources(night.project), {cell.id: cell for cell in night.order.cells}
    nights.remember_inputs(night.db, {
        row.recipe.key: inputs(cells[row.stack.id], row, found)
        for row in planned.rows
        if row.recipe.key not in known
    })  # fmt: skip


# -- work ------------------------------------------------------------------------------------------


def _todo(night: Night, planned: Plan, current: Mapping[str, Build]) -> tuple[Planned, ...]:
    """Return the rows to be made, and those to be published: their image may be gone, or on another
    machine."""
    checks, phases = checks_digest(night.project.root), night.order.phases
    missing = {row.stack.id for row in _missing(night, planned.rows)}
    return tuple(
        row
        for row in planned.rows
        if row.stack.id in missing
        or why_to_work(
            current.get(row.stack.id), row.recipe.key, checks=checks, worlds=judge.worlds(phases),
            sif=Phase.SIF in phases,
        )
    )  # fmt: skip


def _missing(night: Night, rows: Sequence[Planned]) -> list[Planned]:
    """Return the rows that the registry should have and lacks."""
    publisher = night.order.publisher
    if publisher is None:
        return []
    there = nights.published(night.db, publisher.place)
    return [row for row in rows if there.get(row.stack.id) != row.recipe.key]


def _build(night: Night, todo: tuple[Planned, ...]) -> dict[str, StackwrightError]:
    """Without a row to work on, no engine is looked for."""
    if not todo:
        return {}
    for row in todo:
        path = night.folder / "locks" / f"{row.stack.id}.txt"
        replace_file(path, row.stack.lock.text.encode())
    try:
        done = session.work_rows(
            night.project, Plan(rows=todo, rejections=()),
            Request(phases=night.order.phases, jobs=night.order.jobs, gpu=night.order.gpu),
            site=night.order.site(), runner=night.runner, console=night.console,
        )  # fmt: skip
    except StackwrightError as error:  # no engine: the morning says so of every row that needed one
        return {row.stack.id: error for row in todo}
    return dict(done.failed)


def _publish(night: Night, passed: Sequence[Planned]) -> dict[str, Pushed | StackwrightError]:
    """Publish what the registry lacks, also rows of an earlier night that was killed before it published."""
    publisher = night.order.publisher
    wanted = _missing(night, passed)
    if publisher is None or not wanted:
        return {}
    keys = {row.stack.id: row.recipe.key for row in wanted}
    pushed = publisher.pushed(wanted)
    for row, result in pushed.items():
        if isinstance(result, Pushed):
            nights.remember_published(night.db, row, keys[row], result, utc(datetime.now(UTC)))
    history.take_records(night.db, night.project.records)  # they know the digest of the registry now
    return pushed


def _update_locks(night: Night, morning: Morning, answers: Answers) -> None:
    """Only locks of rows that passed: what is committed has been built and proven."""
    passed = {row.row for row in morning.rows if row.state in (State.REBUILT, State.UNCHANGED)}
    for cell in night.order.cells:
        found, path = answers.get(cell.id), night.project.lock_path(cell)
        if cell.id not in passed or not isinstance(found, Lock):
            continue
        if not path.exists() or path.read_bytes() != found.text.encode():
            replace_file(path, found.text.encode())
            night.say(f"{cell.id}: {path.parent.name}/{path.name} is now the lock of this night")
