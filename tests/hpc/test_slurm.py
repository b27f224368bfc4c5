"""What `build.py launch --slurm` prints is handed to a real Slurm, and its ranks meet, or say why not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cluster as clusters
import pytest
from cluster import JOB, ROOT, USER, Cluster

from bench.nodes import LEND_DRIVER, SHARED_CORES
from stackwright import cluster as doctor
from stackwright import launch
from stackwright.checks import collective
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.launch.slurm import PMI
from stackwright.model import Mpi, Stack
from stackwright.project import Project, cells, default_rows, plan
from stackwright.runner import Completed, Runner

pytestmark = pytest.mark.engine

PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
WANTED = os.environ.get("STACKWRIGHT_ROW", "").split() or default_rows(PROJECT)
ROWS = {row.stack.id: row for row in plan(PROJECT, cells(PROJECT, WANTED)).rows}
VERSIONS = {"openmpi": "5.0.7", "mpich": "4.2.1"}
FLOATS = 1_000_000
"""Enough for the way that large messages take: it differs from that of small ones."""
SUM = ("python3", f"{JOB}/allreduce.py", str(FLOATS))
TRAP = "singleton trap: 2 ranks were started, and each is rank 0 of 1"


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


@pytest.fixture(scope="session", params=tuple(clusters.MPI_IMAGES))
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def sif(flavour: str, runner: Runner, docker: Docker, cluster: Cluster) -> Path:
    return clusters.sif(runner, docker, flavour, cluster.folder)


@pytest.fixture(scope="session", autouse=True)
def program(cluster: Cluster) -> None:
    shutil.copy(Path(__file__).parent / "allreduce.py", cluster.folder)


def recipe(flavour: str, sif: Path, command: tuple[str, ...] = SUM, **site: Any) -> str:
    mpi = Mpi(flavour="mpich" if flavour == "mpich" else "openmpi", version=VERSIONS[flavour])
    target = launch.Target(row=f"{flavour}-test", mpi=mpi, nccl_code=22105, image="i", sif=sif.name)
    return launch.script(launch.LAUNCHERS["slurm"].make(target, launch.site(**site), command))


def answers(text: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return sorted(found, key=lambda rank: int(rank["rank"]))


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("interface", [None, "eth0"])
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
        "apptainer exec", f"apptainer exec {hiding} --bind {JOB}"
    )
    done = cluster.submit(hidden)
    assert not done.ok
    assert TRAP in done.stdout


def test_without_the_proof_nobody_would_notice(flavour: str, sif: Path, cluster: Cluster) -> None:
    """The trap itself: Slurm calls it a success. If this fails, the proof has lost its reason."""
    lines = recipe(flavour, sif, per_node=2).replace(f"--mpi={PMI[flavour]}", "--mpi=none").splitlines()
    done = cluster.submit("\n".join(line for line in lines if "$prove_world" not in line))
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


@pytest.fixture(params=ROWS)
def row(request: pytest.FixtureRequest, cluster: Cluster) -> Stack:
    """A row whose SIF was built here, laid where the nodes see it."""
    stack, recipe = ROWS[request.param].stack, ROWS[request.param].recipe
    built = PROJECT.folder(recipe) / f"{stack.id}.sif"
    if not built.exists():
        pytest.skip(f"{built.name} is not there: ./build.py sif {stack.id}")
    lent = cluster.folder / built.name
    if not lent.exists():
        try:
            os.link(built, lent)
        except OSError:
            shutil.copy(built, lent)
    return stack


def test_the_frameworks_of_a_row_train_in_its_sif(row: Stack, cluster: Cluster) -> None:
    target = launch.Target.of(row, "i")
    for framework in dict.fromkeys(run.partition("/")[0] for run in collective.runs(row)):
        facts = cluster.folder / f"facts-{framework}"
        facts.mkdir()
        os.chown(facts, USER, USER)
        python = ("/opt/stack/bin/python", "-B")
        lent: tuple[str, ...] = ()
        if framework == "mxnet":
            lent = ("LD_LIBRARY_PATH=/tmp/driver",)
            done = cluster.run("apptainer", "exec", target.sif, *python, "-c", LEND_DRIVER)
            assert done.ok, done.stderr
        probe = (*python, "/probes/collective.py", f"{JOB}/{facts.name}", framework)
        made = launch.LAUNCHERS["slurm"].make(
            target, launch.site(per_node=2), ("env", *SHARED_CORES, *lent, *probe)
        )
        done = cluster.submit(launch.script(made))
        assert done.ok, done.stdout + done.stderr
        ranks = sorted(
            (json.loads(path.read_text()) for path in facts.iterdir()), key=lambda one: one["rank"]
        )
        judges = (
            collective.world, collective.allreduce, collective.broadcast, collective.allgather,
            collective.agrees, collective.learns,
        )  # fmt: skip
        assert [problem for judge in judges for problem in judge(ranks)] == []
        assert all(rank["mpi_enabled"] for rank in ranks)


def test_a_row_without_its_pmi_is_named_as_the_trap(row: Stack, cluster: Cluster) -> None:
    made = launch.LAUNCHERS["slurm"].make(launch.Target.of(row, "i"), launch.site(per_node=2), ("true",))
    done = cluster.submit(launch.script(made).replace(f"--mpi={PMI[row.mpi.flavour]}", "--mpi=none"))
    assert not done.ok
    assert TRAP in done.stdout


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
    seen = examined.seen
    assert seen.pmi is not None and {"pmix", "pmi2"} <= set(seen.pmi)
    assert (seen.pmix, seen.pmi_error, seen.pyxis) == ((5,), "", False)
    assert seen.slurm and seen.glibc and seen.kernel
    assert seen.runtime and seen.runtime[0] == "apptainer"
    assert (seen.mpi, seen.ports, seen.driver) == (None, None, None)  # the nodes have none of it
    for row in examined.rows:
        said = {answer.about: answer.outcome for answer in row.answers}
        assert (said["srun"], said["container"], said["fabric"]) == ("works", "works", "not found")
