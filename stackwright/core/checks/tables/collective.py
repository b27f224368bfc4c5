"""Checks of real collectives and of a short training over two ranks, by each launcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from stackwright.core.checks.check import Facts, Finding, NotAsked, Rule, cause, finding, take
from stackwright.core.checks.ranks import (
    RANKS,
    Rank,
    agrees,
    allgather,
    allreduce,
    broadcast,
    errors,
    learns,
)
from stackwright.core.components.table import LAUNCHERS as LAUNCHED
from stackwright.core.components.table import of
from stackwright.core.model.row import Stack, Tier

LAUNCHERS = ("mpi", "gloo")


def runs(stack: Stack) -> tuple[str, ...]:
    """What the probe ran: "torch/mpi", "torch/gloo", …"""
    return tuple(run for layer in of(stack.communication) for run in layer.runs(stack))


def trainings(stack: Stack) -> tuple[str, ...]:
    """Those runs that train a model."""
    return tuple(run for layer in of(stack.communication) if layer.trains for run in layer.runs(stack))


def any_training(stack: Stack) -> bool:
    return bool(trainings(stack))


def any_run(stack: Stack) -> bool:
    return bool(runs(stack))


def _ranks(facts: Facts, run: str) -> list[Rank]:
    return sorted(take(facts, "collective", run, "ranks"), key=lambda rank: int(rank["rank"]))


def each_run(
    judge: Callable[[Sequence[Rank]], Iterator[str]],
    asked: Callable[[Stack], tuple[str, ...]] = runs,
) -> Callable[[Stack, Facts], Finding]:
    """Ask one question of every run; without ranks, or after an error, there is no answer: a failure."""

    def over_runs(stack: Stack, facts: Facts) -> Finding:
        problems = []
        for run in asked(stack):
            found = _ranks(facts, run)
            answers = errors(found) or (list(judge(found)) if found else ["no rank left a result"])
            problems += [f"{run}: {answer}" for answer in answers]
        return finding(problems, f"{', '.join(asked(stack))}")

    return over_runs


def ended(stack: Stack, facts: Facts) -> Finding:
    """A rank that raised says why itself; else what its launcher printed says it."""
    problems = []
    for run in runs(stack):
        document, found = take(facts, "collective", run), _ranks(facts, run)
        raised = errors(found)
        problems += [f"{run}: {error}" for error in raised]
        if raised:
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


def _on(rank: Rank) -> list[str]:
    """What connected a rank, by its own answer: a controller, or the launcher whose variables it found."""
    if "launched_by" in rank:
        return [str(rank["launched_by"])]
    return [name for name in LAUNCHERS if rank[f"{name}_enabled"]]


def controller(stack: Stack, facts: Facts) -> Finding:
    problems = []
    for run in runs(stack):
        launcher = run.rpartition("/")[2]
        for rank in _ranks(facts, run):
            on = _on(rank)
            if on != [launcher]:
                problems.append(f"{run}: rank {rank['rank']} runs with {' and '.join(on) or 'no controller'}")
        if not _ranks(facts, run):
            problems.append(f"{run}: no rank left a result")
    return finding(problems)


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
    Rule(id="collective.training-agrees", tier=C, judge=each_run(agrees, trainings),
         needs=("collective.run",),
         why="After training on different data both ranks hold the same weights."),
    Rule(id="collective.training-learns", tier=C, judge=each_run(learns, trainings),
         needs=("collective.run",),
         why="The loss falls, so the averaged gradients arrive in the optimizer."),
)  # fmt: skip

RULES = tuple(replace(rule, applies=any_training if "training" in rule.id else any_run) for rule in OF_RUNS)
