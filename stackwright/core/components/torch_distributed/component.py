"""torch.distributed: DDP, FSDP and the collectives of PyTorch, as a layer of a row."""

from __future__ import annotations

from stackwright.core.components.component import Component, Document, Field, Kind
from stackwright.core.components.torch_distributed import checks, facts, rules
from stackwright.core.components.torch_distributed.launcher import torchrun
from stackwright.core.model.row import Stack, Tier


def words(stack: Stack, gpus: int) -> dict[Tier, tuple[str, ...]]:
    return {
        Tier.BUILT: (f"built={checks.NAME}",),
        Tier.COLLECTIVE: tuple(f"collective={run}" for run in checks.RUNS),
        Tier.GPU: (f"gpu={checks.NAME}/{gpus}",) if gpus else (),
    }


TORCH_DISTRIBUTED = Component(
    name=checks.NAME,
    title="torch.distributed",
    kind=Kind.COMMUNICATION,
    package="torch",
    license="BSD-3-Clause",
    source="https://github.com/pytorch/pytorch",
    field=Field(
        description="torch.distributed of the row's PyTorch: DDP and FSDP.", example="true", prefix="ddp",
        cost=2.4, versioned=False,
    ),
    words=words,
    runs=lambda stack: checks.RUNS,
    joins=lambda stack: "torch.distributed",
    examples=lambda stack: (checks.NAME,),
    checks=checks.RULES,
    launchers=(("torchrun", torchrun),),
    on_each_node=frozenset(("torchrun",)),
    rules=rules.RULES,
    lock_rules=rules.LOCK_RULES,
    documents=(
        Document(
            title="torch.distributed on a CPU", headings=("what", "from PyTorch", "source"),
            rows=(("fully_shard trains", facts.FULLY_SHARD, facts.FULLY_SHARD_TRIED),),
        ),
    ),
    facts=(facts.FULLY_SHARD_TRIED,),
)  # fmt: skip
