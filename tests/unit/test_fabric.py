"""The programs that ranks run before the training: what they make of a log, and of a site's promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fabric_logs as logs
import pytest
from launch_targets import TARGETS

from stackwright.core.launch import launchers
from stackwright.core.launch.carried import nccl_route, world
from stackwright.core.launch.recipe import Batch, Line


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (logs.UCX_TCP, ["tcp/eth0"]),
        (logs.UCX_ALONE, []),
        (logs.UCX_INFINIBAND, ["rc_mlx5/mlx5_2:1"]),
        (logs.UCX_OLD_INFINIBAND, ["rc_mlx5/mlx5_0:1"]),
        (logs.UCX_1_13_ALONE, []),
        (logs.OB1_4_1_ALONE, []),
        (logs.OB1_TCP, ["tcp"]),
        (logs.OB1_WITH_UCX_LOADED, ["tcp"]),
        (logs.OB1_TCP.replace("[a:", "[a.cluster.local:"), ["tcp"]),
        (logs.CM, []),
        (logs.CM.replace("ofi", "psm2"), ["psm2"]),
        (logs.CM_EFA, ["rdmap0s31-rdm"]),
        (logs.CM_TCP, ["tcp;ofi_rxm"]),
        ("", []),
    ],
)
def test_mpi_tells_by_what_it_reaches_the_other_nodes(log: str, found: list[str]) -> None:
    assert world.ways(log) == found


@pytest.mark.parametrize("way", ["tcp/eth0", "tcp", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"])
def test_tcp_between_nodes_has_a_name_where_the_site_said_infiniband(way: str) -> None:
    said = world.slow("infiniband", 2, ["rc_mlx5/mlx5_0:1", way])
    assert said.startswith("fell back to TCP: the site says infiniband")
    assert f"by {way}." in said
    assert world.slow("tcp", 2, [way]) == world.slow("auto", 2, [way]) == ""
    assert world.slow("infiniband", 1, [way]) == ""


@pytest.mark.parametrize(
    ("site", "found", "said"),
    [
        ("ofi", ["efa"], ""),
        ("ofi", ["tcp;ofi_rxm"], "fell back to TCP: the site says ofi"),
        ("ofi", [], "does not tell"),
        ("ofi=tcp", ["tcp"], ""),
        ("ofi=tcp", ["tcp;ofi_rxm"], ""),
        ("ofi=efa", ["tcp;ofi_rxm"], "the site says efa, and MPI reaches other nodes by tcp;ofi_rxm"),
        ("ofi=efa", ["efa", "tcp"], "by tcp"),
    ],
)
def test_libfabric_goes_by_a_fast_provider_or_by_the_one_that_is_named(
    site: str, found: list[str], said: str
) -> None:
    wrong = world.slow(site, 2, found)
    assert said in wrong and bool(wrong) == bool(said)
    assert world.slow(site, 1, found) == ""


def test_infiniband_is_right_and_silence_is_not() -> None:
    assert world.slow("infiniband", 2, ["rc_mlx5/mlx5_0:1"]) == ""
    assert world.slow("infiniband", 2, ["psm2"]) == ""
    assert "does not tell" in world.slow("infiniband", 2, [])


@pytest.mark.parametrize(
    ("log", "said"),
    [(logs.WITHOUT_PMI, "singleton trap: 2 ranks"), ("out of memory", "MPI did not start:\nout")],
)
def test_an_mpi_that_does_not_start_without_pmi_is_the_trap_too(
    log: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "asked", lambda fabric: ({}, log))
    assert world.main(2, "tcp").startswith(said)


@pytest.mark.parametrize(
    ("log", "found", "said"),
    [
        (logs.NCCL_SOCKET, ["Socket"], "fell back to TCP"),
        (logs.NCCL_SOCKET_CHANNELS, ["Socket"], "fell back to TCP"),
        (logs.NCCL_SOCKET_OLD, ["Socket"], "fell back to TCP"),
        (logs.NCCL_INFINIBAND, ["IB"], ""),
        (logs.NCCL_INFINIBAND_OLD, ["IB"], ""),
        (logs.NCCL_PLUGIN, ["IBext"], ""),
        (logs.NCCL_SILENT, [], "does not tell"),
        (logs.NCCL_INFINIBAND + logs.NCCL_SOCKET_CHANNELS, ["IB", "Socket"], "fell back to TCP"),
    ],
)
def test_nccl_tells_which_network_it_took(log: str, found: list[str], said: str) -> None:
    """Its log only: no GPU takes part in any test of this program."""
    assert nccl_route.ways(log) == found
    wrong = nccl_route.slow(found)
    assert wrong.startswith(said) if said.startswith("fell") else said in wrong
    assert bool(wrong) == bool(said)


@pytest.mark.parametrize(
    ("log", "code", "said"),
    [
        (logs.NCCL_INFINIBAND, 0, ""),
        (logs.NCCL_SOCKET, 0, "fell back to TCP"),
        (logs.NCCL_SOCKET, 1, "fell back to TCP"),
        (logs.NCCL_SILENT, 0, "does not tell"),
        (logs.NCCL_INFINIBAND + "RuntimeError: no driver", 1, "RuntimeError: no driver"),
    ],
)
def test_a_sum_that_did_not_come_back_is_as_wrong_as_the_wrong_network(
    log: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of Horovod's sum, a program that writes what NCCL wrote elsewhere and ends as told."""
    monkeypatch.setattr(nccl_route, "DEVICE", str(tmp_path))
    monkeypatch.setattr(nccl_route, "SUM", f"print({log!r}); raise SystemExit({code})")
    wrong = nccl_route.main()
    assert said in wrong
    assert bool(wrong) == bool(said)


def test_the_sum_reaches_what_started_its_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MPICH meets its ranks through a descriptor that it inherits, under srun and under mpirun. Python closes
    it by itself: https://github.com/flux-framework/flux-docs/issues/60."""
    end, start = os.pipe()
    os.set_inheritable(start, True)
    monkeypatch.setenv("PMI_FD", str(start))
    monkeypatch.setattr(nccl_route, "DEVICE", str(tmp_path))
    write = "import os; os.write(int(os.environ['PMI_FD']), b'cmd=init')"
    monkeypatch.setattr(nccl_route, "SUM", f"{write}; print({logs.NCCL_INFINIBAND!r})")
    wrong = nccl_route.main()
    os.close(start)
    with os.fdopen(end, "rb") as handle:
        assert (wrong, handle.read()) == ("", b"cmd=init")


def run_carried(program: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As ``python3 -c`` runs it in an image that has no MPI and no GPU."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *words], cwd=cwd, env={"LD_LIBRARY_PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.skipif(Path(nccl_route.DEVICE).exists(), reason="there is a GPU")
def test_without_a_gpu_nccl_is_not_asked_and_it_says_so(tmp_path: Path) -> None:
    done = run_carried(Path(nccl_route.__file__).read_text(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "fabric: NCCL was not asked: the container sees no GPU\n"


@pytest.mark.parametrize("fabric", launchers.FABRICS)
def test_without_mpi_it_says_so(fabric: str, tmp_path: Path) -> None:
    """The way that it goes in an image without MPI. With MPI it goes in tests/hpc."""
    done = run_carried(Path(world.__file__).read_text(), "2", fabric, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "no MPI in the container" in done.stderr or "singleton trap" in done.stderr


@pytest.mark.parametrize("which", TARGETS)
@pytest.mark.parametrize(
    ("launcher", "way", "names"),
    [
        ("slurm", {"nodes": 2}, ["prove_world"]),
        ("slurm", {"fabric": "infiniband"}, ["prove_world"]),
        ("slurm", {"nodes": 2, "fabric": "infiniband"}, ["prove_world", "prove_nccl"]),
        ("mpirun", {"hosts_text": "a:2,b:2"}, []),
        ("mpirun", {"hosts_text": "a:2,b:2", "fabric": "infiniband"}, ["prove_world", "prove_nccl"]),
    ],
)
def test_the_recipes_prove_what_the_site_said(
    which: str, launcher: str, way: dict[str, Any], names: list[str]
) -> None:
    made = launchers.LAUNCHERS[launcher].make(TARGETS[which], launchers.site(**way), ("true",))
    assert isinstance(made, Line | Batch)
    assert [proof.name for proof in made.proofs] == names
    mark, shown = ("in_all_ranks python3 ", "{}.py") if launcher == "slurm" else ('python3 -c "$', '"${}"')
    ends = [line for line in launchers.script(made).splitlines() if mark in line]
    assert [shown.format(name) in line for name, line in zip(names, ends, strict=True)] == [True] * len(names)


def test_the_line_of_mpirun_trains_only_after_its_proofs(tmp_path: Path) -> None:
    """mpirun is a stand-in that fails where it is asked to prove."""
    mpirun = tmp_path / "mpirun"
    mpirun.write_text('#!/bin/sh\ncase "$*" in *"-c "*) echo proof; exit 1 ;; *) echo trains ;; esac\n')
    mpirun.chmod(0o755)
    site = launchers.site(hosts_text="a,b", fabric="infiniband")
    made = launchers.LAUNCHERS["mpirun"].make(TARGETS["openmpi 5"], site, ("true",))
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", launchers.script(made)], env=path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("proof\n", 1)
