"""What runs on a node: one row, or a piece that several rows share. Its arguments and answers cross the net.

A node sees the project under the same path as everyone, and has an engine of its own. Records are written
here, by the code that a run on one machine uses; they come back too, because a folder of a network file
system may be seen late.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from distributed import get_worker
from rich.console import Console

from stackwright.build import row as pipeline
from stackwright.build.display import Display
from stackwright.build.job import Job
from stackwright.build.phases import ensure_base
from stackwright.build.solve import Inputs, build
from stackwright.core.errors import NodesError, StackwrightError
from stackwright.core.facts import distributions
from stackwright.core.model.compression import Compression
from stackwright.core.model.record import Phase, Record
from stackwright.core.render.shared_stages import Piece, cut
from stackwright.engines import apptainer, docker, emulation
from stackwright.engines import stage_cache as cache
from stackwright.engines.stage_cache import Cache
from stackwright.host.defects import internal_error
from stackwright.host.files import row_lock
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.host.shipped import PACKAGE
from stackwright.host.site import file, settings
from stackwright.records import files as record

WIDTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all tasks of a run have in common. ``code`` is the digest of the package that gave them out,
    ``token`` a file below ``project.out`` that only a node of the same file system has. ``site`` is read on
    the node: its content is not sent."""

    project: Project
    code: str
    token: str
    topic: str
    gpu: bool
    compression: Compression
    cache: Cache | None
    site: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A row, by its id and the key that it has to have on the node as well; ``stages`` are references in
    the cache that its build may use."""

    row: str
    key: str
    wanted: tuple[Phase, ...] = ()
    stages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``record`` is None where there is none yet."""

    record: Record | None
    error: StackwrightError | None = None


def unlike(shared: Shared) -> str:
    """Return why this node cannot work on the rows of the client; empty if it can."""
    if not shared.project.matrix.is_file():
        return (
            f"{shared.project.matrix} is not there: the project has to be under the same path on every node"
        )
    if not (shared.project.out / shared.token).is_file():
        return f"{shared.project.out} is another folder than on the node that asks: it has to be a shared one"
    if code_digest() != shared.code:
        return f"{PACKAGE} is another version of Stackwright"
    try:
        docker.find(Runner())
    except StackwrightError as error:
        return f"{error.place}: {error.cause}" if error.place else error.cause
    return ""


def code_digest() -> str:
    """Of the package that runs here."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def work(shared: Shared, task: Task) -> Outcome:
    """Finish a row. An error is returned together with the record that describes it."""
    error: StackwrightError | None = None
    try:
        pipeline.work(_job(shared, task), task.wanted)
    except StackwrightError as wrong:
        error = wrong
    except Exception as defect:
        error = internal_error(defect)
    return Outcome(record=record.latest(shared.project.records, task.row, task.key), error=error)


def share_base(shared: Shared, task: Task) -> None:
    """The base of a row is in the cache, if it is one that a node makes."""
    job = _job(shared, task)
    assert job.cache is not None
    name = f"base-{job.row.stack.os}{job.row.stack.platform.suffix}-{job.row.stack.base.date}"
    with row_lock(shared.project.out / "cluster" / name, job.display.say):
        for _, image in ensure_base(job):
            made_here = not (docker.inspect(job.docker, image) or {}).get("RepoDigests")
            if made_here and not cache.has(job.docker, job.cache.base(image)):
                cache.send(job.docker, image, job.cache.base(image))


def share(shared: Shared, task: Task, piece: Piece) -> str:
    """Return the reference of a piece that is in the cache, built and pushed by this node if it was not."""
    job = _job(shared, task)
    assert job.cache is not None
    images = ensure_base(job)
    target = job.cache.stage(piece.identity, images)
    folder = shared.project.out / "cluster" / target.rpartition(":")[2]
    with row_lock(folder, job.display.say):
        if cache.has(job.docker, target):
            return target
        with tempfile.TemporaryDirectory(prefix="stackwright-site-") as private:
            inputs = Inputs(
                images=images, proxies=job.site.proxies,
                options=(*emulation.words(job.row.stack.platform), *cache.options(task.stages)),
                secrets=settings.site_secrets(Path(private), job.site, distributions.known(job.row.stack.os)),
            )  # fmt: skip
            build(
                cut(job.row.recipe, piece.end), folder, inputs, docker=job.docker, runner=job.runner,
                stage=(piece.stage, target), on_event=lambda event: job.display.event(piece.name, event),
            )  # fmt: skip
        cache.forget(job.docker, target)
    return target


def _job(shared: Shared, task: Task) -> Job:
    if reason := unlike(shared):
        raise NodesError(reason, place=get_worker().address)
    runner = Runner()
    environ = dict(os.environ)
    file.enter(shared.site, environ)
    engine, site = docker.find(runner, project=shared.project.id), settings.site(runner, environ)
    return Job(
        project=shared.project, row=_row(shared, task), engine=engine, site=site, runner=runner,
        display=Display(Console(file=_Told(shared.topic), width=WIDTH)), gpu=shared.gpu,
        compression=shared.compression, cache=shared.cache, stages=task.stages, one_of_many=True,
        apptainer=lambda: apptainer.find(runner, engine, mirror=site.mirror),
    )  # fmt: skip


def _row(shared: Shared, task: Task) -> Planned:
    """Planned anew from the node's own files: the key says whether they are the same."""
    for row in plan(shared.project, cells(shared.project, (task.row,))).rows:
        if row.recipe.key == task.key:
            return row
    cause = f"{task.row} has another key here: matrix, locks or templates are not those of the node that asks"
    raise NodesError(cause, place=get_worker().address, hint="wait until the project's folder is in step")


class _Told(io.StringIO):
    """Lines for the person at the other end: events of Dask's, which the client subscribes to."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic, self._worker = topic, get_worker()

    def write(self, text: str) -> int:
        if text.strip():
            with contextlib.suppress(Exception):  # a client that is gone must not end the work
                self._worker.log_event(self._topic, text.rstrip("\n"))
        return len(text)
