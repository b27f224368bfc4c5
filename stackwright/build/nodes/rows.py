"""Several rows on several nodes: what they share first, then the rows, each as soon as it can be.

The order is ``graphlib``'s, who does what is Dask's. A record that a node has written is safe
even if the scheduler is lost, and a row that has one is not built again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any
from uuid import uuid4

from distributed import Client, KilledWorker
from rich.console import Console

from stackwright.build import row as pipeline
from stackwright.build import rows as session
from stackwright.build.display import Display
from stackwright.build.job import Request
from stackwright.build.nodes import worker
from stackwright.build.nodes.address import Address, Kind
from stackwright.build.nodes.client import ENGINE, GPU, Startup, connected, engines, replace_lost
from stackwright.build.nodes.worker import Outcome, Shared, Task
from stackwright.core.errors import NodesError, StackwrightError, UsageError
from stackwright.core.model.record import Phase
from stackwright.core.render.shared_stages import Piece, pieces
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.engines.stage_cache import Cache
from stackwright.host.defects import internal_error
from stackwright.host.project import Plan, Planned, Project
from stackwright.host.runner import Runner
from stackwright.records import files as record

LOOK = 10.0
"""Seconds between two checks that some worker is left."""

ALONE = 600.0
"""Seconds without any worker after which a run gives up; a queue may be longer than that."""

NEXT = "start the cluster and run the same command again: what is recorded is not done again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the nodes are, and what they share.

    ``cache`` is the registry by which they share stages; without one each node builds all of its stages.
    ``site`` is the file that says where mirrors and keys are.
    """

    address: Address
    cache: Cache | None
    site: Path | None


def work_rows(
    project: Project, plan: Plan, request: Request, cluster: Cluster, *, runner: Runner, console: Console
) -> session.Session:
    """Work on every row that can work and is not finished. Raise NodesError at once if no node can."""
    display = Display(console)
    rows = [row for row in plan.rows if not _finished(project, row, request)]
    if not rows:
        return session.ended(project, plan, {})
    on_gpu = frozenset(row.stack.id for row in rows if request.gpu and row.stack.test_on_gpu)
    _require_gpu(cluster.address, on_gpu)
    if not cluster.cache:
        display.say("no cache in a registry: every node builds every stage itself")
    with _token(project.out / "cluster") as token:
        startup = Startup(
            folder=token.parent, jobs=min(request.jobs, len(rows)), gpu=request.gpu,
            runner=runner, say=display.say,
        )  # fmt: skip
        shared = _shared(project, request, cluster, token)
        with display.shown(), connected(cluster.address, startup) as client:
            _check(client, shared)
            client.subscribe_topic(shared.topic, lambda event: _print_event(display, event))
            run = _Run(
                client=client, shared=shared, wanted=request.phases, rows=rows, on_gpu=on_gpu,
                jobs=startup.jobs, display=display,
            )  # fmt: skip
            failed = run.all(give_up=ALONE if cluster.address.kind is not Kind.SLURM else None)
    return session.ended(project, plan, failed)


def _finished(project: Project, row: Planned, request: Request) -> bool:
    found = pipeline.finished(project, row, request.phases, gpu=request.gpu, compression=request.compression)
    return found is not None


def _shared(project: Project, request: Request, cluster: Cluster, token: Path) -> Shared:
    return Shared(
        project=project, code=worker.code_digest(), topic=f"stackwright-{token.name}",
        token=str(token.relative_to(project.out)), gpu=request.gpu, cache=cluster.cache, site=cluster.site,
        compression=request.compression,
    )  # fmt: skip


@contextmanager
def _token(folder: Path) -> Iterator[Path]:
    """A file in a private folder: a worker that sees it has the same out/."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    token = folder / f".{uuid4().hex}"
    token.touch()
    try:
        yield token
    finally:
        token.unlink()


def _require_gpu(address: Address, on_gpu: Collection[str]) -> None:
    """Raise UsageError where rows that are tested on a GPU would wait for a host that is not named."""
    if on_gpu and address.kind is Kind.SSH and not any(host.gpus for host in address.hosts):
        hint = "write gpus=N after a host that has some, or leave out --gpu"
        raise UsageError(f"--gpu: no host has a GPU, and {min(on_gpu)} is tested on one", hint=hint)


def _print_event(display: Display, event: tuple[float, Any]) -> None:
    message = event[1]
    display.say(str(message["msg"] if isinstance(message, dict) else message))


def _check(client: Client, shared: Shared) -> None:
    """Every node that is there sees the same project, with the same code. One that comes later is asked when
    it has its first row, as is one that could not be reached."""
    answers: dict[str, str | Exception] = client.run(
        worker.unlike, shared, workers=list(engines(client)), on_error="return"
    )
    wrong = {name: reason for name, reason in answers.items() if reason and not isinstance(reason, OSError)}
    if not wrong:
        return
    name, reason = min(wrong.items())
    hint = "docs/scale.md says what a node needs"
    if isinstance(reason, Exception):  # an import that failed there
        reason = f"it cannot run Stackwright: {reason}"
        hint = f"start workers in {shared.project.root}, with the same Python environment"
    raise NodesError(f"{reason} ({len(wrong)} of {len(answers)} nodes)", place=name, hint=hint)


@dataclass(slots=True, kw_only=True)
class _Run:
    """Names are those of the graph: a row's id, a base image's name, or a piece's identity. ``on_gpu`` are
    the rows that only a worker with a GPU can do."""

    client: Client
    shared: Shared
    wanted: tuple[Phase, ...]
    rows: list[Planned]
    on_gpu: frozenset[str]
    jobs: int
    display: Display
    ready: dict[str, str] = field(default_factory=dict)
    """Pieces that are in the cache, and where."""
    failed: dict[str, StackwrightError] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    told: float | None = None
    """Since when no worker is left, once that was reported."""

    def all(self, *, give_up: float | None) -> dict[str, StackwrightError]:
        """Work on every row, even if another fails. Return the errors by row."""
        start, graph = self._graph()
        graph.prepare()
        running: dict[Future[Any], str] = {}
        seen = time.monotonic()
        try:
            while graph.is_active():
                replace_lost(self.client, self.jobs)
                running |= {start[name](): name for name in graph.get_ready()}
                done, _ = wait(running, timeout=LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    self._take(name, future)
                    graph.done(name)
                    self.ended.add(name)
                seen = time.monotonic() if done else self._look(seen, give_up, running.values())
        except (CancelledError, NodesError) as end:  # Dask cancels what it cannot follow any more
            cause = end.cause if isinstance(end, NodesError) else "the scheduler is gone"
            lost = NodesError(f"{cause}; what the nodes had finished is recorded", hint=NEXT)
            self.failed |= {row.stack.id: lost for row in self.rows if row.stack.id not in self.ended}
        except KeyboardInterrupt:
            for future in running:
                future.cancel()
            raise
        return self.failed

    def _graph(self) -> tuple[dict[str, Callable[[], Future[Any]]], TopologicalSorter[str]]:
        """Return what is to be done by name, and in which order."""
        by_id = {row.stack.id: row for row in self.rows}
        shared = pieces(row.recipe for row in self.rows) if self.shared.cache else ()
        start: dict[str, Callable[[], Future[Any]]] = {}
        graph: TopologicalSorter[str] = TopologicalSorter()
        for row in self.rows:
            own = [piece.identity for piece in shared if row.stack.id in piece.rows]
            start[row.stack.id] = partial(self._row, row, own)
            graph.add(row.stack.id, *own)
            if self.shared.cache:
                start.setdefault(base := _base(row), partial(self._base, row))
                graph.add(row.stack.id, base)
        for piece in shared:
            row = by_id[piece.row]
            start[piece.identity] = partial(self._piece, row, piece)
            graph.add(piece.identity, *piece.after, _base(row))
        return start, graph

    def _row(self, row: Planned, own: Iterable[str]) -> Future[Any]:
        needs = {GPU: 1} if row.stack.id in self.on_gpu else {}
        return self._submit(row.stack.id, worker.work, self._task(row, own), needs=needs)

    def _piece(self, row: Planned, piece: Piece) -> Future[Any]:
        return self._submit(piece.name, worker.share, self._task(row, piece.after), piece)

    def _base(self, row: Planned) -> Future[Any]:
        return self._submit(_base(row), worker.share_base, self._task(row, ()))

    def _task(self, row: Planned, own: Iterable[str]) -> Task:
        stages = tuple(self.ready[identity] for identity in own if identity in self.ready)
        return Task(row=row.stack.id, key=row.recipe.key, wanted=self.wanted, stages=stages)

    def _submit(
        self, name: str, function: Callable[..., Any], *arguments: Any, needs: dict[str, int] | None = None
    ) -> Future[Any]:
        """The dashboard groups tasks by the part before the last hyphen in front of a digit: a row's name
        has both, so its hyphens become such that are only seen (U+2011)."""
        key = f"{name.replace('-', '‑')}-{uuid4().hex}"
        executor = self.client.get_executor(resources={ENGINE: 1, **(needs or {})})
        future: Future[Any] = executor.submit(function, self.shared, *arguments, key=key)
        return future

    def _take(self, name: str, future: Future[Any]) -> None:
        """Keep the answer. A stage that failed to be shared stops no row: its rows build it themselves."""
        answer, wrong = _answer(future)
        if isinstance(answer, Outcome):
            wrong = answer.error
            _keep(answer, self.shared.project.records)
        elif isinstance(answer, str):
            self.ready[name] = answer
        if wrong and any(row.stack.id == name for row in self.rows):
            self.failed[name] = wrong
        elif wrong:
            self.display.say(f"not shared: {wrong}")

    def _look(self, seen: float, give_up: float | None, running: Collection[str]) -> float:
        """Return since when a worker is there. NodesError when none came back.

        Dask lets a row wait for a resource that no worker has, without a word and for ever.
        """
        now = time.monotonic()
        more = (GPU,) if running and self.on_gpu.issuperset(running) else ()
        if engines(self.client, *more):
            return now
        wanted = " and ".join((ENGINE, *more))
        if seen != self.told:  # once for each time that they went away
            self.display.say(f"no worker with the resource {wanted} is left; waiting for one")
            self.told = seen
        if give_up and now - seen > give_up:
            raise NodesError(f"no worker with the resource {wanted} for {give_up / 60:.0f} minutes")
        return seen


def _base(row: Planned) -> str:
    return PROVIDERS[row.stack.provider].wanted(row.stack)[0][1]


def _answer(future: Future[Any]) -> tuple[Any, StackwrightError | None]:
    """Return a task's answer, or its error. CancelledError where neither can be known."""
    try:
        return future.result(), None
    except CancelledError:
        raise
    except KilledWorker:
        return None, NodesError("the workers that had it died, one after the other", hint=NEXT)
    except StackwrightError as error:
        return None, error
    except Exception as error:
        return None, internal_error(error)


def _keep(outcome: Outcome, folder: Path) -> None:
    """Written again where it is not seen: a network file system may show a new file late."""
    found = outcome.record
    if found and record.latest(folder, found.row, found.key) != found:
        record.write(found, folder)
