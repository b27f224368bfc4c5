"""Checks of what torch.distributed was compiled with, and of models that are sharded over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, numbers, take
from stackwright.core.checks.ranks import Rank, agrees, learns
from stackwright.core.components import torch
from stackwright.core.components.torch_distributed.facts import FULLY_SHARD, LAUNCHERS, NEEDED, WITHOUT_GPU
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.model.row import Stack, Tier

NAME = "torch_distributed"
RUNS = tuple(f"{NAME}/{launcher}" for launcher in LAUNCHERS)


def _built(facts: Facts, *path: str) -> Any:
    return take(facts, "built", NAME, *path)


def backends(stack: Stack, facts: Facts) -> Finding:
    """What it says itself, and what PyTorch notes of its build: two answers that have to be one."""
    available: Mapping[str, bool | None] = _built(facts, "available")
    noted: Mapping[str, bool] = _built(facts, "configured")
    problems = [f"it has no {name}" for name in NEEDED if not available.get(name)]
    problems += [
        f"it {'has' if available.get(name) else 'lacks'} {name}, and PyTorch was built "
        f"{'with' if built else 'without'} it"
        for name, built in noted.items()
        if bool(available.get(name)) != built
    ]
    has, lacks = ([name for name, there in available.items() if bool(there) is yes] for yes in (True, False))
    return finding(problems, f"with {listed(has)}; without {listed(lacks) or 'none of the known ones'}")


def compiled_nccl(stack: Stack, facts: Facts) -> Finding:
    """NCCL keeps its ABI: a row's own may be newer than the one that PyTorch was compiled with, not older."""
    compiled = tuple(int(part) for part in _built(facts, "nccl"))[:3]
    shown, row = ".".join(map(str, compiled)), numbers(stack.nccl)
    entry = torch.WHEELS.on(stack.platform.name).of(dict(stack.frameworks).get("torch", ""))
    wheel = numbers(entry.nccl) if entry and entry.nccl else row
    problems = []
    if compiled[: len(wheel)] != wheel[:3]:
        pinned = ".".join(map(str, wheel))
        problems.append(f"PyTorch was compiled with NCCL {shown}, and its wheel requires {pinned}")
    if compiled[:1] != row[:1] or compiled > row[:3]:
        problems.append(f"PyTorch was compiled with NCCL {shown}, and the row's is {stack.nccl}")
    return finding(problems, f"compiled with {shown}, loads {stack.nccl}")


def nccl_backend(stack: Stack, facts: Facts) -> Finding:
    """Without a GPU the backend has to refuse for that reason: any other says that it is not there."""
    said = _built(facts, "nccl_without_gpu")
    if said is None:
        return finding(["its NCCL backend started without a GPU"])
    return finding([] if WITHOUT_GPU in str(said) else [f"its NCCL backend says: {said}"], str(said))


def asked(stack: Stack) -> tuple[str, ...]:
    """The ways to shard that this release of PyTorch has on a CPU."""
    version = dict(stack.communication)[NAME]
    newer = as_numbers(version.partition("+")[0]) >= as_numbers(FULLY_SHARD)
    return ("fsdp", "fully_shard") if newer else ("fsdp",)


def _sharded(judge: Callable[[Sequence[Rank]], Iterator[str]]) -> Callable[[Stack, Facts], Finding]:
    """One question of each way to shard, in each run."""

    def over_runs(stack: Stack, facts: Facts) -> Finding:
        problems = []
        for run in RUNS:
            ranks = sorted(take(facts, "collective", run, "ranks"), key=lambda rank: int(rank["rank"]))
            answers = (answer for way in asked(stack) for answer in _of_way(judge, way, ranks))
            problems += [f"{run}: {answer}" for answer in answers]
        note = "" if "fully_shard" in asked(stack) else "; fully_shard has no CPU in this release of PyTorch"
        return finding(problems, f"{listed(asked(stack))} in {len(RUNS)} runs{note}")

    return over_runs


def _of_way(
    judge: Callable[[Sequence[Rank]], Iterator[str]], way: str, ranks: Sequence[Rank]
) -> Iterator[str]:
    if not ranks:
        yield "no rank left a result"
        return
    found = [rank["sharded"][way] for rank in ranks]
    errors = [f"{way}: {training['error']}" for training in found if training["error"]]
    if errors:
        yield errors[0]
        return
    trained = [{**rank, "training": training} for rank, training in zip(ranks, found, strict=True)]
    yield from (f"{way}: {problem}" for problem in judge(trained))


def divided(ranks: Sequence[Rank]) -> Iterator[str]:
    """Each rank holds a part of the weights: a model that is whole on each was not sharded."""
    yield from agrees(ranks)
    for rank in ranks:
        held, whole = rank["training"]["held"], len(rank["training"]["after"])
        if not 0 < held < whole:
            yield f"rank {rank['rank']} holds {held} of {whole} weights"


B, C = Tier.BUILT, Tier.COLLECTIVE
IMPORTED = ("link.import", "link.origin")
RULES = (
    Rule(id="distributed.backends", tier=B, needs=IMPORTED, judge=backends,
         why="A training over GPUs needs the NCCL backend, one without them Gloo; MPI and UCC are noted."),
    Rule(id="distributed.nccl", tier=B, needs=IMPORTED, judge=compiled_nccl,
         why="The NCCL that PyTorch was compiled with is its wheel's own, and not newer than the row's."),
    Rule(id="distributed.nccl-backend", tier=B, needs=IMPORTED, judge=nccl_backend,
         why="The NCCL backend is compiled in: without a GPU it refuses, and says that this is the reason."),
    Rule(id="distributed.sharded-agrees", tier=C, judge=_sharded(divided), needs=("collective.run",),
         why="FSDP and fully_shard leave each rank a part of the weights, and all ranks gather the same."),
    Rule(id="distributed.sharded-learns", tier=C, judge=_sharded(learns), needs=("collective.run",),
         why="The loss of a sharded model falls: gradients are scattered to the parts that they are for."),
)  # fmt: skip
