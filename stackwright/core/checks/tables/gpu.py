"""Checks that need a GPU: an NCCL allreduce on the device, kernels for it, a driver that is new enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, cause, finding, listed, numbers, take
from stackwright.core.checks.ranks import close
from stackwright.core.components.table import named
from stackwright.core.model.row import Stack, Tier


def _asked(stack: Stack) -> tuple[str, ...]:
    return named(stack, "gpu", Tier.GPU)


def _any(stack: Stack) -> bool:
    return bool(_asked(stack))


def _ranks(stack: Stack, facts: Facts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in _asked(stack):
        for rank in take(facts, "gpu", name, "ranks"):
            yield name, rank


def ended(stack: Stack, facts: Facts) -> Finding:
    problems = []
    for name in _asked(stack):
        document = take(facts, "gpu", name)
        answered = len(document.get("ranks", ()))
        if document.get("error") or document.get("code") != 0 or answered != document.get("asked"):
            error = document.get("error", f"{answered} ranks answered")
            problems.append(f"{name}: {error}: {cause(str(document.get('output', '')))}")
    return finding(problems)


def allreduce(stack: Stack, facts: Facts) -> Finding:
    problems = []
    for name in _asked(stack):
        ranks = take(facts, "gpu", name, "ranks")
        total = [sum(column) for column in zip(*(rank["given"] for rank in ranks), strict=True)]
        if not ranks:
            problems.append(f"{name}: no rank left a result")
        for rank in ranks:
            if rank["device"] != "cuda":
                problems.append(f"{name}: rank {rank['rank']} has its result on {rank['device']}")
            if rank["size"] != len(ranks) or not close(rank["sum"], total):
                problems.append(f"{name}: rank {rank['rank']} has the sum {rank['sum']} and not {total}")
    return finding(problems)


def kernels(stack: Stack, facts: Facts) -> Finding:
    """SASS runs on a device of the same major and of the same or a later minor capability."""
    problems, seen = [], set()
    row = [numbers(arch) for arch in stack.gpu_arch]
    for name, rank in _ranks(stack, facts):
        seen.update(rank["capabilities"])
        for text in rank["capabilities"]:
            device = numbers(text)
            if device and not any(arch[0] == device[0] and arch <= device for arch in row):
                problems.append(f"{name}: the row's kernels ({listed(stack.gpu_arch)}) do not run on {text}")
    if not seen:
        problems.append("no framework sees a GPU")
    return finding(problems, listed(sorted(seen)))


def driver(stack: Stack, facts: Facts) -> Finding:
    """Within one CUDA major an older driver will do (minor-version compatibility)."""
    problems, seen = [], set()
    for name, rank in _ranks(stack, facts):
        offered = rank["driver_cuda"] // 1000
        seen.add(rank["driver"])
        if offered < numbers(stack.cuda_runtime)[0]:
            problems.append(f"{name}: the driver offers CUDA {offered}, the image is of {stack.cuda_runtime}")
    return finding(problems, listed(sorted(seen)))


G = Tier.GPU
RULES = (
    Rule(id="gpu.run", tier=G, judge=ended, applies=_any, needs=("link.import",),
         why="One rank per GPU starts, works and ends."),
    Rule(id="gpu.allreduce", tier=G, judge=allreduce, applies=_any, needs=("gpu.run",),
         why="NCCL adds up on the device, and the sum is right."),
    Rule(id="gpu.kernels", tier=G, judge=kernels, applies=_any, needs=("gpu.run",),
         why="The image has kernels for the GPU that it runs on."),
    Rule(id="gpu.driver", tier=G, judge=driver, applies=_any, needs=("gpu.run",),
         why="The driver is new enough for the image's CUDA."),
)  # fmt: skip
