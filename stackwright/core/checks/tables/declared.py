"""Declared = shipped: the row's system and packages, read back from the image."""

from __future__ import annotations

import re
from collections.abc import Callable

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, same, take
from stackwright.core.components.component import Component
from stackwright.core.components.table import COMMUNICATION, COMPILERS, COMPONENTS, has
from stackwright.core.model.row import Stack, Tier
from stackwright.core.versions import covers, upstream

UNLOCKED = frozenset({"pip", *(component.package for component in COMPONENTS if not component.locked)})
"""In the image, and need not be in the lock: it is built here, or comes with the venv."""


def normal(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def operating_system(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "system", "os")
    named = f"{found.get('ID', '')}{found.get('VERSION_ID', '')}"
    problems = []
    if normal(stack.os).replace("-", "") != normal(named).replace("-", ""):
        problems.append(f"the row declares {stack.os}, the image is {named}")
    architecture = (facts.get("image") or {}).get("Architecture", stack.platform.architecture)
    if architecture != stack.platform.architecture:
        problems.append(f"the row is for {stack.platform.name}, the image for {architecture}")
    suite = found.get("VERSION_CODENAME")
    if stack.base.suite and suite != stack.base.suite:
        problems.append(f"the lock names the suite {stack.base.suite}, the image is {suite}")
    return finding(problems, found.get("PRETTY_NAME", ""))


def python(stack: Stack, facts: Facts) -> Finding:
    return same("Python", stack.python, take(facts, "system", "python", "version"))


def gcc(stack: Stack, facts: Facts) -> Finding:
    """Both compilers: a gcc and a g++ of different releases link different libstdc++."""
    first = same("gcc", stack.gcc, take(facts, "system", "gcc"))
    second = same("g++", stack.gcc, take(facts, "system", "g++"))
    return finding(first.problems + second.problems, first.seen)


def mpi(stack: Stack, facts: Facts) -> Finding:
    text = take(facts, "system", "mpirun") or ""
    flavour = "openmpi" if "Open MPI" in text else "mpich" if "HYDRA" in text else None
    version = re.search(r"(?:\(Open MPI\)|Version:)\s+(\d+(?:\.\d+)*)", text)
    if flavour != stack.mpi.flavour:
        return finding(
            [f"the row declares {stack.mpi.flavour}, mpirun is of {flavour or 'an unknown implementation'}"]
        )
    return same(flavour, stack.mpi.version, version[1] if version else None)


def layer(component: Component) -> Callable[[Stack, Facts], Finding]:
    """A communication layer of the row."""

    def judge(stack: Stack, facts: Facts) -> Finding:
        seen = take(facts, "system", "python_packages").get(component.package)
        declared = dict(stack.communication)[component.name]
        if seen == declared:
            return finding((), f"{component.title} {seen}")
        return finding([f"the row declares {component.title} {declared}, the image has {seen or 'none'}"])

    return judge


def packages(stack: Stack, facts: Facts) -> Finding:
    """The lock and the venv hold the same packages in the same versions; nothing more, nothing less."""
    locked = {normal(package.name): package.version for package in stack.lock.packages}
    found = {
        normal(name): version
        for name, version in take(facts, "system", "python_packages").items()
        if normal(name) in locked or normal(name) not in UNLOCKED
    }
    problems = [
        f"{name} is {found.get(name, 'absent')}, the lock has {locked.get(name, 'none')}"
        for name in sorted(locked.keys() | found.keys())
        if locked.get(name) != found.get(name)
    ]
    return finding(problems, f"{len(found)} packages")


def distribution(stack: Stack, facts: Facts) -> Finding:
    """Those of the lock that are in the image, by the version of their project, as exactly as it is known.

    A mirror has only the last point release, whose packages differ from the locked ones in the
    distribution's own revision (security fixes). The project's version is what a row declares.
    """
    found = take(facts, "system", "distribution_packages")
    if found is None:
        return finding(["the image does not say what the distribution installed"])
    present = [package for package in stack.base.packages if package.name in found]
    problems = [
        f"{package.name} is {found[package.name]}, the lock has {package.version}"
        for package in present
        if not covers(upstream(package.version), upstream(found[package.name]))
    ]
    return finding(problems, listed(f"{package.name} {found[package.name]}" for package in present))


S = Tier.STATIC
RULES = (
    Rule(id="declared.os", tier=S, judge=operating_system,
         why="The operating system is the row's."),
    Rule(id="declared.python", tier=S, judge=python,
         why="Python is the row's: an extension fits one minor release."),
    Rule(id="declared.gcc", tier=S, judge=gcc, needs=("static.compiler",),
         why=f"The compilers are the row's: {COMPILERS} builds with them."),
    Rule(id="declared.mpi", tier=S, judge=mpi,
         why="mpirun is of the row's MPI, in the row's version: two nodes must run the same."),
    *(
        Rule(id=f"declared.{component.name}", tier=S, judge=layer(component), applies=has(component),
             why=f"{component.title} is the row's, and not one that came with another package.")
        for component in COMMUNICATION
        if not component.locked
    ),
    Rule(id="declared.packages", tier=S, judge=packages,
         why="The Python packages are those of the lock, in its versions, and no others."),
    Rule(id="declared.distribution", tier=S, judge=distribution,
         why="The distribution's packages that a row value depends on have the versions of the lock."),
)  # fmt: skip
