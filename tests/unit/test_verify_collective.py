"""Checks of collectives and of the GPU: faults that no small image can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from image_facts import ROW, docker_facts, failed

from stackwright.core.checks.judge import verify
from stackwright.core.model.row import Outcome

Change = Callable[[dict[str, Any]], object]


def rank(facts: dict[str, Any], launcher: str = "mpi", number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = facts["collective"][f"torch/{launcher}"]["ranks"][number]
    return found


def training(facts: dict[str, Any], **values: Any) -> None:
    rank(facts)["training"] |= values


def each(facts: dict[str, Any], **values: Any) -> None:
    """The same change in both ranks."""
    for number in (0, 1):
        rank(facts, number=number).update(values)


def same_start(facts: dict[str, Any]) -> None:
    rank(facts)["data"] = rank(facts, number=0)["data"]


def untrained(facts: dict[str, Any]) -> None:
    for number in (0, 1):
        rank(facts, number=number)["training"]["after"] = rank(facts, number=0)["training"]["before"]


NAN = float("nan")
COLLECTIVE_FAULTS: tuple[tuple[str, Change, set[str], str], ...] = (
    ("wrong sum", lambda f: rank(f).update(sum=[4.0, 30.0]), {"allreduce"}, "torch/mpi: rank 1 has the sum"),
    ("sum is NaN", lambda f: rank(f).update(sum=[NAN, 30.0]), {"allreduce"}, "nan"),
    ("sum too short", lambda f: rank(f).update(sum=[3.0]), {"allreduce"}, "[3.0]"),
    ("average not divided", lambda f: each(f, average=[3.0, 30.0]), {"allreduce"}, "the average"),
    ("sum over gloo", lambda f: rank(f, "gloo").update(sum=[1.0, 1.0]), {"allreduce"}, "torch/gloo"),
    ("broadcast of rank 0", lambda f: each(f, broadcast=[1.0, 10.0]), {"broadcast"}, "sent [2.0, 20.0]"),
    ("no broadcast", lambda f: rank(f, number=0).update(broadcast=[1.0, 10.0]), {"broadcast"}, "rank 0"),
    ("gather in another order", lambda f: rank(f)["allgather"].reverse(), {"allgather"}, "rank 1 gathered"),
    ("gather loses a row", lambda f: rank(f)["allgather"].pop(), {"allgather"}, "rank 1 gathered"),
    ("diverging weights", lambda f: training(f, after=[0.5, -0.7]), {"training-agrees"}, "different weights"),
    ("weights are NaN", lambda f: training(f, after=[NAN, NAN]), {"training-agrees"}, "different weights"),
    ("equal data", same_start, {"training-agrees"}, "the same data"),
    ("weights unchanged", untrained, {"training-agrees"}, "did not change"),
    ("loss rises", lambda f: training(f, losses=[1.0, 2.0]), {"training-learns"}, "from 1 to 2"),
    ("loss stays", lambda f: training(f, losses=[1.0, 1.0]), {"training-learns"}, "from 1 to 1"),
    ("loss is NaN", lambda f: training(f, losses=[1.0, NAN]), {"training-learns"}, "to nan"),
    ("no loss", lambda f: training(f, losses=[]), {"training-learns"}, "nowhere"),
    ("world of one", lambda f: each(f, size=1), {"world"}, "sees 1 ranks"),
    ("two nodes", lambda f: each(f, local_size=1), {"world"}, "1 of them on its node"),
    ("other controller", lambda f: rank(f).update(mpi_enabled=False), {"controller"}, "no controller"),
    ("exit code", lambda f: f["collective"]["torch/gloo"].update(code=1, error="1"), {"run"}, "gloo"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "red", "says"),
    [row[1:] for row in COLLECTIVE_FAULTS],
    ids=[row[0] for row in COLLECTIVE_FAULTS],
)
def test_a_fault_of_a_collective_is_found_by_its_check(change: Change, red: set[str], says: str) -> None:
    facts = docker_facts(ROW)
    change(facts)
    details = failed(facts)
    assert set(details) == {f"collective.{name}" for name in red}
    assert says in "".join(details.values())


def test_two_worlds_of_one_rank() -> None:
    """What srun without PMI makes: each process is rank 0 of 1, and each sum is its own value."""
    facts = docker_facts(ROW)
    alone = {"rank": 0, "size": 1, "local_size": 1}
    for number in (0, 1):
        process = rank(facts, number=number)
        process.update(alone, sum=process["given"], average=process["given"])
    assert failed(facts).keys() == {"collective.world"}
    assert "[0, 0]" in failed(facts)["collective.world"]


def test_one_rank_that_is_lost() -> None:
    facts = docker_facts(ROW)
    facts["collective"]["torch/mpi"]["ranks"].pop()
    assert failed(facts) == {"collective.run": "torch/mpi: 2 ranks were started, and 1 left a result"}


def test_a_run_without_ranks_passes_nothing_of_its_tier() -> None:
    facts = docker_facts(ROW)
    facts["collective"]["torch/gloo"].update(ranks=[], code=139, error="ended with exit code 139")
    assert set(failed(facts)) == {"collective.run"}
    facts["collective"] |= dict.fromkeys(facts["collective"], facts["collective"]["torch/gloo"])
    assert set(failed(facts)) == {"collective.run"}
    passed = {
        check.id for check in verify(ROW, facts, "docker", {}).checks if check.outcome is Outcome.PASSED
    }
    assert not any(name.startswith("collective.") for name in passed)


def test_a_rank_that_failed_still_says_which_world_it_saw() -> None:
    facts = docker_facts(ROW)
    for number in (0, 1):
        process = rank(facts, number=number)
        process.update(rank=0, size=1, local_size=1, error="ValueError: no rank 1")
        del process["sum"], process["training"]
    details = failed(facts)
    assert set(details) == {"collective.world"}
    assert "sees 1 ranks" in details["collective.world"]
    for number in (0, 1):
        rank(facts, number=number).update(rank=number, size=2, local_size=2)
    assert failed(facts) == {
        "collective.run": "torch/mpi: rank 0: ValueError: no rank 1; torch/mpi: rank 1: ValueError: no rank 1"
    }


def blind(facts: dict[str, Any]) -> None:
    for run in facts["gpu"].values():
        run["ranks"][0]["capabilities"] = []


def gpu_rank(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = facts["gpu"]["torch"]["ranks"][0]
    return found


GPU_FAULTS: tuple[tuple[str, Change, str], ...] = (
    ("run", lambda f: f["gpu"]["torch"].update(code=1, error="ended with 1"), "ended with 1"),
    ("allreduce", lambda f: gpu_rank(f).update(sum=[2.0, 10.0]), "[2.0, 10.0]"),
    ("allreduce", lambda f: gpu_rank(f).update(device="cpu"), "on cpu"),
    ("kernels", lambda f: gpu_rank(f).update(capabilities=["6.1"]), "do not run on 6.1"),
    ("kernels", blind, "no framework sees a GPU"),
    ("driver", lambda f: gpu_rank(f).update(driver_cuda=11040), "offers CUDA 11"),
)


@pytest.mark.parametrize(("red", "change", "says"), GPU_FAULTS)
def test_a_fault_of_a_gpu_is_found_by_its_check(red: str, change: Change, says: str) -> None:
    facts = docker_facts(ROW)
    change(facts)
    details = failed(facts)
    assert set(details) == {f"gpu.{red}"}
    assert says in details[f"gpu.{red}"]


def test_a_gpu_that_answers_with_no_rank_is_no_gpu() -> None:
    facts = docker_facts(ROW)
    facts["gpu"]["torch"].update(ranks=[])
    assert failed(facts).keys() == {"gpu.run"}
