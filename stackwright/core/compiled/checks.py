"""Checks of what is compiled for the row: each extension is asked what it was compiled with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, numbers, same_release, take
from stackwright.core.checks.tables.link import MPI_LIBRARY, OF_DISTRIBUTION
from stackwright.core.components.shared import sources
from stackwright.core.model.added.distributions import Compiled
from stackwright.core.model.row import Stack, Tier

MPI_FAMILY = {library: (library, f"{library}_cxx", "libmpicxx") for library in MPI_LIBRARY.values()}
"""Libraries of an MPI: the one, and those for C++."""


def _note(compiled: Compiled, facts: Facts) -> Mapping[str, Any]:
    """What the build wrote into the wheel. MissingFact where it is not there."""
    found = take(facts, "compiled", compiled.name)
    return dict(take(found, "note") or {})


def _extensions(compiled: Compiled, facts: Facts) -> dict[str, Mapping[str, Any]]:
    return dict(take(facts, "compiled", compiled.name, "extensions"))


def _all(stack: Stack, facts: Facts) -> Iterator[tuple[Compiled, str, Mapping[str, Any]]]:
    for compiled in stack.compiled:
        for path, found in _extensions(compiled, facts).items():
            yield compiled, path, found


def source(stack: Stack, facts: Facts) -> Finding:
    problems, seen = [], []
    for compiled in stack.compiled:
        note = _note(compiled, facts)
        made, asked = (note.get("source") or {}).get("sha256"), note.get("environment")
        seen.append(f"{compiled.name} {compiled.version}")
        if made != compiled.sha256:
            problems.append(f"{compiled.name} was compiled from {made}, the lock has {compiled.sha256}")
        if asked != dict(compiled.environment):
            problems.append(
                f"{compiled.name} was compiled with {asked}, the row has {dict(compiled.environment)}"
            )
    return finding(problems, listed(seen))


def compiler(stack: Stack, facts: Facts) -> Finding:
    """gcc writes its release into each file that it makes; the wheel's note is of the program itself."""
    problems, seen = [], set()
    for compiled in stack.compiled:
        noted = _note(compiled, facts).get("gcc")
        if noted is None or not same_release(stack.gcc, noted):
            problems.append(f"{compiled.name} notes gcc {noted}, the row's is {stack.gcc}")
    for _, path, found in _all(stack, facts):
        seen.update(found["gcc"])
        if not any(same_release(stack.gcc, release) for release in found["gcc"]):
            problems.append(f"{path} was compiled by gcc {listed(found['gcc']) or 'of no name'}")
    return finding(problems, f"gcc {listed(sorted(seen))}")


def against(stack: Stack, facts: Facts) -> Finding:
    """All that was there while it was compiled, and is in the image, is the same release."""
    problems: list[str] = []
    locked = {package.name: package.version for package in stack.lock.packages}
    for compiled in stack.compiled:
        note = _note(compiled, facts)
        there = note.get("packages") or {}
        python = str(note.get("python"))
        problems += [
            f"{compiled.name} was compiled against {name} {there.get(name, 'of none')}, "
            f"the image has {version}"
            for name, version in locked.items()
            if (name in there or name in compiled.needs) and there.get(name) != version
        ]
        if numbers(python)[:2] != numbers(stack.python)[:2]:
            problems.append(f"{compiled.name} was compiled for Python {python}")
    return finding(problems, listed(compiled.name for compiled in stack.compiled))


def gpu_code(stack: Stack, facts: Facts) -> Finding:
    """A build that finds no GPU may leave its CUDA code out, and say nothing."""
    problems, seen = [], []
    for compiled in stack.compiled:
        note = _note(compiled, facts)
        nvcc, files = note.get("nvcc"), note.get("cuda_sources")
        if nvcc is not None and not same_release(stack.cuda, nvcc):
            problems.append(f"{compiled.name} was compiled by nvcc {nvcc}, the row's is {stack.cuda}")
        has = any(found["gpu_code"] for found in _extensions(compiled, facts).values())
        if not has and (nvcc or files) and not sources.of(compiled.name).later(compiled.environment):
            problems.append(
                f"{compiled.name} has {files} sources of CUDA, and no file of it has code for a GPU"
            )
    for _, path, found in _all(stack, facts):
        made = found["kernels"]["sm"]
        missing = [arch for arch in stack.gpu_arch if arch not in made]
        if found["gpu_code"]:
            seen.append(f"{path.rpartition('/')[2]}: {' '.join(made)}")
            if missing:
                problems.append(
                    f"{path} has no code for {listed(missing)}, only for {' '.join(made) or 'none'}"
                )
    return finding(problems, "; ".join(seen) or "no CUDA code")


def cpu_flags(stack: Stack, facts: Facts) -> Finding:
    problems, seen = [], set()
    for compiled in stack.compiled:
        flags = list(_note(compiled, facts)["cpu_flags"])
        seen.update(flags)
        foreign = [flag for flag in flags if flag not in stack.platform.cpu_flags]
        if foreign:
            problems.append(f"{compiled.name} was compiled with {listed(foreign)}")
    return finding(problems, " ".join(sorted(seen)) or "the compiler's own")


def mpi(stack: Stack, facts: Facts) -> Finding:
    """The library that a process maps once it has loaded the extension, by its place and its name."""
    problems, seen = [], set()
    wanted = MPI_FAMILY[MPI_LIBRARY[stack.mpi.flavour]]
    for compiled in stack.compiled:
        noted = _note(compiled, facts).get("mpi")
        if noted is not None and not same_release(stack.mpi.version, noted):
            problems.append(
                f"{compiled.name} was compiled with MPI {noted}, the row's is {stack.mpi.version}"
            )
        maps = [path for found in _extensions(compiled, facts).values() for path in found["mpi"]]
        if noted is not None and not maps:
            problems.append(f"{compiled.name} was compiled by an MPI's compiler, and loads no MPI")
    for _, path, found in _all(stack, facts):
        for library in found["mpi"]:
            seen.add(library)
            name = library.rpartition("/")[2].partition(".so")[0]
            if name not in wanted or not library.startswith(OF_DISTRIBUTION):
                problems.append(f"{path} loads {library}, which is not mpirun's")
    return finding(problems, listed(sorted(seen)) or "no MPI")


def loads(stack: Stack, facts: Facts) -> Finding:
    problems, count = [], 0
    for compiled, path, found in _all(stack, facts):
        count += 1
        if found["error"]:
            problems.append(f"{compiled.name}: {path}: {found['error']}")
    return finding(problems, f"{count} extensions")


def _compiles(stack: Stack) -> bool:
    return bool(stack.compiled)


def _check(name: str, judge: Callable[[Stack, Facts], Finding], why: str, *needs: str) -> Rule:
    return Rule(
        id=f"compiled.{name}", tier=Tier.BUILT, judge=judge, applies=_compiles, why=why,
        needs=("declared.packages", *needs),
    )  # fmt: skip


RULES = (
    _check("source", source,
           "What is compiled is the source whose hash is in the lock, with the variables that the row has."),
    _check("compiler", compiler,
           "An extension of another gcc asks for another libstdc++ than the image has."),
    _check("against", against,
           "An extension fits only the releases of the packages that it was compiled against."),
    _check("gpu-code", gpu_code,
           "A build that finds no GPU leaves its kernels out; one without the row's GPUs fails at the first "
           "call."),
    _check("cpu-flags", cpu_flags,
           "Code for the CPU that built the wheel stops with an illegal instruction on an older one."),
    _check("loads", loads,
           "An undefined symbol shows when the extension is loaded: another framework or CUDA lacks it."),
    _check("mpi", mpi,
           "The extension loads the MPI that mpirun belongs to; another starts N times rank 0 of 1.",
           "compiled.loads"),
)  # fmt: skip
