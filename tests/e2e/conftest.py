"""The images that `make run` built, as two nodes: containers on a private network.

STACKWRIGHT_ROW names other rows than those that the matrix selects, STACKWRIGHT_MATRIX another matrix.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_image import first_row, name_of

from bench import nodes
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Mount
from stackwright.host import project
from stackwright.host.project import Project, cells, default_rows, plan
from stackwright.host.runner import Runner

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / os.environ.get("STACKWRIGHT_MATRIX", "matrix.yaml")
PROJECT = Project(root=ROOT, matrix=MATRIX, out=ROOT / "out")
WANTED = os.environ.get("STACKWRIGHT_ROW", "").split() or default_rows(PROJECT)
ROWS = plan(PROJECT, cells(PROJECT, WANTED)).rows


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
    shared = Mount(source=facts, target="/facts", read_only=False)
    with nodes.up(Runner(), request.param, tmp_path_factory.mktemp("cluster"), shared) as found:
        yield found


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="session")
def docker(runner: Runner) -> Docker:
    return engine.find(runner)


@pytest.fixture(scope="session")
def row() -> project.Planned:
    return first_row()


@pytest.fixture(scope="session")
def image(row: project.Planned, docker: Docker) -> str:
    return name_of(row, docker)
