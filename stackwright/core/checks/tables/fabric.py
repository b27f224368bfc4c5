"""Checks of the fabric's libraries, which load and answer without its hardware."""

from __future__ import annotations

from collections.abc import Mapping

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, take
from stackwright.core.facts import distributions
from stackwright.core.launch.fit import image as images
from stackwright.core.model.row import MpiFlavour, Stack, Tier

INFINIBAND = "libuct_ib.so.0"
"""UCX's module for verbs."""


def _broken(found: Mapping[str, str | None]) -> list[str]:
    return [f"{name} does not load: {error}" for name, error in found.items() if error]


def verbs(stack: Stack, facts: Facts) -> Finding:
    fabric = take(facts, "fabric")
    providers = fabric["providers"]
    problems = _broken({"libibverbs.so.1": fabric["verbs"], **providers})
    problems += [] if providers else ["there is no provider of libibverbs"]
    return finding(problems, f"{len(providers)} providers")


def ucx(stack: Stack, facts: Facts) -> Finding:
    """Where the distribution has no UCX there is none to look at."""
    if "libucx0" in distributions.known(stack.os).lacks:
        return finding((), f"{stack.os} has no UCX")
    found = take(facts, "fabric", "ucx")
    problems = _broken(found["modules"])
    if INFINIBAND not in found["modules"]:
        problems.append(f"there is no {INFINIBAND}")
    wanted = images.of(stack).ucx
    if not found["version"]:
        problems.append("ucx_info tells no version")
    elif wanted and found["version"] != wanted:
        problems.append(f"ucx_info says {found['version']}, the label {wanted}")
    if "self" not in found["transports"]:
        problems.append("ucx_info lists no transport to itself, which needs neither hardware nor network")
    return finding(problems, f"UCX {found['version']}: {listed(found['modules'], 10)}")


def pmix(stack: Stack, facts: Facts) -> Finding:
    if stack.mpi.flavour is not MpiFlavour.OPENMPI:
        return finding((), f"{stack.mpi.flavour} has its own PMI")
    return finding(_broken({"libpmix.so.2": take(facts, "fabric", "pmix")}), "libpmix.so.2")


def mpi(stack: Stack, facts: Facts) -> Finding:
    """Open MPI has a component for UCX, MPICH is built on it. Without UCX in the distribution: neither."""
    if "libucx0" in distributions.known(stack.os).lacks:
        return finding((), f"{stack.os} has no UCX")
    if stack.mpi.flavour is MpiFlavour.OPENMPI:
        has = take(facts, "fabric", "pml")
        said = "nothing" if has is None else listed(has, 10)
        right = "ucx" in (has or ())
        return finding([] if right else [f"ompi_info has no pml for ucx: {said}"], f"pml {said}")
    devices = take(facts, "fabric", "mpich")
    right = any("ucx" in device for device in devices)
    told = listed(devices) or "nothing"
    return finding([] if right else [f"mpichversion has no device for ucx: {told}"], told)


L = Tier.LINK
RULES = (
    Rule(id="link.verbs", tier=L, judge=verbs, needs=("static.rdma",),
         why="A provider of libibverbs that does not load is a network card that NCCL and UCX do not see."),
    Rule(id="link.ucx", tier=L, judge=ucx, needs=("static.rdma",),
         why="A module of UCX that does not load is a transport that MPI does without, and says nothing."),
    Rule(id="link.pmix", tier=L, judge=pmix,
         why="srun starts Open MPI's ranks through PMIx; without its library each is rank 0 of 1."),
    Rule(id="link.mpi-fabric", tier=L, judge=mpi, needs=("declared.mpi", "link.unresolved", "link.ucx"),
         why="MPI reaches InfiniBand through UCX; an MPI without it goes by TCP."),
)  # fmt: skip
