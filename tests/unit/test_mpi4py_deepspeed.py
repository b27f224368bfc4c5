"""mpi4py and DeepSpeed as layers: their checks and rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from image_facts import ROW, docker_facts, failed
from rows import cell

from stackwright.core.components.table import BY_NAME
from stackwright.core.model.row import Mpi
from stackwright.core.resolve.requirements import requirements
from stackwright.core.resolve.resolve import check

Change = Callable[[dict[str, Any]], object]
MPICH = "MPICH Version:      4.2.1\nMPICH Release date: x"


def built(facts: dict[str, Any], layer: str) -> dict[str, Any]:
    found: dict[str, Any] = facts["built"][layer]
    return found


def rank(facts: dict[str, Any], run: str, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = facts["collective"][run]["ranks"][number]
    return found


def stage(facts: dict[str, Any], which: str, **values: Any) -> None:
    rank(facts, "deepspeed/torchrun")["zero"][which] |= values


FAULTS: tuple[tuple[str, Change, set[str], str], ...] = (
    ("mpich", lambda f: built(f, "mpi4py").update(library=MPICH), {"mpi4py.library"}, "MPICH Version"),
    ("older", lambda f: built(f, "mpi4py").update(library="Open MPI v4.1.4, x"), {"mpi4py.library"},
     "mpi4py loads openmpi 4.1.4, mpirun is 5.0.7"),
    ("other file", lambda f: built(f, "mpi4py").update(mapped=["/opt/mpi/lib/libmpi.so.40"]),
     {"mpi4py.library"}, "/opt/mpi/lib/libmpi.so.40, which is not mpirun's"),
    ("two files", lambda f: built(f, "mpi4py")["mapped"].append("/usr/lib/libmpi.so.12"), {"mpi4py.library"},
     "maps /usr/lib/libmpi.so.40 and /usr/lib/libmpi.so.12"),
    ("none", lambda f: built(f, "mpi4py")["mapped"].clear(), {"mpi4py.library"}, "maps no MPI"),
    ("buffer", lambda f: rank(f, "mpi4py/mpi")["allgather"].pop(), {"collective.allgather"}, "mpi4py/mpi"),
    ("pickled gather", lambda f: rank(f, "mpi4py/mpi")["pickled"].update(allgather=[]), {"mpi4py.pickled"},
     "rank 1 gathered []"),
    ("pickled broadcast", lambda f: rank(f, "mpi4py/mpi")["pickled"].update(broadcast={}),
     {"mpi4py.pickled"}, "rank 1 received {}"),
    ("pickled sum", lambda f: rank(f, "mpi4py/mpi")["pickled"].update(sum=2), {"mpi4py.pickled"},
     "the sum 2"),
    ("other pytorch", lambda f: built(f, "deepspeed")["compiled_against"].update(version="2.5"),
     {"deepspeed.against"}, "compiled against version 2.5, the row has 2.6.0"),
    ("other nccl", lambda f: built(f, "deepspeed")["compiled_against"].update(nccl_version="2.27"),
     {"deepspeed.against"}, "compiled against nccl 2.27"),
    ("of a cpu", lambda f: built(f, "deepspeed")["operators"].pop("fused_adam"), {"deepspeed.operators"},
     "there is no operator fused_adam"),
    ("does not load", lambda f: built(f, "deepspeed")["operators"]["cpu_adam"].update(error="ImportError: x"),
     {"deepspeed.operators"}, "cpu_adam: ImportError: x"),
    ("no list", lambda f: built(f, "deepspeed").update(operators={"error": "exit code 1"}),
     {"deepspeed.operators"}, "lists no operators: exit code 1"),
    ("stage 3 diverges", lambda f: stage(f, "3", after=[9.0, 9.0]), {"deepspeed.zero-agrees"},
     "deepspeed/torchrun: stage 3: ranks 0 and 1 ended with different weights"),
    ("not zero", lambda f: stage(f, "2", optimizer="SGD"), {"deepspeed.zero-agrees"}, "trained with SGD"),
    ("loss", lambda f: stage(f, "2", losses=[1.0, 1.0]), {"deepspeed.zero-learns"}, "from 1 to 1"),
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


def test_mpich_is_known_by_its_own_words() -> None:
    row = replace(ROW, mpi=Mpi.of("mpich", "4.2.1"))
    facts = docker_facts(row)
    built(facts, "mpi4py").update(library=MPICH, mapped=["/usr/lib/x86_64-linux-gnu/libmpich.so.12"])
    assert "mpi4py.library" not in failed(facts, row)


def test_deepspeed_needs_torch_distributed() -> None:
    rejection = check(cell(deepspeed="0.19.8"))
    assert rejection and rejection.rule == "deepspeed"
    assert "trains on torch.distributed" in rejection.reason
    assert rejection.nearest == "deepspeed none instead of 0.19.8"
    assert check(cell(deepspeed="0.19.8", torch_distributed=True)) is None


def test_deepspeed_s_own_requirement_for_cuda_is_locked() -> None:
    assert "nvidia-ml-py" in requirements(cell(deepspeed="0.19.8", torch_distributed=True))
    assert "nvidia-ml-py" not in requirements(cell())


@pytest.mark.parametrize(
    ("layer", "requirement", "module"),
    [("mpi4py", "mpi4py==4.1.2", "mpi4py.MPI"), ("deepspeed", "deepspeed==0.19.8", "deepspeed")],
)
def test_it_is_compiled_for_the_row(layer: str, requirement: str, module: str) -> None:
    (addition,) = BY_NAME[layer].compiled(cell(mpi4py="4.1.2", deepspeed="0.19.8"))
    assert (addition.requirement, addition.modules) == (requirement, (module,))
