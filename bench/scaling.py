"""Images per second of the examples over containers as nodes: a table, a plot and the numbers.

    .venv/bin/python bench/scaling.py ROW [--to docs/results/DAY/scaling]

Each framework of the row's image trains its example on 1×1, 1×2, 2×1 and 2×2 ranks (nodes × ranks of a
node), by the line that `./build.py launch ROW --mpirun` prints. Each rank computes with one thread. All
containers share this machine, so what is measured is this machine, and says nothing of a real network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import nodes
from stackwright.core.errors import EngineError, StackwrightError, UsageError
from stackwright.host import project
from stackwright.host.runner import Runner

CONFIGURATIONS = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Nodes, and ranks of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What rank 0 of one run printed. Images per second are those of all ranks together."""

    framework: str
    nodes: int
    per_node: int
    world_size: int
    images_per_second: float
    accuracy: float

    @property
    def configuration(self) -> str:
        return f"{self.nodes}×{self.per_node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A run, compared with one rank of the same framework: ``efficiency`` is the speedup per rank."""

    run: Run
    speedup: float
    efficiency: float


def lines(runs: Sequence[Run]) -> tuple[Line, ...]:
    """Each run compared with its framework's run on one rank. ValueError where there is none."""
    single = {run.framework: run.images_per_second for run in runs if run.world_size == 1}
    missing = {run.framework for run in runs} - set(single)
    if missing:
        raise ValueError(f"no run on one rank: {', '.join(sorted(missing))}")
    speedups = ((run, run.images_per_second / single[run.framework]) for run in runs)
    return tuple(
        Line(run=run, speedup=speedup, efficiency=speedup / run.world_size) for run, speedup in speedups
    )


def table(found: Sequence[Line]) -> str:
    """Markdown."""
    rows = ["| framework | nodes × ranks | world size | images/s | speedup | efficiency | accuracy |",
            "|---|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    for line in found:
        run = line.run
        rows.append(
            f"| {run.framework} | {run.configuration} | {run.world_size} | {run.images_per_second:,.0f} "
            f"| {line.speedup:.2f} | {line.efficiency:.0%} | {run.accuracy:.1%} |"
        )
    return "\n".join(rows)


def caution(cores: int, ranks: int) -> str:
    """What a reader has to know before the numbers are taken for more than they are."""
    shared = f"All ranks shared {cores} CPU cores of one machine, one thread each"
    if ranks <= cores:
        return f"{shared}; the nodes were containers, and their network a bridge in memory."
    most = f"{ranks} ranks can be at most {cores} times as fast as one, an efficiency of {cores / ranks:.0%}"
    return f"{shared}: {most}. The nodes were containers, and their network a bridge in memory."


def measure(
    cluster: nodes.Nodes,
    options: Sequence[str] = (),
    *,
    configurations: Sequence[tuple[int, int]] = CONFIGURATIONS,
) -> Iterator[Run]:
    """Train each framework's example in each configuration. EngineError where one fails."""
    for framework in cluster.frameworks:
        command = cluster.python(framework, f"/examples/{framework}_mnist.py", *options)
        for count, per_node in configurations:
            done = cluster.launch("mpirun", command, nodes=count, per_node=per_node)
            if not done.ok:
                raise EngineError(f"{framework} on {count}×{per_node} ranks: {done.stderr[-2000:]}")
            said = printed(done.stdout)
            if (said["world_size"], said["local_size"]) != (count * per_node, per_node):
                raise EngineError(f"{framework} on {count}×{per_node} ranks saw another world: {said}")
            yield Run(
                framework=framework, nodes=count, per_node=per_node, world_size=said["world_size"],
                images_per_second=said["images_per_second"], accuracy=said["accuracy"],
            )  # fmt: skip


def printed(output: str) -> dict[str, Any]:
    """The one line of JSON among what the ranks wrote; more than one means ranks that know of no other."""
    found = [json.loads(line) for line in output.splitlines() if line.startswith('{"framework"')]
    if len(found) != 1:
        raise EngineError(f"{len(found)} ranks took themselves for rank 0:\n{output[-2000:]}")
    return dict(found[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A day's measurement. ``remark`` is what has to be known before the numbers are believed."""

    row: str
    day: str
    host: str
    remark: str
    options: tuple[str, ...]
    lines: tuple[Line, ...]


def plot(said: Measured, path: Path) -> None:
    """Images per second and efficiency over the configurations, a line for each framework."""
    import matplotlib  # noqa: PLC0415 (the table needs none)

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "stackwright"  # the same numbers give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot  # noqa: PLC0415 (after the choice of what draws)

    figure, (speed, efficiency) = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for framework in dict.fromkeys(line.run.framework for line in said.lines):
        own = [line for line in said.lines if line.run.framework == framework]
        ticks = [line.run.configuration for line in own]
        speed.plot(ticks, [line.run.images_per_second for line in own], marker="o", label=framework)
        efficiency.plot(ticks, [100 * line.efficiency for line in own], marker="o", label=framework)
    speed.set(title="images per second", xlabel="nodes × ranks of each")
    efficiency.set(title="efficiency, % of one rank", xlabel="nodes × ranks of each")
    for axes in (speed, efficiency):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    speed.legend()
    figure.supxlabel(said.remark, fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def host_class(load: float) -> str:
    """What the numbers belong to, without the machine's name. ``load``: how many processes ran before."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    machine = f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.machine()}"
    return f"{machine}, no GPU used; load {load:.1f} before it began"


def write(folder: Path, said: Measured) -> None:
    """ROW.json, ROW.md and ROW.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"version": 1, **asdict(said)}
    (folder / f"{said.row}.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    (folder / f"{said.row}.md").write_text(
        f"# {said.row}: drawn digits, over containers as nodes\n\n{said.day}; {said.host}. {said.remark}\n\n"
        f"{table(said.lines)}\n\n![images per second and efficiency]({said.row}.svg)\n"
    )
    plot(said, folder / f"{said.row}.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("row")
    parser.add_argument("--to", type=Path, help="folder that receives ROW.json, ROW.md and ROW.svg")
    given, options = parser.parse_known_args()
    root = nodes.ROOT
    where = project.Project(root=root, matrix=root / "matrix.yaml", out=root / "out")
    rows = project.plan(where, project.cells(where, (given.row,))).rows
    if len(rows) != 1:
        raise UsageError(f"{given.row!r} means {len(rows)} rows that can work", hint="name one row")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the image's user reads the keys below it
        with nodes.up(Runner(), rows[0], Path(folder)) as cluster:
            found = lines(tuple(measure(cluster, options)))
    said = Measured(
        row=rows[0].stack.id,
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        host=host_class(load),
        remark=caution(os.cpu_count() or 1, max(line.run.world_size for line in found)),
        options=tuple(options),
        lines=found,
    )
    print(f"{table(found)}\n\n{said.host}. {said.remark}")
    if given.to:
        write(given.to, said)


if __name__ == "__main__":
    try:
        main()
    except StackwrightError as error:
        sys.exit(f"error: {error}")
