"""The images that `make run` built, as two nodes: containers on a private network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import nodes
from stackwright import render
from stackwright.engines.docker import Mount
from stackwright.project import Project, cells, default_rows, plan
from stackwright.runner import Runner

ROOT = Path(__file__).parents[2]
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
ROWS = plan(PROJECT, cells(PROJECT, default_rows(PROJECT))).rows


@pytest.fixture(scope="session")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/facts of all nodes."""
    folder = tmp_path_factory.mktemp("facts")
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="session", params=ROWS, ids=lambda row: row.stack.id)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, facts: Path
) -> Iterator[nodes.Nodes]:
    row, shared = request.param, Mount(source=facts, target="/facts", read_only=False)
    folder = tmp_path_factory.mktemp("cluster")
    with nodes.up(Runner(), row.stack, render.reference(row.recipe), folder, shared) as found:
        yield found
