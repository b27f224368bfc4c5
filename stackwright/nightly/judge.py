"""Judge each row of a night, from this night's work and the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stackwright.core.errors import BuildError, InternalError, NodesError, StackwrightError, VerdictError
from stackwright.core.model.night import UPSTREAM, Change, Failure, Input, Margins, Pushed, RowNight, State
from stackwright.core.model.record import Phase
from stackwright.core.model.row import Cell, Lock, Rejection, World
from stackwright.host.project import Plan, Planned, Project
from stackwright.nightly.compare import differences, stages, why_to_work
from stackwright.nightly.inputs import changes, declared_only, of_lock
from stackwright.nightly.upstream import Answers
from stackwright.probe.digest import checks_digest
from stackwright.records.history import builds, nights
from stackwright.records.history.builds import Build
from stackwright.records.history.nights import LastNight

MOST_CHECKS = 3
"""Failed checks that the reason names; the record has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that is known at the end of a night, by row.

    ``compared``: id of the build that it is compared with, or empty. ``unresolved`` and ``failed``: what kept
    it from having a lock, and from being built and proven.
    """

    project: Project
    started: str
    db: sqlite3.Connection
    phases: tuple[Phase, ...]
    margins: Margins
    compared: Mapping[str, str]
    before: Mapping[str, LastNight]
    answers: Answers
    unresolved: Mapping[str, StackwrightError]
    failed: Mapping[str, StackwrightError]
    pushed: Mapping[str, Pushed | StackwrightError]

    def was(self, row: str, state: State) -> bool:
        """Return whether it was so in the last night already."""
        return row in self.before and self.before[row].state == state


def rows(seen: Seen, planned: Plan, order: Sequence[str]) -> tuple[RowNight, ...]:
    """In the order of the matrix."""
    by_row = {row.stack.id: row for row in planned.rows}
    refused = {rejection.id: rejection for rejection in planned.rejections}
    return tuple(
        _unresolved(seen, row)
        if row in seen.unresolved
        else _impossible(seen, refused[row])
        if row in refused
        else _worked(seen, by_row[row])
        for row in order
    )


def gone(before: Mapping[str, LastNight], cells: Sequence[Cell]) -> tuple[RowNight, ...]:
    """Rows that left the matrix since the last night that they were in."""
    here = {cell.id for cell in cells}
    return tuple(
        RowNight(row=row, state=State.GONE, new=True)
        for row, last in before.items()
        if row not in here and last.state != State.GONE
    )


def unreported(before: Mapping[str, LastNight], row: str) -> RowNight:
    """Return a row of which no shard of the night told: the one that had it was lost."""
    failure = Failure(
        phase="", reason="no shard reported it", exit_code=NodesError.exit_code,
        hint="the log of the job that had it says why it handed nothing over",
    )  # fmt: skip
    known = row in before and before[row].state == State.FAILED
    return RowNight(row=row, state=State.FAILED, new=not known, failure=failure)


def _unresolved(seen: Seen, row: str) -> RowNight:
    error = seen.unresolved[row]
    return RowNight(
        row=row, state=State.UNRESOLVED, new=not seen.was(row, State.UNRESOLVED),
        baseline=seen.compared[row],
        failure=Failure(phase="", reason=_reason(error), exit_code=error.exit_code, hint=error.hint),
    )  # fmt: skip


def _impossible(seen: Seen, found: Rejection) -> RowNight:
    """With what moved upstream since it was possible, where it has a lock tonight."""
    last, answer = seen.before.get(found.id), seen.answers.get(found.id)
    told = last is not None and last.state == State.IMPOSSIBLE and last.rule == found.rule
    old = [entry for entry in _inputs_before(seen, found.id) if entry.kind in UPSTREAM]
    moved = changes(old, of_lock(answer)) if isinstance(answer, Lock) and not answer.refused else ()
    return RowNight(
        row=found.id, state=State.IMPOSSIBLE, new=not told, baseline=seen.compared[found.id],
        rejection=found, changes=moved,
    )  # fmt: skip


def _worked(seen: Seen, planned: Planned) -> RowNight:
    row, key = planned.stack.id, planned.recipe.key
    old = builds.build(seen.db, seen.compared[row])
    why = why_to_work(
        old, key, checks=checks_digest(seen.project.root), worlds=worlds(seen.phases),
        sif=Phase.SIF in seen.phases,
    )  # fmt: skip
    changed = _changes(seen, row, key) if old and old.key != key else ()
    known = RowNight(
        row=row, state=State.UNCHANGED, why=why, key=key, lock=planned.stack.lock.sha256,
        baseline=seen.compared[row], changes=changed,
        definition=builds.failed_definition(seen.db, row, key),
    )  # fmt: skip
    new = builds.complete(seen.db, row, key)
    if row in seen.failed or new is None:
        error = seen.failed.get(row) or InternalError("it was worked on, and left no complete record")
        failure = _failure(seen, planned, error)
        return replace(known, state=State.FAILED, new=not seen.was(row, State.FAILED), failure=failure)
    if not why and new.id != known.baseline:
        why = "it was not in the registry, and its image was not here any more"
    known = replace(known, build=new.id, why=why)
    known = _compared(known, old, new, seen) if why else known
    return published(known, seen.pushed[row]) if row in seen.pushed else known


def _compared(known: RowNight, old: Build | None, new: Build, seen: Seen) -> RowNight:
    """That it is older than what it replaces says little alone: a clock may have been set back since."""
    margins = seen.margins
    if old and new.finished <= old.finished and new.finished < seen.started:
        note = "identical to an earlier image that passed; not rebuilt"
        return replace(known, state=State.REBUILT, notes=(note,), differences=differences(old, new, margins))
    elsewhere = old is not None and old.host != new.host
    note = "its times are not compared: it was built on another class of machine than before"
    return replace(
        known, state=State.REBUILT, seconds=sum(seconds for _, seconds in new.seconds), stages=stages(new),
        differences=differences(old, new, margins) if old else (), notes=(note,) if elsewhere else (),
    )  # fmt: skip


def published(known: RowNight, pushed: Pushed | StackwrightError) -> RowNight:
    """Return the row with the result of its publication."""
    if isinstance(pushed, Pushed):
        return replace(known, pushed=pushed, unpublished=None)
    said = Failure(phase="publish", reason=_reason(pushed), exit_code=pushed.exit_code, hint=pushed.hint)
    return replace(known, unpublished=said)


def worlds(phases: Sequence[Phase]) -> tuple[str, ...]:
    """Those that must be proven by a night of these phases."""
    named = {Phase.PROBE_DOCKER: World.DOCKER, Phase.PROBE_SIF: World.SIF}
    return tuple(world for phase, world in named.items() if phase in phases)


def _changes(seen: Seen, row: str, key: str) -> tuple[Change, ...]:
    return changes(_inputs_before(seen, row), nights.inputs_of(seen.db, key))


def _inputs_before(seen: Seen, row: str) -> tuple[Input, ...]:
    """Of the build that the row is compared with: noted by a night, or else what its record declares."""
    old = builds.build(seen.db, seen.compared[row])
    if old is None:
        return ()
    noted = nights.inputs_of(seen.db, old.key)
    return noted or declared_only(builds.declared(seen.db, old.id).items())


# -- failures --------------------------------------------------------------------------------------


def _failure(seen: Seen, planned: Planned, error: StackwrightError) -> Failure:
    built = error.failure if isinstance(error, BuildError) else None
    cause = error.known_cause
    return Failure(
        phase=builds.last_phase(seen.db, planned.stack.id, planned.recipe.key),
        reason=_reason(error), exit_code=error.exit_code, known=cause.name if cause else "",
        hint=error.hint, source=cause.source if cause else "",
        log=str(built.log) if built and built.log else "",
    )  # fmt: skip


def _reason(error: StackwrightError) -> str:
    """Return one line: a build's cause, the first checks that failed, or why another program stopped."""
    if isinstance(error, BuildError):
        return error.first_line
    if not isinstance(error, VerdictError):
        return "; ".join((error.first_line, *error.details))
    hidden = len(error.details) - MOST_CHECKS
    shown = "; ".join((*error.details[:MOST_CHECKS], *([f"{hidden} more"] if hidden > 0 else [])))
    return f"{error.first_line}: {shown}" if shown else error.first_line
