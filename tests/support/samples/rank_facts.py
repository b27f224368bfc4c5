"""What the ranks of a collective leave in an image that is right, by layer."""

from __future__ import annotations

from typing import Any


def rank(number: int, launcher: str) -> dict[str, Any]:
    """What rank 0 or 1 of two leaves."""
    return {
        "rank": number, "size": 2, "local_rank": number, "local_size": 2, "root": 1,
        "mpi_enabled": launcher == "mpi", "gloo_enabled": launcher == "gloo",
        "given": [number + 1.0, 10.0 * (number + 1)], "sum": [3.0, 30.0], "average": [1.5, 15.0],
        "broadcast": [2.0, 20.0], "rows": [[float(number), float(row)] for row in range(number + 2)],
        "allgather": [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]],
        "data": [0.3 + number, -0.4], "error": None,
        "training": {"before": [0.1 * number, 0.2], "after": [0.5, -0.8], "losses": [4.7, 0.4, 0.02]},
    }  # fmt: skip


def own_rank(number: int, launcher: str) -> dict[str, Any]:
    """What a rank of torch.distributed leaves: it shards models, too, and knows no controller."""
    found = {**rank(number, launcher), "launched_by": launcher}
    del found["mpi_enabled"], found["gloo_enabled"]
    ways = {way: {**found["training"], "held": 1, "error": None} for way in ("fsdp", "fully_shard")}
    return {**found, "sharded": ways}


def plain_rank(number: int, launcher: str) -> dict[str, Any]:
    """What a rank of mpi4py leaves, which trains nothing."""
    found = own_rank(number, launcher)
    del found["training"], found["sharded"], found["data"]
    sent = {"of": 1, "rows": rank(1, launcher)["rows"]}
    return {**found, "pickled": {"broadcast": sent, "allgather": [*found["allgather"]], "sum": 3}}


def zero_rank(number: int, launcher: str) -> dict[str, Any]:
    """What a rank of DeepSpeed leaves."""
    found = own_rank(number, launcher)
    del found["sharded"]
    stages = {"1": "", "2": "", "3": "_Stage3"}
    ways = {
        stage: {**found["training"], "optimizer": f"DeepSpeedZeroOptimizer{tail}"}
        for stage, tail in stages.items()
    }
    return {**found, "zero": ways}


def jax_rank(number: int, launcher: str) -> dict[str, Any]:
    """What a rank of JAX leaves."""
    found = own_rank(number, launcher)
    del found["sharded"]
    return {**found, "devices": 2}


def collective() -> dict[str, Any]:
    of = {
        "torch": (rank, ("mpi", "gloo")), "torch_distributed": (own_rank, ("torchrun", "mpi", "srun")),
        "mpi4py": (plain_rank, ("mpi",)), "deepspeed": (zero_rank, ("mpi", "torchrun")),
        "jax": (jax_rank, ("mpi", "srun")),
    }  # fmt: skip
    return {
        f"{name}/{launcher}": {"code": 0, "asked": 2, "ranks": [make(0, launcher), make(1, launcher)]}
        for name, (make, launchers) in of.items()
        for launcher in launchers
    }
