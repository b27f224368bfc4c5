"""Checks of DeepSpeed: what it was compiled against, its operators, and ZeRO over two ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, numbers, take
from stackwright.core.checks.ranks import Rank, agrees, learns
from stackwright.core.model.row import Stack, Tier

NAME = "deepspeed"
RUNS = (f"{NAME}/mpi", f"{NAME}/torchrun")
STAGES = {
    "1": "DeepSpeedZeroOptimizer", "2": "DeepSpeedZeroOptimizer", "3": "DeepSpeedZeroOptimizer_Stage3",
}  # fmt: skip
"""Of ZeRO: what is divided over ranks, and the optimizer that does it."""
EXPECTED = ("cpu_adam", "fused_adam", "transformer_inference")
"""Operators that every release has; without them the list is of another accelerator than CUDA."""


def against(stack: Stack, facts: Facts) -> Finding:
    """It notes major and minor release of what its build found."""
    noted: Mapping[str, str] = take(facts, "built", NAME, "compiled_against")
    row = {"version": dict(stack.frameworks).get("torch", ""), "nccl_version": stack.nccl}
    problems = [
        f"compiled against {name.removesuffix('_version')} {noted.get(name)}, the row has {wanted}"
        for name, wanted in row.items()
        if numbers(str(noted.get(name)))[:2] != numbers(wanted)[:2]
    ]
    return finding(problems, f"PyTorch {noted.get('version')}, CUDA {noted.get('cuda_version')}")


def operators(stack: Stack, facts: Facts) -> Finding:
    found: Mapping[str, Any] = take(facts, "built", NAME, "operators")
    if found.get("error"):
        return finding([f"DeepSpeed lists no operators: {found['error']}"])
    problems = [f"there is no operator {name}" for name in EXPECTED if name not in found]
    problems += [f"{name}: {operator['error']}" for name, operator in found.items() if operator["error"]]
    compiled = [name for name, operator in found.items() if operator["compiled"]]
    seen = listed(compiled) or "none, but when they are first used"
    return finding(problems, f"{len(found)} operators; compiled: {seen}")


def _stages(judge: Callable[[Sequence[Rank]], Iterator[str]]) -> Callable[[Stack, Facts], Finding]:
    """One question of each stage, in each run."""

    def over_runs(stack: Stack, facts: Facts) -> Finding:
        problems = []
        for run in RUNS:
            ranks = sorted(take(facts, "collective", run, "ranks"), key=lambda rank: int(rank["rank"]))
            if not ranks:
                problems.append(f"{run}: no rank left a result")
            for stage in STAGES if ranks else ():
                trained = [{**rank, "stage": stage, "training": rank["zero"][stage]} for rank in ranks]
                problems += [f"{run}: stage {stage}: {answer}" for answer in judge(trained)]
        return finding(problems, f"stages {', '.join(STAGES)} in {len(RUNS)} runs")

    return over_runs


def divided(ranks: Sequence[Rank]) -> Iterator[str]:
    yield from agrees(ranks)
    for rank in ranks:
        used, wanted = rank["training"]["optimizer"], STAGES[rank["stage"]]
        if used != wanted:
            yield f"rank {rank['rank']} trained with {used}, and not with {wanted}"


IMPORTED = ("link.import", "link.origin")
RULES = (
    Rule(id="deepspeed.against", tier=Tier.BUILT, judge=against, needs=IMPORTED,
         why="DeepSpeed compiles its operators only for the PyTorch that it was built with."),
    Rule(id="deepspeed.operators", tier=Tier.BUILT, judge=operators, needs=IMPORTED,
         why="Its operators for GPUs are there, and those that were compiled with the image load."),
    Rule(id="deepspeed.zero-agrees", tier=Tier.COLLECTIVE, judge=_stages(divided), needs=("collective.run",),
         why="ZeRO's stages 1, 2 and 3 train on different data to the same weights on all ranks."),
    Rule(id="deepspeed.zero-learns", tier=Tier.COLLECTIVE, judge=_stages(learns), needs=("collective.run",),
         why="The loss falls in each stage of ZeRO."),
)  # fmt: skip
