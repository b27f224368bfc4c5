"""One cluster for all tests of this folder: a plugin of pytest, which each of its files names."""

from __future__ import annotations

from collections.abc import Iterator

import cluster as clusters
import pytest
from cluster import Cluster

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="session")
def docker(runner: Runner) -> Docker:
    return engine.find(runner)


@pytest.fixture(scope="session")
def cluster(runner: Runner, docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with clusters.up(runner, docker, tmp_path_factory.mktemp("job")) as found:
        yield found
