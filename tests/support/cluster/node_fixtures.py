"""Two nodes with a registry between them, and a project that both see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import node_pair
import pytest
from node_pair import Dask, Nodes

from stackwright.host.runner import Runner


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="session")
def both(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with node_pair.up(tmp_path_factory.mktemp("n"), runner) as made:
        yield made


@pytest.fixture
def nodes(both: Nodes) -> Nodes:
    both.forget()
    return both


@pytest.fixture
def copies() -> tuple[str, ...]:
    """More rows than the first ones; a test for which they are too many says so."""
    return node_pair.COPIES


@pytest.fixture
def project(tmp_path: Path, copies: tuple[str, ...]) -> Path:
    return node_pair.project(tmp_path / "project", copies)


@pytest.fixture
def dask(project: Path, tmp_path: Path) -> Iterator[Dask]:
    with node_pair.dask(project, tmp_path) as started:
        started.scheduler()
        yield started
