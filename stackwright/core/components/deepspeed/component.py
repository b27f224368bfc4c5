"""DeepSpeed: ZeRO and its operators, on torch.distributed."""

from __future__ import annotations

from stackwright.core.components.component import Component, Field, Kind
from stackwright.core.components.deepspeed import checks, rules
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell, Stack, Tier

ENVIRONMENT = (("DS_ACCELERATOR", "cuda"), ("DS_BUILD_OPS", "0"))
"""A build sees no GPU, and would make what is for a CPU. Operators are compiled when they are first used, by
an image of the flavour devel."""


ASKED_FOR_CUDA = ("nvidia-ml-py",)
"""What its setup.py requires when it is built for CUDA, and the metadata in its source does not name."""


def words(stack: Stack, gpus: int) -> dict[Tier, tuple[str, ...]]:
    return {
        Tier.BUILT: (f"built={checks.NAME}",),
        Tier.COLLECTIVE: tuple(f"collective={run}" for run in checks.RUNS),
    }


def compiled(cell: Cell) -> tuple[Addition, ...]:
    """The index has its source alone."""
    wanted = f"deepspeed=={cell.value('deepspeed')}"
    return (Addition(requirement=wanted, modules=("deepspeed",), environment=ENVIRONMENT),)


DEEPSPEED = Component(
    name=checks.NAME,
    title="DeepSpeed",
    kind=Kind.COMMUNICATION,
    package="deepspeed",
    license="Apache-2.0",
    source="https://github.com/deepspeedai/DeepSpeed",
    field=Field(
        description="DeepSpeed, on torch.distributed.", example="0.19.8", prefix="deepspeed", cost=2.2,
        releases=("0.19.8",),
    ),
    indexed=(("deepspeed", "0.10"),),
    requires=lambda cell: ASKED_FOR_CUDA,
    imports=lambda stack: ("deepspeed",),
    words=words,
    runs=lambda stack: checks.RUNS,
    joins=lambda stack: "deepspeed",
    checks=checks.RULES,
    compiled=compiled,
    rules=rules.RULES,
)  # fmt: skip
