"""What `build.py launch --slurm` prints is handed to a real Slurm, and its ranks meet, or say why not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cluster as clusters
import pytest
from cluster import JOB, PROJECT, TRAP, Cluster

from stackwright.core.launch import launchers
from stackwright.core.launch.slurm import PMI
from stackwright.core.model.row import Mpi
from stackwright.engines.docker import Docker
from stackwright.host import login_node as doctor
from stackwright.host.project import cells, plan
from stackwright.host.runner import Completed, Runner

pytest_plugins = ("slurm_fixtures",)
pytestmark = pytest.mark.engine

VERSIONS = {"openmpi": "5.0.7", "mpich": "4.2.1"}
FLOATS = 1_000_000
"""Enough for the way that large messages take: it differs from that of small ones."""
SUM = ("python3", f"{JOB}/allreduce.py", str(FLOATS))
FELL_BACK = "fell back to TCP: the site says infiniband, and MPI reaches other nodes"


@pytest.fixture(scope="session", params=tuple(clusters.MPI_IMAGES))
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def sif(flavour: str, runner: Runner, docker: Docker, cluster: Cluster) -> Path:
    return clusters.sif(runner, docker, flavour, cluster.folder)


@pytest.fixture(scope="session", autouse=True)
def program(cluster: Cluster) -> None:
    shutil.copy(Path(clusters.__file__).with_name("allreduce.py"), cluster.folder)


def recipe(flavour: str, sif: Path, command: tuple[str, ...] = SUM, **site: Any) -> str:
    mpi = Mpi.of(flavour, VERSIONS[flavour])
    target = launchers.Target(row=f"{flavour}-test", mpi=mpi, nccl_code=22105, image="i", sif=sif.name)
    return launchers.script(launchers.LAUNCHERS["slurm"].make(target, launchers.site(**site), command))


def answers(text: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return sorted(found, key=lambda rank: int(rank["rank"]))


@pytest.mark.parametrize(
    ("nodes", "per_node", "interface"), [(1, 2, None), (2, 1, None), (2, 2, None), (2, 2, "eth0")]
)
def test_all_ranks_are_one_world_and_add_up(
    nodes: int, per_node: int, interface: str | None, flavour: str, sif: Path, cluster: Cluster
) -> None:
    done = cluster.submit(recipe(flavour, sif, nodes=nodes, per_node=per_node, interface=interface))
    assert done.ok, done.stdout + done.stderr
    found, size = answers(done.stdout), nodes * per_node
    assert [rank["rank"] for rank in found] == list(range(size)), done.stdout
    assert {rank["size"] for rank in found} == {size}
    total = size * (size + 1) / 2
    assert all(rank["code"] == 0 and rank["sum"] == [total, total] for rank in found)
    assert "ERROR" not in done.stdout
    assert ("fabric: MPI goes between 2 nodes by tcp" in done.stdout) == (nodes > 1)


@pytest.mark.parametrize("per_node", [1, 2])
def test_tcp_is_named_where_the_site_said_infiniband(
    per_node: int, flavour: str, sif: Path, cluster: Cluster
) -> None:
    """The nodes have none: what MPI would take instead is named, and nothing trains."""
    done = cluster.submit(recipe(flavour, sif, nodes=2, per_node=per_node, fabric="infiniband"))
    assert not done.ok
    assert f"{FELL_BACK} by tcp" in done.stdout
    assert answers(done.stdout) == []


@pytest.mark.parametrize("wrong", ["none", "the other's"])
def test_ranks_that_are_alone_say_so_by_name_and_do_not_train(
    wrong: str, flavour: str, sif: Path, cluster: Cluster
) -> None:
    other = next(pmi for name, pmi in PMI.items() if name != flavour)
    said = "none" if wrong == "none" else other
    done = cluster.submit(recipe(flavour, sif, per_node=2).replace(f"--mpi={PMI[flavour]}", f"--mpi={said}"))
    assert not done.ok
    assert TRAP in done.stdout
    assert answers(done.stdout) == []


@pytest.mark.parametrize("hiding", ["--containall", "--cleanenv"])
def test_a_container_that_hides_the_pmi_is_the_same_trap(
    hiding: str, flavour: str, sif: Path, cluster: Cluster
) -> None:
    hidden = recipe(flavour, sif, per_node=2).replace(
        "apptainer exec", f"apptainer exec {hiding} --bind {JOB} --pwd {JOB}"
    )
    done = cluster.submit(hidden)
    assert not done.ok
    assert TRAP in done.stdout


def unproven(script: str) -> str:
    return "\n".join(line for line in script.splitlines() if "in_all_ranks python3 prove_" not in line)


def test_the_training_itself_takes_no_tcp_where_the_site_said_infiniband(
    flavour: str, sif: Path, cluster: Cluster
) -> None:
    done = cluster.submit(unproven(recipe(flavour, sif, nodes=2, fabric="infiniband")))
    assert not done.ok
    assert answers(done.stdout) == []


def test_without_the_proof_nobody_would_notice(flavour: str, sif: Path, cluster: Cluster) -> None:
    """The trap itself: Slurm calls it a success. If this fails, the proof has lost its reason."""
    alone = recipe(flavour, sif, per_node=2).replace(f"--mpi={PMI[flavour]} ", "--mpi=none ")
    done = cluster.submit(unproven(alone))
    assert done.ok
    assert [(rank["rank"], rank["size"]) for rank in answers(done.stdout)] == [(0, 1), (0, 1)]


def test_the_mpi_of_the_cluster_is_the_one_that_is_loaded(cluster: Cluster, sif: Path, flavour: str) -> None:
    own = f"{JOB}/host-{flavour}"
    library = {"openmpi": "libmpi.so.40 libopen-pal.so.80", "mpich": "libmpich.so.12"}[flavour]
    copy = f"mkdir -p {own}/lib && cd /usr/lib/x86_64-linux-gnu && cp -L {library} {own}/lib"
    made = cluster.run("apptainer", "exec", "--bind", JOB, sif.name, "sh", "-c", copy)
    assert made.ok, made.stderr
    done = cluster.submit(recipe(flavour, sif, per_node=2, host_mpi=own))
    assert done.ok, done.stdout + done.stderr
    assert [rank["size"] for rank in answers(done.stdout)] == [2, 2]
    assert all(path.startswith(f"{own}/lib/") for rank in answers(done.stdout) for path in rank["loaded"])


def test_a_rank_that_fails_ends_the_others(flavour: str, sif: Path, cluster: Cluster) -> None:
    fails = "import os, sys, time; sys.exit(7) if os.environ['SLURM_PROCID'] == '1' else time.sleep(500)"
    done = cluster.submit(recipe(flavour, sif, ("python3", "-c", fails), nodes=2))
    assert done.returncode not in (0, 124)


class LoginNode(Runner):
    """Runs on the first node what doctor asks there."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster

    def __call__(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        return self.cluster.run(*map(str, argv))


def test_doctor_reads_what_a_real_cluster_says(cluster: Cluster) -> None:
    every = plan(PROJECT, cells(PROJECT, ())).rows
    examined = doctor.examine(LoginNode(cluster), [row.stack for row in every])
    seen = examined.cluster
    assert seen.pmi is not None and {"pmix", "pmi2"} <= set(seen.pmi)
    assert (seen.pmix, seen.pmi_error, seen.pyxis) == ((5,), "", False)
    assert seen.slurm and seen.glibc and seen.kernel
    assert seen.runtime and seen.runtime[0] == "apptainer"
    assert (seen.mpi, seen.ports, seen.driver) == (None, None, None)  # the nodes have none of it
    for row in examined.rows:
        said = {answer.about: answer.outcome for answer in row.answers}
        assert [said[name] for name in ("srun", "container", "CPU", "fabric")] == ["works"] * 3 + [
            "not found"
        ]
