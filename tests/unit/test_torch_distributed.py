"""torch.distributed as a layer: its checks, and those of all layers in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from image_facts import ROW, docker_facts, failed
from rows import LOCK, SERIES, SOURCES, cell

from stackwright.core.checks.judge import verify
from stackwright.core.checks.probes import words
from stackwright.core.model.row import Rejection, Stack
from stackwright.core.render.dockerfile import declared, render
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.resolve import check, resolve
from stackwright.core.rules.rule import Ruling, weigh
from stackwright.core.rules.table import CELL_RULES

Change = Callable[[dict[str, Any]], object]


def own(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = facts["built"]["torch_distributed"]
    return found


def rank(facts: dict[str, Any], launcher: str = "torchrun", number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = facts["collective"][f"torch_distributed/{launcher}"]["ranks"][number]
    return found


def shard(facts: dict[str, Any], way: str = "fsdp", **values: Any) -> None:
    rank(facts)["sharded"][way] |= values


def order(facts: dict[str, Any], number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = facts["together"]["orders"][number]
    return found


def maps(facts: dict[str, Any], **libraries: list[str]) -> None:
    order(facts)["ranks"][1]["mapped"] = {**order(facts)["ranks"][1]["mapped"], **libraries}


NAN = float("nan")
FAULTS: tuple[tuple[str, Change, set[str], str], ...] = (
    ("no nccl", lambda f: own(f)["available"].update(nccl=False), {"distributed.backends"}, "has no nccl"),
    ("gloo not noted", lambda f: own(f)["configured"].update(gloo=False), {"distributed.backends"},
     "it has gloo, and PyTorch was built without it"),
    ("mpi noted only", lambda f: own(f)["configured"].update(mpi=True), {"distributed.backends"},
     "it lacks mpi, and PyTorch was built with it"),
    ("other nccl", lambda f: own(f).update(nccl=[2, 27, 3]), {"distributed.nccl"},
     "compiled with NCCL 2.27.3, and its wheel requires 2.21.5"),
    ("nccl is not there", lambda f: own(f).update(nccl_without_gpu="ValueError: Unknown backend nccl"),
     {"distributed.nccl-backend"}, "Unknown backend"),
    ("nccl starts", lambda f: own(f).update(nccl_without_gpu=None), {"distributed.nccl-backend"}, "started"),
    ("loads another nccl", lambda f: own(f)["libraries"]["nccl"].update(version=22703), {"declared.nccl"},
     "torch.distributed loads 2.27.3"),
    ("other launcher", lambda f: rank(f, "srun").update(launched_by="mpi"), {"collective.controller"},
     "torch_distributed/srun: rank 1 runs with mpi"),
    ("wrong sum", lambda f: rank(f, "mpi").update(sum=[1.0, 1.0]), {"collective.allreduce"},
     "torch_distributed/mpi: rank 1 has the sum"),
    ("world of one", lambda f: rank(f, "srun").update(size=1), {"collective.world"}, "sees 1 ranks"),
    ("ddp diverges", lambda f: rank(f)["training"].update(after=[9.0, 9.0]), {"collective.training-agrees"},
     "different weights"),
    ("fsdp diverges", lambda f: shard(f, after=[9.0, 9.0]), {"distributed.sharded-agrees"},
     "fsdp: ranks 0 and 1 ended with different weights"),
    ("not sharded", lambda f: shard(f, held=2), {"distributed.sharded-agrees"}, "holds 2 of 2 weights"),
    ("holds nothing", lambda f: shard(f, held=0), {"distributed.sharded-agrees"}, "holds 0 of 2"),
    ("loss of fsdp", lambda f: shard(f, losses=[1.0, NAN]), {"distributed.sharded-learns"}, "to nan"),
    ("fsdp fails", lambda f: shard(f, error="RuntimeError: no"),
     {"distributed.sharded-agrees", "distributed.sharded-learns"}, "fsdp: RuntimeError: no"),
    ("an order fails", lambda f: order(f).update(code=139), {"together.run"}, "exit code 139"),
    ("a rank is lost", lambda f: order(f)["ranks"].pop(), {"together.run"}, "1 left a result"),
    ("an order is lost", lambda f: f["together"]["orders"].pop(), {"together.run"},
     "the order horovod.torch, jax, deepspeed, mpi4py.MPI, torch.distributed was not tried"),
    ("a layer is lost", lambda f: order(f, 1)["order"].pop(), {"together.run"}, "was not tried"),
    ("an import fails", lambda f: order(f)["ranks"][0].update(error="ImportError: no"), {"together.run"},
     "rank 0: ImportError: no"),
    ("a second nccl", lambda f: maps(f, libnccl=["/a/libnccl.so.2", "/b/libnccl.so.2"]),
     {"together.one-library"}, "rank 1 maps /a/libnccl.so.2 and /b/libnccl.so.2"),
    ("a second mpi", lambda f: maps(f, libmpich=["/usr/lib/libmpich.so.12"]), {"together.one-library"},
     "two MPIs"),
    ("a sum differs", lambda f: order(f)["ranks"][0]["sums"].update({"horovod.torch": [3.0, 31.0]}),
     {"together.agree"}, "horovod.torch sums to [3.0, 31.0]"),
    ("a layer without a sum", lambda f: order(f)["ranks"][0]["sums"].pop("torch.distributed"),
     {"together.agree"}, "torch.distributed sums to None"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "red", "says"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_a_fault_is_found_by_its_check(change: Change, red: set[str], says: str) -> None:
    facts = docker_facts(ROW)
    change(facts)
    details = failed(facts)
    assert set(details) == red, details
    assert says in "".join(details.values())


def newer(facts: dict[str, Any], torch: str) -> dict[str, str]:
    """The sample with another release of PyTorch, by the checks of models that are sharded."""
    row = replace(ROW, frameworks=(("torch", torch),), communication=(("torch_distributed", torch),))
    return {
        check.id: check.outcome
        for check in verify(row, facts, "docker", {}).checks
        if check.id.startswith("distributed.sharded")
    }


def test_fully_shard_is_asked_of_releases_that_have_it_on_a_cpu() -> None:
    facts = docker_facts(ROW)
    shard(facts, "fully_shard", error="AttributeError: 'Stream' object has no attribute 'record_event'")
    assert failed(facts) == {}
    assert set(newer(facts, "2.8.0").values()) == {"failed"}
    seen = next(
        judged
        for judged in verify(ROW, facts, "docker", {}).checks
        if judged.id == "distributed.sharded-learns"
    )
    assert "fully_shard has no CPU in this release" in seen.detail


def test_a_newer_nccl_of_the_row_fits_what_pytorch_was_compiled_with_and_an_older_does_not() -> None:
    facts = docker_facts(ROW)
    for nccl, outcome in (("2.27.7", "passed"), ("2.20.5", "failed"), ("3.0.1", "failed")):
        checks = verify(replace(ROW, nccl=nccl), facts, "docker", {}).checks
        assert next(judged.outcome for judged in checks if judged.id == "distributed.nccl") == outcome


def row_of(**values: Any) -> Stack:
    changed = cell(torch_distributed=True, **values)
    made = resolve(changed, replace(LOCK, request=request(changed)), SERIES)
    assert isinstance(made, Stack), made
    return made


def test_a_row_says_true_and_the_layer_has_the_version_of_pytorch() -> None:
    row = row_of()
    assert row.communication == (("horovod", "0.28.1"), ("torch_distributed", "2.6.0"))
    assert declared(row)["torch_distributed"] == "2.6.0"
    assert "with Horovod 0.28.1, torch.distributed 2.6.0 on debian-13" in render(row, SOURCES).text(
        "Dockerfile"
    )


def test_false_is_the_same_as_leaving_it_out() -> None:
    assert cell(torch_distributed=False) == cell()


def test_the_words_ask_for_it_and_for_all_layers_together() -> None:
    asked = words(row_of(), 2, {})
    assert {"built=torch_distributed", "collective=torch_distributed/srun", "gpu=torch_distributed/2"} <= {
        *asked
    }
    assert "together=horovod.torch,torch.distributed" in asked
    alone = words(replace(ROW, communication=ROW.communication[:1]), 0, {})
    assert not any(word.startswith("together") for word in alone)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"torch_distributed": True}, Ruling.FITS),
        ({"torch_distributed": True, "torch": "2.0.1"}, Ruling.WARNS),
        ({"torch": "2.0.1"}, Ruling.SILENT),
    ],
)
def test_torch_distributed_with_an_untried_release_is_a_warning(values: dict[str, Any], said: Ruling) -> None:
    (rule,) = [rule for rule in CELL_RULES if rule.name == "torch-distributed-tried"]
    assert weigh(rule, rule.ask(cell(**values))) is said


def test_a_lock_without_nccl_is_refused() -> None:
    row = cell(horovod=None, torch_distributed=True)
    packages = tuple(package for package in LOCK.packages if not package.name.startswith("nvidia-nccl"))
    rejection = resolve(row, replace(LOCK, packages=packages, request=request(row)), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == "torch-distributed-nccl"


def test_without_pytorch_it_is_refused_and_kept_in_the_nearest_row() -> None:
    rejection = check(cell(torch_distributed=True, torch=None, tensorflow="2.20.0"))
    assert rejection
    assert (rejection.rule, rejection.nearest) == ("torch-distributed", "torch 2.10.0 instead of none")
