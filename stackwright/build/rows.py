"""Work on several rows at once, each in its thread; a failure does not stop the others."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console

from stackwright.build import row as pipeline
from stackwright.build.display import Display
from stackwright.build.job import Job, Request
from stackwright.core.errors import EngineError, RecordError, StackwrightError
from stackwright.core.model.record import Phase, Record
from stackwright.core.model.row import Rejection
from stackwright.core.model.site import Site
from stackwright.engines import apptainer, docker
from stackwright.host.defects import internal_error
from stackwright.host.output import Output
from stackwright.host.project import Plan, Planned, Project
from stackwright.host.runner import Runner
from stackwright.records import files as record
from stackwright.records.history import runs
from stackwright.records.report import definitions as of_definitions
from stackwright.records.report import links, sharing, table
from stackwright.records.report.page import Around

PLAIN_WIDTH = 120
"""Columns of the table where no terminal says how many it has, as in a CI log."""

AGAIN = 0.5
"""Seconds after which an interrupted run looks again for what began in the moment before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The results of the rows: a record each, and by row the errors that ended some of them.

    ``records`` are of the rows' images, ``definitions`` of their definition files.
    """

    records: tuple[Record, ...]
    failed: tuple[tuple[str, StackwrightError], ...] = ()
    definitions: tuple[Record, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[StackwrightError, ...]:
        return tuple(error for _, error in self.failed)


def work_rows(
    project: Project, plan: Plan, request: Request, *, site: Site, runner: Runner, console: Console
) -> Session:
    """Work on every row that can work. Raise EngineError at once if an engine is needed and none answers."""
    display, stop, wanted = Display(console), threading.Event(), request.phases
    by_definition = Phase.DEFINITION in wanted
    engine = _engine(project, runner, display, needed=not by_definition)
    find = cache(lambda: apptainer.find(runner, engine, mirror=site.mirror))

    def job(row: Planned) -> Job:
        return Job(
            project=project, row=row, engine=engine, site=site, runner=runner, display=display,
            gpu=request.gpu, signer=request.signer, compression=request.compression, apptainer=find,
            bundle=request.bundle, stop=stop,
        )  # fmt: skip

    if by_definition:
        find()
        with display.shown():
            return ended(project, plan, _one_by_one(plan, lambda row: pipeline.work(job(row), wanted)))
    assert engine is not None, "it is needed for images"
    with display.shown(), ThreadPoolExecutor(max_workers=request.jobs) as pool:
        futures = {row.stack.id: pool.submit(pipeline.work, job(row), wanted) for row in plan.rows}
        try:
            failed = {row: error for row, future in futures.items() if (error := _error(future.result))}
        except KeyboardInterrupt:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _end(futures.values(), engine)
            raise
    return ended(project, plan, failed)


def jobs_of(project: Project, plan: Plan, *, site: Site, runner: Runner, display: Display) -> tuple[Job, ...]:
    """Return a job for each row, for work that is not one of its phases. EngineError if no engine answers."""
    engine = docker.find(runner, project=project.id)
    find = cache(lambda: apptainer.find(runner, engine, mirror=site.mirror))
    return tuple(
        Job(
            project=project,
            row=row,
            engine=engine,
            site=site,
            runner=runner,
            display=display,
            apptainer=find,
        )
        for row in plan.rows
    )


def _engine(project: Project, runner: Runner, display: Display, *, needed: bool) -> docker.Docker | None:
    try:
        return docker.find(runner, project=project.id)
    except EngineError as error:
        if needed:
            raise
        display.say(f"no engine: {error.cause}; a native apptainer needs none")
        return None


def _one_by_one(plan: Plan, work: Callable[[Planned], Record]) -> dict[str, StackwrightError]:
    """In this thread: an interrupt then ends what runs on the host, and not in a container, as well."""
    errors = {row.stack.id: _error(partial(work, row)) for row in plan.rows}
    return {row: error for row, error in errors.items() if error}


def _end(rows: Iterable[Future[Record]], engine: docker.Docker) -> None:
    """What runs for them in containers, until none is left that would wait for it."""
    while not all(row.done() for row in rows):
        docker.end_own(engine)
        time.sleep(AGAIN)


def ended(project: Project, plan: Plan, failed: Mapping[str, StackwrightError]) -> Session:
    """Return the records of the rows, wherever they were worked on."""
    rows = [(row.stack.id, row.recipe.key) for row in plan.rows]
    images = (record.latest(project.records, *row) for row in rows)
    files = (record.latest(project.records, *row, definition=True) for row in rows)
    return Session(
        records=tuple(filter(None, images)), failed=tuple(failed.items()),
        definitions=tuple(filter(None, files)),
    )  # fmt: skip


def _error(work: Callable[[], Record]) -> StackwrightError | None:
    """Return the error that ended a row. A defect of Stackwright must not stop the others."""
    try:
        work()
    except StackwrightError as error:
        return error
    except Exception as defect:
        return internal_error(defect)
    return None


def recorded(project: Project) -> Session:
    """Return what the records of all rows say, without doing anything."""
    images, files = (record.load_all(project.records, definition=kind) for kind in (False, True))
    return Session(
        records=record.newest(images.records), definitions=record.newest(files.records),
        warnings=(*images.warnings, *files.warnings),
    )  # fmt: skip


def print_summary(project: Project, done: Session, rejections: Sequence[Rejection]) -> None:
    """The table of the rows at hand on stdout, and the page over all records."""
    out = Output() if sys.stdout.isatty() else Output(width=PLAIN_WIDTH)
    out.print(table.table(done.records, rejections, done.definitions, plain=not out.is_terminal))
    out.print(table.counts(done.records), markup=False, highlight=False)
    if shared := sharing.sentence(sharing.sharing(done.records)):
        out.print(shared, markup=False, highlight=False, soft_wrap=True)
    page = write_page(project, rejections)
    out.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)
    for warning in done.warnings:
        Output(stderr=True).print(f"warning: {warning}", markup=False, highlight=False)


def write_page(project: Project, rejections: Sequence[Rejection], more: Iterable[Record] = ()) -> Path:
    """``more`` are records whose files are elsewhere, or gone."""
    own = (record.load_all(project.records, definition=kind).records for kind in (False, True))
    files = {record.path_of(known, project.records): known for known in (*more, *chain.from_iterable(own))}
    records = [files[name] for name in sorted(files)]
    images = [known for known in records if known.definition is None]
    definitions = record.newest(known for known in records if known.definition)
    path = project.out / "report" / "index.html"
    return table.write_page(images, rejections, path, definitions=definitions, around=_around(project))


def _around(project: Project) -> Around:
    files = partial(links.links, out=project.out)
    try:
        return Around(links=files, known=runs.points(project.out / "history.sqlite"))
    except RecordError as error:  # the page of the records is worth having without it
        return Around(links=files, problem=error.cause)


def document(done: Session) -> dict[str, Any]:
    """``--format json``: the records as docs/record.md describes them, and what went wrong."""
    errors = [
        {"exit_code": error.exit_code, "place": error.place, "cause": error.whole_cause}
        for error in done.errors
    ]
    return {
        "version": 1,
        "records": [record.as_json(known) for known in done.records],
        "definitions": [of_definitions.as_json(definition) for definition in done.definitions],
        "steps": asdict(sharing.sharing(done.records)),
        "errors": errors,
    }
