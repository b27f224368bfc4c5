"""Checks of libfabric and of NCCL's plugin for it, which answer without the hardware of a fabric."""

from __future__ import annotations

from collections.abc import Iterable

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, numbers, take
from stackwright.core.model.row import MpiFlavour, Stack, Tier
from stackwright.core.ofi.plugin import BY_VERSION, LIBRARY, NAME, PACKAGE
from stackwright.core.versions import upstream

PROVIDER = "tcp"
"""The provider of libfabric with which the plugin is started: every host has it."""


def _has_plugin(stack: Stack) -> bool:
    return bool(stack.plugin)


def libfabric(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "ofi", "libfabric")
    if found["error"]:
        return finding([f"libfabric.so.1 does not load: {found['error']}"])
    wanted = [upstream(package.version) for package in stack.lock.base.packages if package.name == PACKAGE]
    seen = found["version"] or "no version"
    problems = (
        [] if numbers(seen) in map(numbers, wanted) else [f"fi_info says {seen}, the lock {listed(wanted)}"]
    )
    if PROVIDER not in found["providers"]:
        problems.append(f"it has no provider {PROVIDER}: {listed(found['providers'], 20) or 'none'}")
    return finding(problems, f"libfabric {seen}: {listed(found['providers'], 20)}")


def _versions(nets: Iterable[int]) -> str:
    return " ".join(f"v{number}" for number in nets)


def abi(stack: Stack, facts: Facts) -> Finding:
    """NCCL asks a plugin for its interfaces by name, the newest first, and does without one that has none."""
    asked, has = take(facts, "ofi", "nccl", "asks"), take(facts, "ofi", "plugin", "nets")
    both = sorted(set(asked) & set(has))
    if not asked:
        return finding(
            [f"no libnccl.so.2 names an interface of a plugin: {take(facts, 'ofi', 'nccl', 'path')}"]
        )
    if not both:
        return finding(
            [f"NCCL asks for {_versions(asked)}, and {LIBRARY} has {_versions(has) or 'none of them'}"]
        )
    wanted = list(BY_VERSION[stack.plugin].nets)
    problems = (
        []
        if sorted(has) == wanted
        else [f"it has {_versions(has)}, release {stack.plugin} {_versions(wanted)}"]
    )
    return finding(problems, f"NCCL takes v{both[-1]}; it asks for {_versions(asked)}")


def loads(stack: Stack, facts: Facts) -> Finding:
    """Loaded as NCCL does it: by its name alone."""
    found = take(facts, "ofi", "plugin")
    if found["error"]:
        return finding([f"{found['name']} does not load: {found['error']}"])
    problems = [] if found["path"] == LIBRARY else [f"{found['name']} is {found['path']}, and not {LIBRARY}"]
    if found["release"] != stack.plugin:
        problems.append(f"it says that it is {NAME} {found['release']}, the row has {stack.plugin}")
    needs = ", ".join(f"{library}: {' '.join(versions)}" for library, versions in found["needs"].items())
    return finding(problems, f"{found['path']}; it needs of {needs}")


def starts(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "ofi", "start")
    if found.get("error"):
        return finding([f"it does not start with {PROVIDER}: {found['error']}"])
    names = found["devices"]
    problems = [] if names else ["it finds no network device"]
    lent = "; the CUDA runtime was lent, as there is no driver" if found["lent"] else ""
    return finding(problems, f"v{found['net']}, {PROVIDER}: {listed(names)}{lent}")


def moves(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "ofi", "data")
    if found.get("error"):
        return finding([f"no data went through it: {found['error']}"])
    right = found["bytes"] == found["same"]
    said = f"{found['same']} of {found['bytes']} bytes came back the same"
    return finding([] if right else [said], f"{said}, by v{found['net']}")


def mpi(stack: Stack, facts: Facts) -> Finding:
    if stack.mpi.flavour is not MpiFlavour.OPENMPI:
        return finding((), f"{stack.mpi.flavour} of the distribution is built without libfabric")
    has = take(facts, "ofi", "mtl")
    said = "nothing" if has is None else listed(has, 10)
    return finding(
        [] if "ofi" in (has or ()) else [f"ompi_info has no mtl for libfabric: {said}"], f"mtl {said}"
    )


L = Tier.LINK
RULES = (
    Rule(id="link.libfabric", tier=L, judge=libfabric, applies=_has_plugin,
         why="Slingshot, EFA and Omni-Path are reached through libfabric; without a provider MPI takes TCP."),
    Rule(id="link.ofi-plugin", tier=L, judge=loads, applies=_has_plugin, needs=("link.libfabric",),
         why="NCCL does without a plugin that does not load, and takes TCP in silence."),
    Rule(id="link.ofi-abi", tier=L, judge=abi, applies=_has_plugin, needs=("link.ofi-plugin",),
         why="NCCL knows a plugin by the names of its interfaces; one of another NCCL is ignored."),
    Rule(id="link.ofi-start", tier=L, judge=starts, applies=_has_plugin, needs=("link.ofi-abi",),
         why="A plugin that loads may still find no network device when NCCL starts it."),
    Rule(id="link.ofi-data", tier=L, judge=moves, applies=_has_plugin, needs=("link.ofi-start",),
         why="What NCCL sends through the plugin has to arrive, over a provider that every host has."),
    Rule(id="link.mpi-ofi", tier=L, judge=mpi, applies=_has_plugin, needs=("declared.mpi", "link.unresolved"),
         why="An MPI without libfabric goes by TCP where the fabric is no InfiniBand."),
)  # fmt: skip
