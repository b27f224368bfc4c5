"""Real rows on two nodes: shared steps once, a dead worker's row elsewhere, a dead scheduler's records."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from distributed import Client
from node_pair import CACHE, DYING, FIRST, ROWS, Dask, Nodes, wait_for
from rows_run import complete, distinct, ended, in_its_slow_step, records, while_it_runs

from stackwright.build.nodes.client import ENGINE
from stackwright.core.errors import NodesError
from stackwright.core.model.record import Status

pytest_plugins = ("node_fixtures",)
pytestmark = pytest.mark.engine
SOON = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
"""For a run that waits in vain."""
few = pytest.mark.parametrize("copies", [()], ids=["few"])


def start(
    project: Path, *words: str, cluster: str, cached: str = CACHE, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """No engine is in its environment: all work is done by the nodes."""
    given = {"DOCKER_HOST": "unix:///nowhere", "STACKWRIGHT_CACHE": cached, **(env or {})}
    environment = {**os.environ, **given}
    return subprocess.Popen(
        ["./build.py", *words, "--cluster", cluster], cwd=project, text=True, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def works_on(client: Client, row: str) -> str:
    """The name of the worker that has the row."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return str(next(
        workers[address]["name"]
        for address, keys in client.processing().items()
        if any(str(key).replace("‑", "-").startswith(f"{row}-") for key in keys)
    ))  # fmt: skip


@pytest.fixture
def workers(dask: Dask, nodes: Nodes) -> Dask:
    with_engines(dask, nodes)
    return dask


def with_engines(dask: Dask, nodes: Nodes, names: str = "ab") -> None:
    for name, node in zip("ab", nodes.engines, strict=True):
        if name in names:
            dask.worker(name, node, "--resources", f"{ENGINE}=1")


def test_a_worker_killed_in_a_build_has_its_row_done_elsewhere_and_nothing_else_is_done_twice(
    project: Path, workers: Dask, nodes: Nodes
) -> None:
    run = start(project, "probe", cluster=workers.address)
    with Client(workers.address) as client:
        while_it_runs(run, lambda: in_its_slow_step(project, DYING), "step to die in")
        workers.kill(works_on(client, DYING))
        said = ended(run)
        shown = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    assert complete(project) == set(ROWS), said
    again = [record.row for record in records(project) if record.status is not Status.COMPLETE]
    assert again == [DYING], said
    assert len(records(project)) == len(ROWS) + 1
    assert distinct(project) <= len(nodes.executed()) <= distinct(project) * 1.1, nodes.executed()
    assert {row.replace("-", "‑") for row in ROWS} <= set(shown)  # the names on the dashboard
    (address,) = re.findall(r"^dashboard: (\S+)$", said, re.MULTILINE)
    with urlopen(address, timeout=20) as page:
        assert "bokeh.min.js" in page.read().decode()  # else it only says what is missing


def test_the_steps_that_are_counted_are_those_of_one_node_and_more_where_two_share_nothing(
    project: Path, dask: Dask, nodes: Nodes
) -> None:
    """Two rows by the one, and then by the other, which has nothing of the first."""
    rows, steps = FIRST[:2], distinct(project, *FIRST[:2])
    for name, counted in (("a", steps), ("b", 2 * steps)):
        with_engines(dask, nodes, name)
        ended(start(project, "probe", *rows, cluster=dask.address, cached=""))
        assert complete(project) == set(rows)
        assert len(nodes.executed()) == counted, nodes.executed()
        dask.kill(name)
        shutil.rmtree(project / "out" / "records")


@few
def test_a_scheduler_that_dies_loses_no_finished_record(project: Path, workers: Dask, nodes: Nodes) -> None:
    run = start(project, "probe", cluster=workers.address, env=SOON)
    while_it_runs(run, lambda: bool(complete(project)), "finished row")
    workers.kill("scheduler")
    assert "the scheduler is gone" in ended(run, NodesError.exit_code)
    for name in "ab":
        workers.kill(name)
    finished = complete(project)
    before = {record for record in records(project) if record.status is Status.COMPLETE}
    assert finished and finished != set(FIRST)
    workers.scheduler()
    with_engines(workers, nodes)
    said = ended(start(project, "probe", cluster=workers.address))
    assert complete(project) == set(FIRST)
    assert before <= set(records(project))
    assert not any(f"[{row}] build" in said for row in finished)


def wrong_node(dask: Dask, project: Path, nodes: Nodes, **wrong: Any) -> str:
    """What is said of the second of two workers."""
    dask.worker("a", nodes.engines[0], "--resources", f"{ENGINE}=1")
    dask.worker("b", nodes.engines[1], "--resources", f"{ENGINE}=1", **wrong)
    logs = [dask.logs / f"{name}.log" for name in "ab"]
    wait_for(lambda: all("Registered" in path.read_text() for path in logs), "worker")
    return ended(start(project, "probe", cluster=dask.address), NodesError.exit_code)


def test_a_node_without_an_engine_is_named(project: Path, dask: Dask, nodes: Nodes) -> None:
    said = wrong_node(dask, project, nodes, env={"DOCKER_HOST": "unix:///nowhere"})
    assert "unix:///nowhere: no container engine answers (1 of 2 nodes)" in said


def test_a_node_with_another_version_is_named(
    project: Path, dask: Dask, nodes: Nodes, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(project / "stackwright", other / "stackwright")
    with (other / "stackwright" / "core" / "checks" / "judge.py").open("a") as file:
        file.write("# of another day\n")
    said = wrong_node(dask, project, nodes, root=other)
    assert f"{other}/stackwright is another version of Stackwright (1 of 2 nodes)" in said


def test_workers_without_an_engine_are_not_workers(project: Path, dask: Dask, nodes: Nodes) -> None:
    dask.worker("a", nodes.engines[0])
    said = ended(start(project, "probe", cluster=dask.address, env=SOON), NodesError.exit_code)
    assert "no worker has the resource engine" in said


def test_without_a_scheduler_it_says_so(project: Path) -> None:
    said = ended(start(project, "probe", cluster="tcp://127.0.0.1:9", env=SOON), NodesError.exit_code)
    assert "tcp://127.0.0.1:9" in said
