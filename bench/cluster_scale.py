#!/usr/bin/env python3
"""1,000 rows on 50 nodes, from the step times of recorded runs: what is built once, and what travels.

    .venv/bin/python bench/cluster_scale.py docs/results/2026-11-20/*.json

A simulation. Nodes take tasks in the order in which they become ready, as Dask's workers do; what is pushed
and pulled goes over the registry's one link, which all transfers of a moment share alike. docs/scale.md has
the result.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from stackwright.core.errors import StackwrightError  # noqa: E402
from stackwright.core.model.record import Phase, Record  # noqa: E402
from stackwright.nightly.ci.estimates import STEP  # noqa: E402 (found only now where this file is the program)
from stackwright.records.files import load  # noqa: E402

GB = 1e9
GBIT = 1e9 / 8
SYSTEMS, MPIS, FRAMEWORKS, NCCLS = 3, 2, 56, 3
"""A matrix: 3 distributions, 2 MPIs, 56 sets of frameworks, each with its own NCCL and 2 others: 1,008."""
ROWS = 1000
TOOLCHAIN = 5.8 * GB
"""Unpacked: CUDA's compiler and gcc of Debian 13. No record has it, because it is not in the image."""
COMPRESSED = 0.4
"""Of a layer in a registry, measured with `docker push` of 0.8 GB of libraries and Python packages."""
PUSH, PULL = 58e6, 57e6
"""Bytes a second, unpacked, of one node: gzip and gunzip bound. Measured with two engines and a registry on
two busy cores; a node with more cores does better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of each stage, and of a row after them; bytes, unpacked, of what may travel."""

    base: float
    toolchain: float
    frameworks: float
    runtime: float
    row: float
    base_bytes: float
    frameworks_bytes: float
    runtime_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """``needs`` are tasks whose result has to be on the node; ``bytes`` is what its own has, unpacked."""

    name: str
    seconds: float
    needs: tuple[str, ...] = ()
    bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``seconds`` until the last task ended, of which the nodes together spent ``work`` on steps. ``moved``
    bytes went over the link, which was full for ``full`` of the time. ``executed`` counts tasks and what
    they had to build besides their own."""

    seconds: float
    work: float
    executed: int
    moved: float
    full: float


@dataclass(slots=True)
class _Node:
    has: set[str] = field(default_factory=set)
    task: Task | None = None
    steps: deque[tuple[str, float, str]] = field(default_factory=deque)
    """What is left of the task: ("pull" or "push", bytes, name) or ("work", seconds, "")."""


def costs(records: Iterable[Record]) -> Costs:
    """Medians over the rows that executed the stage; what came from a cache tells nothing."""
    known = tuple(records)

    def stage(name: str, *, first_only: bool = False) -> float:
        sums = []
        for record in known:
            own = [(step, STEP.match(step.name)) for step in record.steps if not step.cached]
            took = [step.seconds for step, found in own if found and found["stage"] == name
                    and (not first_only or found["number"] == "1")]  # fmt: skip
            sums += [sum(took)] if sum(took) > 1 else []
        return median(sums)

    def layer(what: str) -> float:
        return median(sum(layer.bytes for layer in record.layers if layer.what == what) for record in known)

    after = [
        sum(t.seconds for t in record.timings if t.phase not in (Phase.BASE, Phase.BUILD)) for record in known
    ]
    exports = [
        sum(step.seconds for step in record.steps if step.name.strip() == "exporting to image")
        for record in known
    ]
    return Costs(
        base=stage("base"), toolchain=stage("toolchain"), frameworks=stage("frameworks"),
        runtime=stage("final", first_only=True), row=stage("horovod-wheel") + median(after) + median(exports),
        base_bytes=layer("base") + layer("python"), frameworks_bytes=layer("frameworks"),
        runtime_bytes=layer("runtime packages"),
    )  # fmt: skip


def tasks(cost: Costs, rows: int = ROWS, *, alone: bool = False) -> tuple[Task, ...]:
    """Pieces that rows share, then the rows, in the order in which a run gives them out.

    ``alone``: an environment of frameworks, which two rows have, is built by both and does not travel.
    """
    product = itertools.product(range(FRAMEWORKS), range(NCCLS), range(SYSTEMS), range(MPIS))
    found: dict[str, Task] = {}
    last: list[Task] = []
    for number, (frameworks, nccl, system, mpi) in enumerate(itertools.islice(product, rows)):
        base, both = f"base-{system}", f"{system}-{mpi}"
        environment = f"frameworks-{system}-{frameworks}-{nccl}"
        found[base] = Task(name=base, seconds=cost.base, bytes=cost.base_bytes)
        for name, seconds, size in (
            (f"toolchain-{both}", cost.toolchain, TOOLCHAIN),
            (f"runtime-{both}", cost.runtime, cost.runtime_bytes),
            *(() if alone else ((environment, cost.frameworks, cost.frameworks_bytes),)),
        ):
            found[name] = Task(name=name, seconds=seconds, needs=(base,), bytes=size)
        needs = (base, f"toolchain-{both}", f"runtime-{both}", *(() if alone else (environment,)))
        seconds = cost.row + (cost.frameworks if alone else 0)
        last.append(Task(name=f"row-{number}", seconds=seconds, needs=needs))
    return (*found.values(), *last)


def simulate(work: Sequence[Task], *, nodes: int, link: float, shared: bool = True) -> Outcome:
    """``link`` is the registry's, in bytes a second. Not ``shared``: every node builds what it needs."""
    by_name = {task.name: task for task in work}
    waiting = [task for task in work if shared or not task.bytes]
    every, done = [_Node() for _ in range(nodes)], set[str]()
    now = moved = full = spent = 0.0
    executed = 0
    while waiting or any(node.task for node in every):
        for node in every:
            if node.task is None and (task := _next(waiting, done, shared)):
                waiting.remove(task)
                node.task, node.steps = task, _steps(task, node, by_name, shared)
                executed += sum(kind == "work" for kind, _, _ in node.steps)
        active = [node for node in every if node.task]
        rates = _rates(active, link)
        passed = min(node.steps[0][1] / rate for node, rate in zip(active, rates, strict=True))
        travelling = sum(rate for node, rate in zip(active, rates, strict=True) if node.steps[0][0] != "work")
        now += passed
        moved += travelling * COMPRESSED * passed
        full += passed if travelling * COMPRESSED > link * 0.999 else 0.0
        spent += passed * sum(node.steps[0][0] == "work" for node in active)
        for node, rate in zip(active, rates, strict=True):
            _advance(node, rate * passed, done)
    return Outcome(seconds=now, work=spent, executed=executed, moved=moved, full=full / now)


def _next(waiting: Sequence[Task], done: set[str], shared: bool) -> Task | None:
    return next((task for task in waiting if not shared or done.issuperset(task.needs)), None)


def _steps(task: Task, node: _Node, by_name: dict[str, Task], shared: bool) -> deque[tuple[str, float, str]]:
    """What is not on the node comes over the link, or is built on it."""
    steps: deque[tuple[str, float, str]] = deque()
    for name in task.needs:
        if name not in node.has:
            other = by_name[name]
            steps.append(("pull", other.bytes, name) if shared else ("work", other.seconds, name))
    steps.append(("work", task.seconds, task.name))
    if task.bytes and shared:
        steps.append(("push", task.bytes, task.name))
    return steps


def _rates(active: Sequence[_Node], link: float) -> list[float]:
    """Seconds of work a second, or unpacked bytes a second: transfers share the link alike."""
    own = {"work": 1.0, "pull": PULL, "push": PUSH}
    travelling = sum(node.steps[0][0] != "work" for node in active)
    share = link / COMPRESSED / travelling if travelling else 0.0
    kinds = [node.steps[0][0] for node in active]
    return [own[kind] if kind == "work" else min(own[kind], share) for kind in kinds]


def _advance(node: _Node, progress: float, done: set[str]) -> None:
    kind, left, name = node.steps[0]
    if left - progress > 1e-6 * max(left, 1.0):
        node.steps[0] = (kind, left - progress, name)
        return
    node.steps.popleft()
    node.has.add(name)
    if not node.steps:
        assert node.task is not None
        done.add(node.task.name)
        node.task = None


def line(label: str, outcome: Outcome) -> str:
    return (
        f"| {label} | {outcome.seconds / 3600:.1f} h | {outcome.work / 3600:.0f} h "
        f"| {outcome.moved / 1e12:.1f} TB | {outcome.full:.0%} |"
    )


def main(paths: Sequence[str]) -> None:
    cost = costs(load(Path(path)) for path in paths)
    work = tasks(cost)
    print(cost)
    print(f"{sum(bool(task.bytes) for task in work)} pieces, {ROWS} rows")
    print("| nodes, link of the registry | time | of machines, building | over the link | link full |")
    print("|---|---|---|---|---|")
    for nodes, gigabits in ((1, 10), (10, 10), (50, 1), (50, 10), (50, 25), (100, 10), (100, 25)):
        print(line(f"{nodes}, {gigabits} Gbit/s", simulate(work, nodes=nodes, link=gigabits * GBIT)))
    for nodes in (50, 100):
        print(line(f"{nodes}, no cache", simulate(work, nodes=nodes, link=GBIT, shared=False)))
    few = tasks(cost, alone=True)
    for gigabits in (1, 10):
        found = simulate(few, nodes=50, link=gigabits * GBIT)
        print(line(f"50, {gigabits} Gbit/s, frameworks do not travel", found))


if __name__ == "__main__":
    try:
        main(sys.argv[1:] or sys.exit(f"usage: {sys.argv[0]} docs/results/DAY/*.json"))
    except StackwrightError as error:
        sys.exit(f"error: {error}")
