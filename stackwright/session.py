"""Several rows at once: each in a thread of its own, every one to its end, whatever happens to another."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from stackwright import host, pipeline, record, report, sharing
from stackwright.display import Display
from stackwright.engines import apptainer, docker
from stackwright.errors import InternalError, StackwrightError
from stackwright.job import Job
from stackwright.model import Rejection
from stackwright.project import Plan, Planned, Project
from stackwright.record import Phase, Record
from stackwright.runner import Runner
from stackwright.sign import Signer

PLAIN_WIDTH = 120
"""Columns of the table where no terminal says how many it has, as in a CI log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What became of the rows: a record each, and the errors of those that did not come to their end."""

    records: tuple[Record, ...]
    errors: tuple[StackwrightError, ...] = ()
    warnings: tuple[str, ...] = ()


def work_rows(
    project: Project,
    plan: Plan,
    wanted: tuple[Phase, ...],
    *,
    runner: Runner,
    console: Console,
    jobs: int,
    gpu: bool,
    signer: Signer | None = None,
) -> Session:
    """Work on every row that can work. EngineError at once where no engine answers."""
    engine = docker.find(runner)
    site = host.site(runner)
    display = Display(console)

    def job(row: Planned) -> Job:
        return Job(
            project=project, row=row, docker=engine, site=site, runner=runner, display=display, gpu=gpu,
            signer=signer,
            apptainer=lambda: apptainer.find(runner, engine, mirror=site.mirror),
        )  # fmt: skip

    with display.shown(), ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = [pool.submit(pipeline.work, job(row), wanted) for row in plan.rows]
        try:
            errors = tuple(error for future in futures if (error := _error(future)))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    newest = (record.latest(project.records, row.stack.id, row.recipe.key) for row in plan.rows)
    return Session(records=tuple(found for found in newest if found), errors=errors)


def _error(future: Future[Record]) -> StackwrightError | None:
    """What ended a row. One that stumbles over a defect of ours must not take the others along."""
    try:
        future.result()
    except StackwrightError as error:
        return error
    except Exception as defect:
        return InternalError.of(defect)
    return None


def recorded(project: Project) -> Session:
    """What the records of all rows say, without doing anything."""
    loaded = record.load_all(project.records)
    return Session(records=record.newest(loaded.records), warnings=loaded.warnings)


def print_summary(project: Project, done: Session, rejections: Sequence[Rejection]) -> None:
    """The table of the rows at hand on stdout, and the page over all records."""
    out = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    out.print(report.table(done.records, rejections, plain=not out.is_terminal))
    out.print(report.counts(done.records), markup=False, highlight=False)
    if shared := sharing.sentence(sharing.sharing(done.records)):
        out.print(shared, markup=False, highlight=False, soft_wrap=True)
    page = write_page(project, rejections)
    out.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)
    for warning in done.warnings:
        Console(stderr=True).print(f"warning: {warning}", markup=False, highlight=False)


def write_page(project: Project, rejections: Sequence[Rejection]) -> Path:
    loaded = record.load_all(project.records)
    return report.write_page(loaded.records, rejections, project.out / "report" / "index.html")


def document(done: Session) -> dict[str, Any]:
    """``--format json``: the records as docs/record.md describes them, and what went wrong."""
    errors = [
        {"exit_code": error.exit_code, "place": error.place, "cause": error.cause} for error in done.errors
    ]
    return {
        "version": 1,
        "records": [record.as_json(one) for one in done.records],
        "steps": asdict(sharing.sharing(done.records)),
        "errors": errors,
    }
