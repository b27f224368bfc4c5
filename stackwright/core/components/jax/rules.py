"""Rules about JAX: its plugin is of the row's CUDA, and takes the NCCL and the cuDNN that others bring."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import Specifier, SpecifierSet

from stackwright.core.components import tensorflow, torch
from stackwright.core.components.component import Place, Placed
from stackwright.core.components.jax import facts
from stackwright.core.components.shared.platforms import wheels_for
from stackwright.core.components.shared.wheel_rules import (
    built_for,
    named,
    on_gpus,
    python,
    release,
    rule,
    same_cuda,
)
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.gpu_code import code_of
from stackwright.core.model.row import Cell, Lock
from stackwright.core.rules.derived import CUDA_FIELDS, brought, cuda_of
from stackwright.core.rules.rule import About, Answer, Clash, LockRule, Ruling

BESIDE = (torch.TORCH, tensorflow.TENSORFLOW)
"""Frameworks whose wheels bring CUDA's libraries from the index as well."""
NAMES = tuple(framework.name for framework in BESIDE)


def _cuda(cell: Cell) -> Answer:
    found, cuda = named(cell, facts.WHEELS), cuda_of(cell)
    if found is None or cuda is None:
        return Ruling.SILENT
    version, entry = found
    if facts.major_of(cell) in entry.builds:
        return Ruling.FITS
    reason = f"jax {version} has a plugin for CUDA {' and '.join(entry.builds)}, and for no other"
    return Clash(values=(("jax", version), ("cuda", cuda)), reason=reason, fact=entry.fact)


def _one_cuda(cell: Cell) -> Answer:
    version, major = cell.value("jax"), facts.major_of(cell)
    if version is None or major is None:
        return Ruling.SILENT
    for framework in BESIDE:
        built = built_for(cell, framework.wheels) if framework.wheels else None
        if built and not same_cuda(built, f"{major}.0"):
            return Clash(
                values=(("jax", version), (framework.name, str(cell.value(framework.name)))),
                reason="the wheels bring two CUDA releases into one image: "
                f"{major} for jax, {built} for {framework.name}",
            )
    return Ruling.FITS


TITLES = {"nccl": "NCCL", "cudnn": "cuDNN"}


def _brings(cell: Cell) -> Iterator[tuple[str, tuple[str, str], str, str]]:
    """Yield each library with what decides on it: a field and its value, the version, a sentence's begin."""
    beside = named(cell, torch.WHEELS)
    if beside and "+" in beside[0]:  # another index than the one that the tables were read from
        beside = None
    for library, title in TITLES.items():
        own = cell.value(library)
        pinned = str(getattr(beside[1], library)) if beside else ""
        if own:
            yield library, (library, own), own, f"the row has {title} {own}"
        elif beside and pinned:
            yield library, ("torch", beside[0]), pinned, f"torch {beside[0]} pins {title} {pinned}"


def _libraries(cell: Cell) -> Answer:
    found, brings = facts.plugin_of(cell), tuple(_brings(cell))
    if found is None or not brings:
        return Ruling.SILENT
    version, plugin = found
    for library, value, brought_version, says in brings:
        allowed = getattr(plugin, library)
        if not all(_takes(specifier, brought_version) for specifier in SpecifierSet(allowed)):
            reason = f"{says}, and jax {version} takes {allowed}"
            return Clash(values=(("jax", version), value), reason=reason)
    return Ruling.FITS


def _takes(allowed: Specifier, version: str) -> bool:
    """A version that leaves parts out means every release that begins with it: 2.27 can be 2.27.7."""
    parts = as_numbers(version)
    if allowed.operator == ">=":
        return parts >= as_numbers(allowed.version)[: len(parts)]
    return allowed.contains(version)


def _arch(cell: Cell) -> Answer:
    found = facts.plugin_of(cell)
    if found is None or not cell.gpu_arch:
        return Ruling.SILENT
    version, plugin = found
    return on_gpus("jax", version, plugin.code, code_of(plugin.code), cell.gpu_arch)


def _tried(cell: Cell) -> Answer:
    version = cell.value("jax")
    if version is None:
        return Ruling.SILENT
    if as_numbers(version) >= as_numbers(facts.OLDEST):
        return Ruling.FITS
    return Clash(values=(("jax", version),), reason=f"JAX was not tried before {facts.OLDEST}")


RULES = (
    wheels_for(facts.WHEELS),
    Placed(
        at=Place.INDEX + 10,
        rule=rule("jax-cuda", (*CUDA_FIELDS, "jax"), facts.INDEX, _cuda,
                  "JAX's plugin is of the row's major release of CUDA"),
    ),
    Placed(
        at=Place.INDEX + 20,
        rule=rule("jax-python", ("platform", "jax", "python"), facts.INDEX, python(facts.WHEELS),
                  "a wheel is for some releases of Python"),
    ),
    Placed(
        at=Place.INDEX + 32,
        rule=rule("jax-one-cuda", (*CUDA_FIELDS, "jax", *NAMES), facts.INDEX, _one_cuda,
                  "JAX and the frameworks bring one CUDA into the image"),
    ),
    Placed(
        at=Place.INDEX + 33,
        rule=rule("jax-libraries", (*CUDA_FIELDS, "jax", "torch", *TITLES), facts.INDEX, _libraries,
                  "JAX takes the NCCL and the cuDNN that the row or PyTorch's wheel names"),
    ),
    Placed(
        at=Place.GPU_CODE,
        rule=rule("jax-arch", (*CUDA_FIELDS, "jax", "gpu_arch"), facts.CODE, _arch,
                  "JAX's plugin holds code for the row's GPUs"),
    ),
    Placed(
        at=Place.RELEASE + 76,
        rule=rule("jax-tried", ("jax",), facts.UNTRIED, _tried, "JAX was tried in this release",
                  about=About.RELEASE),
    ),
    release(Place.RELEASED, "jax", ("jax",)),
)  # fmt: skip


def _plugin(cell: Cell, lock: Lock) -> Clash | None:
    """One plugin, of JAX's own release and of the row's CUDA."""
    version, major = cell.value("jax"), facts.major_of(cell)
    if version is None or major is None:
        return None
    wanted = {f"jax-cuda{major}-plugin": version, f"jax-cuda{major}-pjrt": version}
    found = {
        package.name: package.version for package in lock.packages if package.name.startswith("jax-cuda")
    }
    if found == wanted:
        return None
    differing = found.items() ^ wanted.items()
    names = tuple((name, found.get(name, "none in the lock")) for name in sorted(dict(differing)))
    reason = f"JAX {version} of a row with CUDA {major} loads {' and '.join(wanted)} {version}, and no other"
    return Clash(values=(("jax", version), *names), reason=reason)


def _loads(cell: Cell, lock: Lock) -> Clash | None:
    """Without them the plugin looks for libraries of the host, and says nothing where it finds them."""
    version = cell.value("jax")
    missing = [library for library in TITLES if version and not brought(lock, library)]
    if not missing:
        return None
    return Clash(
        values=(("jax", str(version)), *((library, "none in the lock") for library in missing)),
        reason="JAX's plugin loads NCCL and cuDNN, and no package of the lock brings them",
    )


LOCK_RULES = (
    LockRule(name="jax-plugin", says="the lock has JAX's plugin for the row's CUDA, and no other",
             fact=facts.PARTS, ask=_plugin),
    LockRule(name="jax-loads", says="the lock brings the NCCL and the cuDNN that JAX loads",
             fact=facts.LOADS, ask=_loads),
)  # fmt: skip
