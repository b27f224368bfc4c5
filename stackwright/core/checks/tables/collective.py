"""Checks of real collectives and of a short training over two ranks, by each launcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stackwright.core.checks.check import Facts, Finding, NotAsked, Rule, cause, finding, take
from stackwright.core.components.table import LAUNCHERS as LAUNCHED
from stackwright.core.components.table import of
from stackwright.core.model.row import Stack, Tier

LAUNCHERS = ("mpi", "gloo")
RANKS = 2
TOLERANCE = 1e-5
"""Relative: float32 over a few additions, in whichever order the ranks add."""
FALL = 0.5
"""The last loss over the first: the model reaches 0.02 in 30 steps; one that does not learn stays at 1."""

Rank = Mapping[str, Any]


def runs(stack: Stack) -> tuple[str, ...]:
    """What the probe ran: "torch/mpi", "torch/gloo", …"""
    return tuple(run for layer in of(stack.communication) for run in layer.runs(stack))


def any_run(stack: Stack) -> bool:
    return bool(runs(stack))


def _ranks(facts: Facts, run: str) -> list[Rank]:
    return sorted(take(facts, "collective", run, "ranks"), key=lambda rank: int(rank["rank"]))


def close(left: Any, right: Any) -> bool:
    """Whether numbers, or nested lists of them, are equal within float32; NaN is equal to nothing."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(close(one, two) for one, two in zip(left, right, strict=True))
    if isinstance(left, list) or isinstance(right, list):
        return False
    return bool(abs(left - right) <= TOLERANCE * max(1.0, abs(left), abs(right)))


def _errors(ranks: Sequence[Rank]) -> list[str]:
    return [f"rank {rank['rank']}: {rank['error']}" for rank in ranks if rank.get("error")]


def each_run(judge: Callable[[Sequence[Rank]], Iterator[str]]) -> Callable[[Stack, Facts], Finding]:
    """Ask one question of every run; without ranks, or after an error, there is no answer: a failure."""

    def over_runs(stack: Stack, facts: Facts) -> Finding:
        problems = []
        for run in runs(stack):
            found = _ranks(facts, run)
            answers = _errors(found) or (list(judge(found)) if found else ["no rank left a result"])
            problems += [f"{run}: {answer}" for answer in answers]
        return finding(problems, f"{', '.join(runs(stack))}")

    return over_runs


def ended(stack: Stack, facts: Facts) -> Finding:
    """A rank that raised says why itself; else what its launcher printed says it."""
    problems = []
    for run in runs(stack):
        document, found = take(facts, "collective", run), _ranks(facts, run)
        errors = _errors(found)
        problems += [f"{run}: {error}" for error in errors]
        if errors:
            continue
        if document.get("error") or document.get("code") != 0:
            error = document.get("error", "no exit code")
            problems.append(f"{run}: {error}: {cause(str(document.get('output', '')))}")
        elif len(found) != RANKS:
            problems.append(f"{run}: {RANKS} ranks were started, and {len(found)} left a result")
    return finding(problems)


def world(stack: Stack, facts: Facts) -> Finding:
    """By all ranks that began, also those that failed later: the wrong world is what most failures are of."""
    problems, answered = [], 0
    for run in runs(stack):
        found = _ranks(facts, run)
        answered += len(found)
        numbers = [rank["rank"] for rank in found]
        if len(found) == RANKS and numbers != list(range(RANKS)):
            problems.append(f"{run}: {RANKS} ranks were started, and these answered: {numbers}")
        problems += [
            f"{run}: rank {rank['rank']} sees {rank['size']} ranks, {rank['local_size']} of them on its node"
            for rank in found
            if rank["size"] != RANKS or rank["local_size"] != RANKS
        ]
    if not answered:
        raise NotAsked("no rank left a result")
    return finding(problems, f"{RANKS} ranks in each of {len(runs(stack))} runs")


def controller(stack: Stack, facts: Facts) -> Finding:
    problems = []
    for run in runs(stack):
        launcher = run.rpartition("/")[2]
        for rank in _ranks(facts, run):
            on = [name for name in LAUNCHERS if rank[f"{name}_enabled"]]
            if on != [launcher]:
                problems.append(f"{run}: rank {rank['rank']} runs with {' and '.join(on) or 'no controller'}")
        if not _ranks(facts, run):
            problems.append(f"{run}: no rank left a result")
    return finding(problems)


def allreduce(ranks: Sequence[Rank]) -> Iterator[str]:
    columns = list(zip(*(rank["given"] for rank in ranks), strict=True))
    total = [sum(column) for column in columns]
    mean = [value / len(ranks) for value in total]
    if len(ranks) > 1 and any(len(set(column)) == 1 for column in columns):
        yield "the ranks gave equal values, so that their sum shows nothing"
    for rank in ranks:
        for name, wanted in (("sum", total), ("average", mean)):
            if not close(rank[name], wanted):
                yield f"rank {rank['rank']} has the {name} {rank[name]}, and {wanted} is right"


def broadcast(ranks: Sequence[Rank]) -> Iterator[str]:
    values = {rank["rank"]: rank["given"] for rank in ranks}
    for rank in ranks:
        wanted = values.get(rank["root"])
        if wanted is None or not close(rank["broadcast"], wanted):
            yield f"rank {rank['rank']} received {rank['broadcast']}, rank {rank['root']} sent {wanted}"


def allgather(ranks: Sequence[Rank]) -> Iterator[str]:
    wanted = [row for rank in ranks for row in rank["rows"]]
    for rank in ranks:
        if not close(rank["allgather"], wanted):
            yield f"rank {rank['rank']} gathered {rank['allgather']}, and {wanted} is right"


def agrees(ranks: Sequence[Rank]) -> Iterator[str]:
    """Equal weights say something only if weights and data were different before."""
    first = ranks[0]
    for rank in ranks[1:]:
        pair = f"ranks {first['rank']} and {rank['rank']}"
        if rank["data"] == first["data"] or rank["training"]["before"] == first["training"]["before"]:
            yield f"{pair} began with the same data or weights, so that equal weights show nothing"
        if not close(rank["training"]["after"], first["training"]["after"]):
            yield f"{pair} ended with different weights"
    if first["training"]["before"] == first["training"]["after"]:
        yield "the weights did not change"
    if len(ranks) < RANKS:
        yield "there is no second rank to agree with"


def learns(ranks: Sequence[Rank]) -> Iterator[str]:
    for rank in ranks:
        losses = rank["training"]["losses"]
        if len(losses) < 2 or not losses[-1] < FALL * losses[0]:
            shown = f"from {losses[0]:.3g} to {losses[-1]:.3g}" if losses else "nowhere"
            yield f"rank {rank['rank']}: the loss went {shown}"


C = Tier.COLLECTIVE
READY = ("link.import", "declared.mpi")
OF_RUNS = (
    Rule(id="collective.run", tier=C, judge=ended, needs=(*READY, "collective.world"),
         why=f"Two ranks start, work and end, by {' and by '.join(('mpirun', *LAUNCHED))} with Gloo."),
    Rule(id="collective.world", tier=C, judge=world, needs=READY,
         why="Both ranks belong to one world; a wrong PMI starts N worlds of one rank and says nothing."),
    Rule(id="collective.controller", tier=C, judge=controller, needs=("collective.run",),
         why="The run used the controller that it was meant to prove, and not the other one."),
    Rule(id="collective.allreduce", tier=C, judge=each_run(allreduce), needs=("collective.run",),
         why="Sum and average over ranks are right: gradients are made of them."),
    Rule(id="collective.broadcast", tier=C, judge=each_run(broadcast), needs=("collective.run",),
         why="A broadcast from rank 1 arrives everywhere: the first weights travel so."),
    Rule(id="collective.allgather", tier=C, judge=each_run(allgather), needs=("collective.run",),
         why="Parts of different length are gathered in the order of the ranks."),
    Rule(id="collective.training-agrees", tier=C, judge=each_run(agrees), needs=("collective.run",),
         why="After training on different data both ranks hold the same weights."),
    Rule(id="collective.training-learns", tier=C, judge=each_run(learns), needs=("collective.run",),
         why="The loss falls, so the averaged gradients arrive in the optimizer."),
)  # fmt: skip

RULES = tuple(replace(rule, applies=any_run) for rule in OF_RUNS)
