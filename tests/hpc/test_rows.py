"""Rows train in their SIF under a real Slurm: those that STACKWRIGHT_ROW names, or the matrix selects."""

from __future__ import annotations

import json
import os
from typing import Any
from uuid import uuid4

import pytest
from cluster import JOB, PROJECT, SIFS, TRAP, USER, Cluster

from bench.nodes import DRIVER, LEND_DRIVER, SHARED_CORES
from stackwright.core.checks import ranks as compared
from stackwright.core.checks.tables import collective
from stackwright.core.launch import launchers
from stackwright.core.launch.slurm import PMI
from stackwright.host.project import cells, default_rows, plan

pytest_plugins = ("slurm_fixtures",)
pytestmark = pytest.mark.engine

NAMED = os.environ.get("STACKWRIGHT_ROW", "").split()
ROWS = {row.stack.id: row for row in plan(PROJECT, cells(PROJECT, NAMED or default_rows(PROJECT))).rows}


@pytest.fixture(params=ROWS)
def target(request: pytest.FixtureRequest) -> launchers.Target:
    """A row whose SIF was built here. Where it was asked for by name, it has to be there."""
    row = ROWS[request.param]
    built = PROJECT.folder(row.recipe) / f"{row.stack.id}.sif"
    if not built.exists():
        missing = f"{built.name} is not there: ./build.py sif {row.stack.id}"
        pytest.fail(missing) if NAMED else pytest.skip(missing)
    return launchers.Target.of(row.stack, "i", sif=f"{SIFS}/{built.relative_to(PROJECT.out)}")


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 2), (2, 1)])
def test_the_frameworks_of_a_row_train_in_its_sif(
    nodes: int, per_node: int, target: launchers.Target, cluster: Cluster
) -> None:
    runs = [run.partition("/") for run in collective.runs(ROWS[target.row].stack)]
    for framework in [name for name, _, launcher in runs if launcher == "gloo"]:
        ranks = trained(cluster, target, framework, nodes=nodes, per_node=per_node)
        judges = (
            compared.allreduce, compared.broadcast, compared.allgather, compared.agrees, compared.learns,
        )  # fmt: skip
        assert [problem for judge in judges for problem in judge(ranks)] == [], framework
        assert [(rank["rank"], rank["size"]) for rank in ranks] == [(0, 2), (1, 2)]
        assert {rank["local_size"] for rank in ranks} == {per_node}
        assert all(rank["mpi_enabled"] for rank in ranks)


def trained(
    cluster: Cluster, target: launchers.Target, framework: str, *, nodes: int, per_node: int
) -> list[dict[str, Any]]:
    """What each rank left, in their order."""
    facts = cluster.folder / uuid4().hex
    facts.mkdir()
    os.chown(facts, USER, USER)
    python = ("/opt/stack/bin/python", "-B")
    lent: tuple[str, ...] = ()
    if framework == "mxnet":
        lent = (f"LD_LIBRARY_PATH={DRIVER}",)
        words = ("srun", f"--nodes={nodes}", "apptainer", "exec", target.sif, *python, "-c", LEND_DRIVER)
        done = cluster.run(*words)
        assert done.ok, done.stderr
    probe = (*python, "/probes/collective.py", f"{JOB}/{facts.name}", framework)
    site = launchers.site(nodes=nodes, per_node=per_node)
    made = launchers.LAUNCHERS["slurm"].make(target, site, ("env", *SHARED_CORES, *lent, *probe))
    done = cluster.submit(launchers.script(made))
    assert done.ok, done.stdout + done.stderr
    found = (json.loads(path.read_text()) for path in facts.iterdir())
    return sorted(found, key=lambda rank: int(rank["rank"]))


def test_a_row_without_its_pmi_is_named_as_the_trap(target: launchers.Target, cluster: Cluster) -> None:
    made = launchers.LAUNCHERS["slurm"].make(target, launchers.site(per_node=2), ("true",))
    done = cluster.submit(launchers.script(made).replace(f"--mpi={PMI[target.mpi.flavour]} ", "--mpi=none "))
    assert not done.ok
    assert TRAP in done.stdout
