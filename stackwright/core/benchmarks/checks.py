"""Checks of nccl-tests, which answer without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.benchmarks.nccl_tests import FOLDER, NAME, PROGRAMS
from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, take
from stackwright.core.checks.tables.link import DRIVER, MPI_LIBRARY, OF_DISTRIBUTION
from stackwright.core.components.table import imported
from stackwright.core.model.row import Stack, Tier


def _has_tests(stack: Stack) -> bool:
    return bool(stack.nccl_tests)


def _programs(facts: Facts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in PROGRAMS:
        yield name, take(facts, "benchmarks", name)


def there(stack: Stack, facts: Facts) -> Finding:
    problems = []
    for name, found in _programs(facts):
        if found["path"] != f"{FOLDER}/{name}":
            problems.append(f"{name} is {found['path'] or 'not there'}, and not {FOLDER}/{name}")
            continue
        missing = [library for library in found["unresolved"] if library != DRIVER]
        problems += [f"{name} needs {listed(missing)}"] if missing else []
    return finding(problems, f"{listed(PROGRAMS)} in {FOLDER}")


def _of_row(stack: Stack, facts: Facts) -> set[str]:
    """Return the NCCL that the frameworks and layers of the row map."""
    modules = [take(facts, "link", "modules", name) for name in imported(stack)]
    return {path for module in modules for path in module.get("mapped", {}).get("libnccl", ())}


def libraries(stack: Stack, facts: Facts) -> Finding:
    """One NCCL, which is the frameworks' own, and one MPI, which is mpirun's."""
    own, problems, seen = _of_row(stack, facts), [], set[str]()
    wanted = MPI_LIBRARY[stack.mpi.flavour]
    for name, found in _programs(facts):
        loads = found["loads"]
        nccl, mpi = loads.get("libnccl", []), [path for flavour in MPI for path in loads.get(flavour, ())]
        if len(nccl) != 1 or nccl[0] not in own:
            problems.append(
                f"{name} loads {listed(nccl) or 'no libnccl'}, the frameworks {listed(sorted(own))}"
            )
        if mpi != loads.get(wanted, []) or len(mpi) != 1 or not mpi[0].startswith(OF_DISTRIBUTION):
            problems.append(f"{name} loads {listed(mpi) or 'no MPI'}, and not {wanted} of {OF_DISTRIBUTION}")
        problems += [f"{name} looks for libraries in {found['runpath']}"] if found["runpath"] else []
        seen.update((*nccl, *mpi))
    return finding(problems, listed(sorted(seen)))


def kernels(stack: Stack, facts: Facts) -> Finding:
    problems, seen = [], set[str]()
    for name, found in _programs(facts):
        has = found["kernels"]["sm"]
        missing = [arch for arch in stack.gpu_arch if arch not in has]
        seen.update(has)
        if missing:
            problems.append(f"{name} has no kernels for {listed(missing)}, only for {listed(has) or 'none'}")
    return finding(problems, listed(sorted(seen)))


def release(stack: Stack, facts: Facts) -> Finding:
    """Each program explains itself without a GPU and before MPI starts."""
    problems = []
    for name, found in _programs(facts):
        if found["usage"] != name:
            problems.append(f"{name} -h: {found['error'] or found['usage']}")
        elif stack.nccl_tests not in found["releases"]:
            other = listed(found["releases"]) or "no release"
            problems.append(f"{name} is of {NAME} {other}, the row has {stack.nccl_tests}")
    return finding(problems, f"{NAME} {stack.nccl_tests}")


MPI = tuple(MPI_LIBRARY.values())
L = Tier.LINK
RULES = (
    Rule(id="link.nccl-tests", tier=L, judge=there, applies=_has_tests, needs=("link.unresolved",),
         why="A program that is not there, or does not load, measures nothing on the new cluster."),
    Rule(id="link.nccl-tests-libraries", tier=L, judge=libraries, applies=_has_tests,
         needs=("link.nccl-tests", "link.import", "link.one-nccl"),
         why="What is measured has to be the NCCL that trains, and ranks of another MPI are each alone."),
    Rule(id="link.nccl-tests-gpu-arch", tier=L, judge=kernels, applies=_has_tests, needs=("link.nccl-tests",),
         why="Without kernels for a GPU of the row its first collective ends with an error."),
    Rule(id="link.nccl-tests-release", tier=L, judge=release, applies=_has_tests, needs=("link.nccl-tests",),
         why="Each program starts, and is of the release that the row declares."),
)  # fmt: skip
