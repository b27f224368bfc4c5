"""Checks of all communication layers in one process: one file of each library, and sums that agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, cause, finding, listed, take
from stackwright.core.checks.ranks import RANKS, close, errors
from stackwright.core.components.table import joined
from stackwright.core.model.row import Stack, Tier

SHARED = ("libnccl", "libcudart", "libcudnn", "libmpi", "libmpich")
"""Libraries of which a process may map one file each."""


def _orders(stack: Stack, facts: Facts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each order that was tried, as text. One with other modules than the row's proves nothing."""
    for run in take(facts, "together", "orders"):
        if sorted(run["order"]) == sorted(joined(stack)):
            yield ", ".join(run["order"]), run


def wanted(modules: tuple[str, ...]) -> set[tuple[str, ...]]:
    """All rotations of the list and of its reverse: of three layers, every order."""
    ways = (modules, modules[::-1])
    return {way[start:] + way[:start] for way in ways for start in range(len(modules))}


def ended(stack: Stack, facts: Facts) -> Finding:
    """Every layer has to come first, and each before and after each other one."""
    modules, problems = joined(stack), []
    tried = [tuple(run["order"]) for _, run in _orders(stack, facts)]
    missing = sorted(wanted(modules) - set(tried))
    problems += [f"the order {', '.join(order)} was not tried" for order in missing]
    for order, run in _orders(stack, facts):
        raised = errors(run["ranks"])
        problems += [f"{order}: {error}" for error in raised]
        if not raised and run["code"] != 0:
            problems.append(f"{order}: exit code {run['code']}: {cause(str(run.get('output', '')))}")
        elif not raised and [rank["size"] for rank in run["ranks"]] != [RANKS] * RANKS:
            problems.append(f"{order}: {RANKS} ranks were started, and {len(run['ranks'])} left a result")
    return finding(problems, f"{len(tried)} orders of {listed(modules)}")


def one_file(stack: Stack, facts: Facts) -> Finding:
    problems, seen = [], set()
    for order, run in _orders(stack, facts):
        for rank in run["ranks"]:
            for library in SHARED:
                files = rank["mapped"].get(library, [])
                seen.update(files)
                if len(files) > 1:
                    problems.append(f"{order}: rank {rank['rank']} maps {' and '.join(files)}")
            if {"libmpi", "libmpich"} <= set(rank["mapped"]):
                problems.append(f"{order}: rank {rank['rank']} maps the libraries of two MPIs")
    names = sorted({path.rpartition("/")[2] for path in seen})
    return finding(problems or ([] if seen else ["no process maps any of them"]), listed(names))


def agree(stack: Stack, facts: Facts) -> Finding:
    """Each layer's sum is the sum of what the ranks gave, so that all layers agree."""
    problems = []
    for order, run in _orders(stack, facts):
        total = [sum(column) for column in zip(*(rank["given"] for rank in run["ranks"]), strict=True)]
        for rank in run["ranks"]:
            for module in joined(stack):
                found = rank["sums"].get(module)
                if found is None or not close(found, total):
                    problems.append(f"{order}: {module} sums to {found} on rank {rank['rank']}, not {total}")
    return finding(problems, listed(joined(stack)))


def several(stack: Stack) -> bool:
    return bool(joined(stack))


C = Tier.COLLECTIVE
RULES = (
    Rule(id="together.run", tier=C, judge=ended, applies=several, needs=("link.import", "declared.mpi"),
         why="All layers of the row work in one process, in any order of import."),
    Rule(id="together.one-library", tier=C, judge=one_file, applies=several, needs=("together.run",),
         why="A process with all layers maps one NCCL, one CUDA runtime, one cuDNN and one MPI."),
    Rule(id="together.agree", tier=C, judge=agree, applies=several, needs=("together.run",),
         why="All layers sum the same numbers to the same result."),
)  # fmt: skip
