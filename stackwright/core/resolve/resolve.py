"""Cell and Lock to Stack or Rejection: pure; every version known afterwards, or the reason why not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from stackwright.core.benchmarks import nccl_tests
from stackwright.core.compiled.needs import build_needs, environment
from stackwright.core.components.table import (
    FIELDS,
    MODULES,
    PATCHED,
    TOOLS,
    asking,
    by_pip,
    compiled,
    layers,
    served,
    versions,
)
from stackwright.core.config import own
from stackwright.core.config.additions import name
from stackwright.core.facts import distributions
from stackwright.core.facts.patches import Series
from stackwright.core.model.added.distributions import Added, Addition, Compiled
from stackwright.core.model.added.image import Folder
from stackwright.core.model.added.tools import Tool
from stackwright.core.model.row import Cell, Lock, Notice, Refused, Rejection, Stack
from stackwright.core.model.target import platform_of
from stackwright.core.ofi import plugin
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.ways import nearest_way
from stackwright.core.rules.derived import brought, cuda_of, gcc_of
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import CellRule, Clash, LockRule, Ruling, fact_of, weigh
from stackwright.core.rules.table import clashes, first_clash, first_unknown
from stackwright.core.versions import upstream


def check(cell: Cell) -> Rejection | None:
    """Apply the rules that need no lock, before one is made."""
    clash = first_clash(cell)
    if clash is None:
        return None
    way = nearest_way(cell)
    rejection = _reject(cell, *clash, "; ".join(way.changes) if way else "")
    return replace(rejection, settings=way.settings) if way else rejection


def resolve(cell: Cell, lock: Lock | None, series: Series) -> Stack | Rejection:
    rejection = check(cell)
    if rejection:
        return rejection
    if lock is None or lock.request != request(cell):
        reason = "the row has no lock" if lock is None else "the row changed after it was locked"
        return unknown(cell) or _unlocked(cell, reason)
    if lock.refused:
        return _refused(cell, lock)
    clash = lock_clash(cell, lock)
    if clash:
        return _reject(cell, *clash, "")
    return _stack(cell, lock, series)


def notices(cell: Cell, lock: Lock | None) -> tuple[Notice, ...]:
    """Return every rule that speaks against a row and does not refuse it: it warns, or it was allowed."""
    found: list[tuple[CellRule | LockRule, Clash]] = list(clashes(cell))
    if lock and not lock.refused and lock.request == request(cell):
        found += [(rule, clash) for rule in LOCK_RULES if (clash := rule.ask(cell, lock))]
    return tuple(
        _notice(rule, clash, said)
        for rule, clash in found
        if (said := weigh(rule, clash, cell.allow)) in (Ruling.WARNS, Ruling.ALLOWED)
    )


def _notice(rule: CellRule | LockRule, clash: Clash, said: Ruling) -> Notice:
    fact = fact_of(rule, clash)
    return Notice(
        rule=rule.name, said=said, clash=clash.values, reason=clash.reason, source=fact.source, how=fact.how,
        when=fact.when,
    )  # fmt: skip


def unknown(cell: Cell) -> Rejection | None:
    """Where a rule does not know a value. A lock settles it, because the index answered for that value."""
    clash = first_unknown(cell)
    if clash is None:
        return None
    near = f"run ./build.py lock {cell.id}, which asks the index and the mirror"
    return replace(_reject(cell, *clash, near), verdict=Refused.UNKNOWN)


def lock_clash(cell: Cell, lock: Lock) -> tuple[LockRule, Clash] | None:
    """Return the first rule on a lock that refuses it for the row; none where uv made no lock."""
    asked = ((rule, rule.ask(cell, lock)) for rule in (() if lock.refused else LOCK_RULES))
    refused = (
        (rule, clash) for rule, clash in asked if clash and weigh(rule, clash, cell.allow) is Ruling.REFUSES
    )
    return next(refused, None)


def suggest(
    rejections: Iterable[Rejection], stacks: Iterable[Stack], cells: Iterable[Cell]
) -> tuple[Rejection, ...]:
    """Where the rules found no nearest row: the row of the matrix that differs in the fewest values."""
    by_id = {cell.id: cell for cell in cells}
    working = [by_id[stack.id] for stack in stacks]
    return tuple(
        replace(rejection, nearest=_closest(by_id[rejection.id], working))
        if working and not rejection.nearest
        else rejection
        for rejection in rejections
    )


def nccl_code(version: str) -> int:
    """NCCL_VERSION_CODE as nccl.h computes it: 2.21.5 -> 22105, and 2.8.4 -> 2804 before 2.9; "" -> 0."""
    if not version:
        return 0
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    if (major, minor) < (2, 9):
        return major * 1000 + minor * 100 + patch
    return major * 10000 + minor * 100 + patch


def _stack(cell: Cell, lock: Lock, series: Series) -> Stack:
    distro = {package.name: upstream(package.version) for package in lock.base.packages}
    gcc = distro[f"gcc-{distributions.gcc_release(str(gcc_of(cell)))}"]
    frameworks, nccl = _frameworks(lock), _only(lock, "nccl")
    return Stack(
        id=cell.id,
        provider=cell.provider,
        os=cell.os,
        base=lock.base,
        python=distro[f"python{cell.python}"],
        cuda=".".join(_nvcc(cell, lock, distro).split(".")[:2]),
        cuda_runtime=_only(lock, "cuda-runtime"),
        cudnn=_only(lock, "cudnn"),
        nccl=nccl,
        nccl_code=nccl_code(nccl),
        gcc=gcc,
        mpi=replace(cell.mpi, version=distro[cell.mpi.flavour.package]),
        communication=layers(cell, lock),
        frameworks=frameworks,
        gpu_arch=cell.gpu_arch,
        flavour=cell.flavour,
        test_on_gpu=cell.test_on_gpu,
        patches=_patches(cell, {**dict(frameworks), "gcc": gcc}, series),
        lock=lock,
        allowed=tuple(notice.rule for notice in notices(cell, lock) if notice.said == Ruling.ALLOWED),
        pip=_added(by_pip(cell), lock),
        compiled=_compiled(cell, lock),
        apt=tuple(package for package in lock.base.packages if package.name in cell.apt),
        env=cell.env,
        files=cell.files,
        ports=own.unnamed(cell.ports),
        entrypoint=cell.entrypoint,
        wheels=_wheels(cell, lock),
        user=cell.user,
        build_env=cell.build_env,
        tools=_tools(cell, lock),
        platform=platform_of(cell.platform),
        plugin=plugin.asked(cell.fabric),
        nccl_tests=nccl_tests.asked(cell.benchmarks),
    )


def _patches(cell: Cell, versions: Mapping[str, str], series: Series) -> tuple[str, ...]:
    """Return the files of the patches that the row's versions need; ``versions`` are the locked ones."""
    values = {**versions, "cuda": str(cuda_of(cell)), "python": cell.python}
    return tuple(patch.file for patch in series.select(values) if cell.value(PATCHED.name))


def _frameworks(lock: Lock) -> tuple[tuple[str, str], ...]:
    """Return what the row trains with, also where it came along with another one."""
    found = ((module.name, lock.version(module.package)) for module in MODULES)
    return tuple((name, version) for name, version in found if version is not None)


def _wheels(cell: Cell, lock: Lock) -> Folder | None:
    """Return those of the row's folder that the lock names, by their content."""
    if cell.wheels is None:
        return None
    named = tuple(
        (path, content)
        for path, content in cell.wheels.files
        if f"sha256:{hashlib.sha256(content).hexdigest()}" in lock.text
    )
    return replace(cell.wheels, files=named) if named else None


def _tools(cell: Cell, lock: Lock) -> tuple[Tool, ...]:
    """Return the row's tools: one that came along with a framework, and is no field of the row, is none."""
    ports = served(cell)
    return tuple(
        Tool(name=tool.name, version=version, port=ports[tool.name])
        for tool in TOOLS
        if tool.name in ports and (version := lock.version(tool.package)) is not None
    )


def _added(additions: Iterable[Addition], lock: Lock) -> tuple[Added, ...]:
    """Return what the row adds by name; two requirements of one distribution are one."""
    modules: dict[str, tuple[str, ...]] = {}
    for addition in additions:
        modules[name(addition)] = (*modules.get(name(addition), ()), *addition.modules)
    return tuple(
        Added(name=which, version=version, modules=found)
        for which, found in sorted(modules.items())
        if (version := lock.version(which)) is not None
    )


def _compiled(cell: Cell, lock: Lock) -> tuple[Compiled, ...]:
    """Return what is compiled for the row. A variable that the row gives goes before what is known."""
    sources, wanted = dict(lock.sources), compiled(cell)
    return tuple(
        Compiled(
            name=package.name, version=package.version, modules=package.modules,
            sha256=sources[package.name], needs=build_needs(package.name, lock),
            environment=environment(package.name, wanted, cell.build_env),
        )
        for package in _added(wanted, lock)
        if package.name in sources
    )  # fmt: skip


def _nvcc(cell: Cell, lock: Lock, distro: Mapping[str, str]) -> str:
    in_wheels = next((p.version for p in lock.toolchain if p.name == "nvidia-cuda-nvcc"), None)
    return in_wheels or distro[PROVIDERS[cell.provider].nvcc]


def _only(lock: Lock, component: str) -> str:
    found = brought(lock, component)
    return found[0][1] if found else ""


def _reject(cell: Cell, rule: CellRule | LockRule, clash: Clash, near: str) -> Rejection:
    fact = fact_of(rule, clash)
    return Rejection(
        id=cell.id, rule=rule.name, clash=clash.values, reason=clash.reason, source=fact.source,
        how=fact.how, when=fact.when, nearest=near, line=cell.line,
    )  # fmt: skip


def _unlocked(cell: Cell, reason: str) -> Rejection:
    return Rejection(
        id=cell.id, rule="lock", clash=(("locks", f"{cell.id}.txt"),), reason=reason, source="locks/",
        nearest=f"run ./build.py lock {cell.id}", line=cell.line, verdict=Refused.UNLOCKED,
    )  # fmt: skip


def _refused(cell: Cell, lock: Lock) -> Rejection:
    asked = ((field, addition.requirement) for field, every in asking(cell).items() for addition in every)
    named = (*versions(cell).items(), *asked)
    return Rejection(
        id=cell.id, rule="resolver", clash=named, reason=lock.refused, source="uv pip compile",
        nearest="", line=cell.line,
    )  # fmt: skip


def _closest(cell: Cell, working: list[Cell]) -> str:
    def differing(other: Cell) -> list[str]:
        return [name for name in FIELDS if cell.value(name) != other.value(name)]

    best = min(working, key=lambda other: len(differing(other)))
    return f"{best.id} (differs in {', '.join(differing(best))})"
