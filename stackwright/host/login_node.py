"""``doctor --cluster``: what the rows will do on the cluster whose login node this is. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from stackwright.core.launch.fit import image as images
from stackwright.core.launch.fit.questions import Judged, judge
from stackwright.core.launch.fit.readers import PATIENCE, PROGRAMS, ClusterFacts
from stackwright.core.model.row import Stack
from stackwright.host.runner import ABSENT, HUNG, Completed, Runner

SHOWN = 120
"""Characters of a line."""


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """A program and the first line that it printed."""

    program: str
    found: bool
    said: str


@dataclass(frozen=True, slots=True)
class Examined:
    programs: tuple[ProgramOutput, ...]
    cluster: ClusterFacts
    rows: tuple[Judged, ...]


def examine(runner: Runner, stacks: Iterable[Stack]) -> Examined:
    """Ask each program once. One that is absent, fails or hangs is noted, and is no error."""
    cluster, programs = ClusterFacts(), []
    for argv, read in PROGRAMS:
        done = _ran(runner, argv)
        said = _printed(done) if done else ""
        if done and done.returncode == HUNG:
            cluster = replace(cluster, hung=(*cluster.hung, argv[0]))
        elif done:
            cluster = read(cluster, said)
        lines = (" ".join(line.split()) for line in said.splitlines())
        first = next((line for line in lines if line), "")
        programs.append(ProgramOutput(" ".join(argv), done is not None, first[:SHOWN]))
    return Examined(tuple(programs), cluster, judge(map(images.of, stacks), cluster))


def _ran(runner: Runner, argv: Sequence[str]) -> Completed | None:
    """None where it cannot be started."""
    try:
        done = runner(argv, timeout=PATIENCE)
    except OSError:  # a file of that name which is no program
        return None
    return None if done.returncode == ABSENT else done


def _printed(done: Completed) -> str:
    """Without what would steer a terminal."""
    return re.sub(r"[^\t\n\x20-\x7e]", " ", f"{done.stdout}\n{done.stderr}")


def as_json(examined: Examined) -> dict[str, Any]:
    """``doctor --cluster --format json``: the row that fits best is the first one."""
    return {
        "version": 1,
        "verdict": examined.rows[0].verdict,
        "programs": [asdict(program) for program in examined.programs],
        "rows": [
            {
                "id": row.image.row,
                "fits": row.fits,
                "image": asdict(row.image),
                "answers": [asdict(answer) for answer in row.answers],
            }
            for row in examined.rows
        ],
    }
