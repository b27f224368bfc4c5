from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from node_pair import wait_for

from stackwright.core.model.record import Record, Status
from stackwright.core.render.instructions import instructions
from stackwright.host.project import Project, cells, plan
from stackwright.records import files as record

LIMIT = 300
"""Seconds."""


def ended(child: subprocess.Popen[str], code: int = 0) -> str:
    said, _ = child.communicate(timeout=LIMIT)
    assert child.returncode == code, said
    assert "Traceback" not in said, said
    return said


def while_it_runs(child: subprocess.Popen[str], there: Callable[[], bool], what: str) -> None:
    wait_for(lambda: there() or child.poll() is not None, what, LIMIT)
    assert child.poll() is None, child.communicate()[0]


def records(project: Path) -> tuple[Record, ...]:
    loaded = record.load_all(project / "out" / "records")
    assert loaded.warnings == ()
    return loaded.records


def complete(project: Path) -> set[str]:
    return {known.row for known in records(project) if known.status is Status.COMPLETE}


def distinct(project: Path, *wanted: str) -> int:
    """RUN steps of the rows, or of all, each counted once: what one node executes, as a test shows."""
    found = Project(root=project, matrix=project / "matrix.yaml", out=project / "out")
    rows = plan(found, cells(found, wanted)).rows
    first = {"base": 2}  # FROM an image is the first
    every = (instruction for row in rows for instruction in instructions(row.recipe))
    return len(
        {
            instruction.identity
            for instruction in every
            if instruction.number == first.get(instruction.stage, 1)
        }
    )


def in_its_slow_step(project: Path, row: str) -> bool:
    logs = (project / "out" / row).glob("*/build.log")
    return any("started: [frameworks" in path.read_text() for path in logs)
