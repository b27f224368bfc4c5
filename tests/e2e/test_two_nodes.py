"""Two containers on a private network as two nodes: what `build.py launch` prints starts training there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import nodes
from stackwright.core.checks import ranks as compared
from stackwright.core.components.table import extensions
from stackwright.core.launch import launchers
from stackwright.core.launch.recipe import Line
from stackwright.core.model.row import MpiFlavour
from stackwright.host.runner import Completed

HOSTS, PER_NODE = len(nodes.HOSTS), 2
HUNG = 124
RANKS = HOSTS * PER_NODE
CONTROLLERS = {"mpirun": "mpi", "horovodrun": "gloo"}
UNREACHABLE = (
    ({"interface": "lo"}, ""),
    ({"interface": nodes.INTERFACE, "fabric": "infiniband"}, "fell back to TCP"),
)
"""Ways that lead from no node to the other, and what is said: whoever takes another in silence is caught."""


@pytest.mark.parametrize("launcher", CONTROLLERS)
def test_four_ranks_on_two_nodes_add_up_and_train(launcher: str, cluster: nodes.Nodes, facts: Path) -> None:
    for framework in cluster.frameworks:
        ranks = run_over_nodes(cluster, facts, launcher, framework)
        assert [rank["rank"] for rank in ranks] == list(range(RANKS))
        assert {rank["size"] for rank in ranks} == {RANKS}
        assert {rank["local_size"] for rank in ranks} == {PER_NODE}
        assert {rank["mpi_enabled"] for rank in ranks} == {CONTROLLERS[launcher] == "mpi"}
        judges = (compared.allreduce, compared.broadcast, compared.agrees, compared.learns)
        assert [problem for judge in judges for problem in judge(ranks)] == []


def run_over_nodes(cluster: nodes.Nodes, facts: Path, launcher: str, framework: str) -> list[dict[str, Any]]:
    """What each rank left, in their order."""
    for path in facts.iterdir():
        path.unlink()
    command = cluster.python(framework, "/probes/collective.py", "/facts", framework)
    done = cluster.launch(launcher, command, nodes=HOSTS, per_node=PER_NODE)
    assert done.ok, done.stdout + done.stderr
    found = (json.loads(path.read_text()) for path in facts.iterdir())
    return sorted(found, key=lambda rank: int(rank["rank"]))


@pytest.mark.parametrize(("way", "said"), UNREACHABLE, ids=str)
def test_what_the_line_says_of_the_network_is_obeyed(
    way: dict[str, Any], said: str, cluster: nodes.Nodes
) -> None:
    framework = extensions(cluster.stack)[0][0]
    command = cluster.python(framework, "/probes/collective.py", "/facts", framework)
    site = launchers.site(hosts_text="a:1,b:1", ssh_key=nodes.KEY, **way)
    made = launchers.LAUNCHERS["mpirun"].make(cluster.target, site, command)
    done = cluster.run("timeout", "60", "bash", "-c", launchers.script(made))
    assert done.returncode not in (0, HUNG), done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def over_libfabric(cluster: nodes.Nodes, provider: str) -> Completed:
    """One rank on each node, whose MPI may go by one provider of libfabric alone."""
    command = cluster.python(cluster.frameworks[0], "/probes/collective.py", "/facts", cluster.frameworks[0])
    site = launchers.site(
        hosts_text="a:1,b:1", interface=nodes.INTERFACE, ssh_key=nodes.KEY, fabric="ofi", provider=provider
    )
    made = launchers.LAUNCHERS["mpirun"].make(cluster.target, site, command)
    return cluster.run("timeout", "120", "bash", "-c", launchers.script(made))


def test_ranks_add_up_over_libfabric(cluster: nodes.Nodes, facts: Path) -> None:
    """By its provider tcp, which every host has; Horovod sums by MPI."""
    if cluster.target.mpi.flavour is not MpiFlavour.OPENMPI:
        pytest.skip("the distribution's MPICH is built without libfabric")
    for path in facts.iterdir():
        path.unlink()
    done = over_libfabric(cluster, "tcp")
    assert done.ok, done.stdout + done.stderr
    assert "fabric: MPI goes between 2 nodes by tcp" in done.stdout
    ranks = [json.loads(path.read_text()) for path in facts.iterdir()]
    assert sorted(rank["rank"] for rank in ranks) == [0, 1]
    judges = (compared.allreduce, compared.broadcast, compared.agrees)
    assert [problem for judge in judges for problem in judge(ranks)] == []


def test_nothing_is_taken_in_place_of_a_provider_that_is_not_there(cluster: nodes.Nodes) -> None:
    if cluster.target.mpi.flavour is not MpiFlavour.OPENMPI:
        pytest.skip("the distribution's MPICH is built without libfabric")
    done = over_libfabric(cluster, "efa")
    assert done.returncode not in (0, HUNG), done.stdout + done.stderr
    assert "MPI did not start" in done.stdout + done.stderr


def test_the_training_takes_no_tcp_where_the_site_said_infiniband(cluster: nodes.Nodes) -> None:
    """The line without what it proves before."""
    framework = extensions(cluster.stack)[0][0]
    command = cluster.python(framework, "/probes/collective.py", "/facts", framework)
    site = launchers.site(
        hosts_text="a:1,b:1", ssh_key=nodes.KEY, interface=nodes.INTERFACE, fabric="infiniband"
    )
    made = launchers.LAUNCHERS["mpirun"].make(cluster.target, site, command)
    assert isinstance(made, Line)
    done = cluster.run("timeout", "60", "bash", "-c", made.line)
    assert done.returncode not in (0, HUNG), done.stdout + done.stderr
    assert "UCX" in done.stdout + done.stderr


def test_a_stranger_is_not_let_in(cluster: nodes.Nodes) -> None:
    port = str(launchers.SSH_PORT)
    ssh = ["ssh", "-p", port, "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "b", "true"]
    done = cluster.run(*ssh)
    assert not done.ok
    assert "Permission denied" in done.stderr


def test_the_host_keys_of_two_nodes_differ(cluster: nodes.Nodes) -> None:
    scan = ["ssh-keyscan", "-t", "ed25519", "-p", str(launchers.SSH_PORT), *nodes.HOSTS]
    scanned = cluster.run(*scan)
    keys = {line.split()[-1] for line in scanned.stdout.splitlines() if "ssh-ed25519" in line}
    assert len(keys) == len(nodes.HOSTS)
