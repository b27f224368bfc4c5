"""One row, phase by phase: each is recorded when it ends, and what is done already is not done again."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from stackwright import __version__
from stackwright.build.display import Expected
from stackwright.build.gpu_test import GPU_BUILD, wants_gpu
from stackwright.build.job import Job
from stackwright.build.phases import PHASES
from stackwright.build.sif import definition
from stackwright.build.sif.convert import SIGNED_BY
from stackwright.core.errors import BuildError, StackwrightError
from stackwright.core.model.compression import DEFAULT, Compression
from stackwright.core.model.record import Definition, Phase, Record, Status, flatten
from stackwright.core.render import dockerfile
from stackwright.core.steps.names import wheels
from stackwright.host.files import row_lock
from stackwright.host.project import Planned, Project
from stackwright.probe.digest import checks_digest
from stackwright.records import files as record
from stackwright.records.last_time import LastTime, last_time

PROBES = (Phase.PROBE_DOCKER, Phase.PROBE_SIF, Phase.PROBE_DEFINITION)


def work(job: Job, wanted: tuple[Phase, ...]) -> Record:
    """Do those of the wanted phases that are not done. A failure is recorded, then raised.

    Phases of the image and of the definition file are not mixed: each has records of its own.
    """
    makes = Phase.DEFINITION if Phase.DEFINITION in wanted else Phase.BUILD
    with row_lock(job.project.out / job.id, job.display.say):
        latest = _latest(job, makes)
        known = None if latest and _judged_by_others(job.project, latest) else latest
        if (
            known
            and job.one_of_many
            and _recorded(job.project, known, wanted, gpu=wants_gpu(job), compression=job.compression)
        ):
            return known
        if known and all(PHASES[phase].done(job, known) for phase in wanted):
            return known
        job.project.note(job.row.recipe)
        current = known if known and PHASES[makes].done(job, known) else _begin(job, makes, latest)
        before = last_time(job.project.records, job.id, definition=makes is Phase.DEFINITION)
        try:
            for phase in wanted:
                _go_on(job)
                if not PHASES[phase].done(job, current):
                    current = _enter(job, current, phase, before)
        except BaseException as error:
            _close_failed(job, makes, error)
            raise
        current = record.closed(current, Status.COMPLETE, at=datetime.now(UTC))
        record.write(current, job.project.records)
        return current


def _latest(job: Job, makes: Phase) -> Record | None:
    key = job.row.recipe.key
    return record.latest(job.project.records, job.id, key, definition=makes is Phase.DEFINITION)


def finished(
    project: Project,
    row: Planned,
    wanted: tuple[Phase, ...],
    *,
    gpu: bool = False,
    compression: Compression = DEFAULT,
) -> Record | None:
    """Return the record of a row that some node has finished, by today's checks; no engine is asked."""
    known = record.latest(project.records, row.stack.id, row.recipe.key)
    if known is None or _judged_by_others(project, known):
        return None
    wants = gpu and row.stack.test_on_gpu
    return known if _recorded(project, known, wanted, gpu=wants, compression=compression) else None


def _recorded(
    project: Project, known: Record, wanted: tuple[Phase, ...], *, gpu: bool, compression: Compression
) -> bool:
    if known.status is not Status.COMPLETE or (gpu and GPU_BUILD not in dict(known.tools)):
        return False
    if Phase.SIF in wanted and known.sif and known.sif.compression != compression.name:
        return False
    return all(PHASES[phase].recorded(project, known) for phase in wanted)


def _judged_by_others(project: Project, known: Record) -> bool:
    """Return whether the verdict is that of other probes or other checks than today's."""
    return dict(known.tools).get("checks") != checks_digest(project.root)


def _begin(job: Job, makes: Phase, former: Record | None) -> Record:
    """``former`` is the newest record of the same key, whose image may be the one that the engine has."""
    of_definition = makes is Phase.DEFINITION
    fresh = Record(
        row=job.id,
        key=job.row.recipe.key,
        definition=Definition(key=definition.recipe(job).key) if of_definition else None,
        lock=job.row.stack.lock.sha256,
        started=record.utc(datetime.now(UTC)),
        declared=flatten(dockerfile.declared(job.row.stack)),
        phase=makes if of_definition else Phase.BASE,
        tools=definition.tools(job) if of_definition else _tools(job),
        host=record.this_host(),
    )
    if former and makes is Phase.BUILD and PHASES[makes].done(job, former):
        fresh = taken_over(fresh, former, sif=PHASES[Phase.SIF].done(job, former))
        at = fresh.run_of(Phase.BUILD)
        job.display.say(f"{job.id}: other checks than today's judged this image, built in the run of {at}")
    return record.begin(fresh, job.project.records)


def taken_over(fresh: Record, former: Record, *, sif: bool) -> Record:
    """Return the record with how the same image was made, from a former one of it, and with no verdict.

    The tools are those that made it: of today are the checks alone. ``sif``: its file is the same as well.
    """
    made = (Phase.BASE, Phase.BUILD, Phase.SIF) if sif else (Phase.BASE, Phase.BUILD)
    tools = {name: text for name, text in former.tools if sif or name != SIGNED_BY}
    return replace(
        fresh,
        image=former.image,
        layers=former.layers,
        steps=tuple(step for step in former.steps if step.phase in made),
        sif=former.sif if sif else None,
        timings=tuple(
            replace(timing, run=former.run_of(timing.phase))
            for timing in former.timings
            if timing.phase in made
        ),
        tools=tuple({**tools, "checks": dict(fresh.tools)["checks"]}.items()),
    )


def _enter(job: Job, current: Record, phase: Phase, before: LastTime) -> Record:
    current = record.entered(current, phase)
    record.write(current, job.project.records)
    job.display.phase(job.id, phase, last_time=before.phases.get(phase))
    if phase is Phase.BUILD:
        job.display.expect(job.id, Expected(wheels=wheels(job.row.recipe), seconds=before.steps))
    began = time.monotonic()
    current = PHASES[phase].do(job, current)
    if phase in PROBES:
        _go_on(job)  # a probe that was ended half-way is no verdict
    seconds = time.monotonic() - began
    current = record.timed(current, phase, seconds)
    record.write(current, job.project.records)
    job.display.ended(job.id, phase, seconds)
    if problem := PHASES[phase].problem(current):
        raise problem
    return current


def _go_on(job: Job) -> None:
    if job.stop.is_set():
        raise KeyboardInterrupt


def _close_failed(job: Job, makes: Phase, error: BaseException) -> None:
    """The record on the disk, not the one in hand: it holds everything that was finished."""
    current = _latest(job, makes)
    if current:
        interrupted = job.stop.is_set() or isinstance(error, KeyboardInterrupt)
        status = Status.INTERRUPTED if interrupted else Status.FAILED
        reason, cause = ("interrupted", "") if interrupted else _explained(error, makes)
        failure = error.failure if isinstance(error, BuildError) else None
        tail = failure.tail if failure else ()
        closed = record.closed(current, status, at=datetime.now(UTC), reason=reason, cause=cause, tail=tail)
        record.write(closed, job.project.records)


def _explained(error: BaseException, makes: Phase) -> tuple[str, str]:
    """Return the reason in a line, and the name of its known cause.

    Reports show that of a definition file after the names of its row and of its world.
    """
    if isinstance(error, StackwrightError):
        reason = error.first_line if makes is Phase.DEFINITION else error.headline
        return reason, error.known_cause.name if error.known_cause else ""
    return str(error).partition("\n")[0] or "interrupted", ""


def _tools(job: Job) -> tuple[tuple[str, str], ...]:
    checks = ("checks", checks_digest(job.project.root))
    if job.docker.builder:
        said = job.runner([job.docker.builder, "--version"], timeout=20).stdout
        return (
            ("stackwright", __version__),
            ("docker", job.docker.title),
            ("builder", " ".join(said.split()[:3])),
            checks,
        )
    buildx = job.runner(job.docker.command("buildx", "version"), timeout=20).stdout.split()
    return (
        ("stackwright", __version__),
        ("docker", job.docker.version),
        ("buildx", buildx[1] if len(buildx) > 1 else ""),
        checks,
    )
