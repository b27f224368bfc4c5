"""Two containers on a private network as two nodes: SSH with keys made at run time, MPI and Gloo."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stackwright import render
from stackwright.checks import collective
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Mount
from stackwright.project import Project, cells, default_rows, plan
from stackwright.runner import Completed, Runner

ROOT = Path(__file__).parents[2]
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
ROWS = plan(PROJECT, cells(PROJECT, default_rows(PROJECT))).rows
USER = 1000
PORT = "2222"
NODES = ("a", "b")
RANKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    docker: Docker
    runner: Runner
    names: tuple[str, ...]
    facts: Path
    frameworks: tuple[str, ...]

    def on_the_first_node(self, *argv: str) -> Completed:
        return self.runner(self.docker.command("exec", self.names[0], *argv), timeout=300)


def make_keys(folder: Path, docker: Docker, image: str) -> None:
    """In a container, as the user that will read them: the host may have no ssh-keygen."""
    folder.mkdir()
    os.chown(folder, USER, USER)
    script = (
        "ssh-keygen -q -t ed25519 -N '' -f /keys/id_ed25519; cp /keys/id_ed25519.pub /keys/authorized_keys"
    )
    mount = Mount(source=folder, target="/keys", read_only=False)
    done = engine.run(docker, engine.Job(image=image, argv=("sh", "-c", script), mounts=(mount,)))
    assert done.ok, done.stderr


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.stack.id)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    runner = Runner()
    docker, tag = engine.find(runner), uuid4().hex[:8]
    folder = tmp_path_factory.mktemp("cluster")
    facts, keys = folder / "facts", folder / "keys"
    facts.mkdir()
    facts.chmod(0o777)
    make_keys(keys, docker, render.reference(request.param.recipe))
    network, names = f"two-nodes-{tag}", tuple(f"node-{node}-{tag}" for node in NODES)
    assert runner(docker.command("network", "create", "--internal", network)).ok
    try:
        for node, name in zip(NODES, names, strict=True):
            mounts = [f"{keys}:/keys:ro", f"{ROOT / 'probes'}:/probes:ro", f"{facts}:/facts"]
            options = [word for mount in mounts for word in ("--volume", mount)]
            argv = docker.command(
                "run", "--detach", "--name", name, "--hostname", node, "--network", network,
                "--network-alias", node, "--shm-size", "1g", "--env", "AUTHORIZED_KEYS=/keys/authorized_keys",
                *options, render.reference(request.param.recipe), "sshd-as-user", PORT,
            )  # fmt: skip
            done = runner(argv)
            assert done.ok, done.stderr
        frameworks = dict.fromkeys(run.partition("/")[0] for run in collective.runs(request.param.stack))
        yield Cluster(docker=docker, runner=runner, names=names, facts=facts, frameworks=tuple(frameworks))
    finally:
        runner(docker.command("rm", "--force", *names))
        runner(docker.command("network", "rm", network))


SSH = f"-p {PORT} -i /keys/id_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -q"
HOSTS = ",".join(f"{node}:{RANKS // len(NODES)}" for node in NODES)
LAUNCHERS = {
    "mpi": ("mpirun", "-np", str(RANKS), "-H", HOSTS, "--bind-to", "none", "--mca", "plm_ssh_args", SSH,
            "-x", "PATH", "-x", "HOROVOD_CPU_OPERATIONS=mpi"),
    "gloo": ("horovodrun", "--gloo", "-np", str(RANKS), "-H", HOSTS, "-p", PORT, "-i", "/keys/id_ed25519",
             "--network-interfaces", "eth0"),
}  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_four_ranks_on_two_nodes_add_up_and_train(launcher: str, cluster: Cluster) -> None:
    for framework in cluster.frameworks:
        ranks = run_over_nodes(cluster, launcher, framework)
        assert [rank["rank"] for rank in ranks] == list(range(RANKS))
        assert {rank["size"] for rank in ranks} == {RANKS}
        assert {rank["local_size"] for rank in ranks} == {RANKS // len(NODES)}
        assert {rank["mpi_enabled"] for rank in ranks} == {launcher == "mpi"}
        judges = (collective.allreduce, collective.broadcast, collective.agrees, collective.learns)
        assert [problem for judge in judges for problem in judge(ranks)] == []


def run_over_nodes(cluster: Cluster, launcher: str, framework: str) -> list[dict[str, Any]]:
    """What each rank left, in their order."""
    for path in cluster.facts.iterdir():
        path.unlink()
    program = ("/opt/stack/bin/python", "-B", "/probes/collective.py", "/facts", framework)
    done = cluster.on_the_first_node(*LAUNCHERS[launcher], *program)
    assert done.ok, done.stdout + done.stderr
    found = (json.loads(path.read_text()) for path in cluster.facts.iterdir())
    return sorted(found, key=lambda rank: int(rank["rank"]))


def test_a_stranger_is_not_let_in(cluster: Cluster) -> None:
    ssh = ["ssh", "-p", PORT, "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "b", "true"]
    done = cluster.on_the_first_node(*ssh)
    assert not done.ok
    assert "Permission denied" in done.stderr


def test_the_host_keys_of_two_nodes_differ(cluster: Cluster) -> None:
    scanned = cluster.on_the_first_node("ssh-keyscan", "-t", "ed25519", "-p", PORT, *NODES)
    keys = {line.split()[-1] for line in scanned.stdout.splitlines() if "ssh-ed25519" in line}
    assert len(keys) == len(NODES)
