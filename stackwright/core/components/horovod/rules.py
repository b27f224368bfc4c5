"""Rules about Horovod: what it is compiled against, and what this release has patches for."""

from __future__ import annotations

from stackwright.core.components import mxnet, tensorflow, torch
from stackwright.core.components.component import Place, Placed
from stackwright.core.components.horovod import facts
from stackwright.core.components.shared.wheel_rules import rule
from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import documented, read
from stackwright.core.model.row import Cell, Lock
from stackwright.core.rules.derived import CUDA_FIELDS, GCC_FIELDS, brought, cuda_majors, cuda_of, gcc_of
from stackwright.core.rules.rule import About, Answer, Clash, LockRule, Ruling

COMPILED = (torch.TORCH, tensorflow.TENSORFLOW, mxnet.MXNET)
"""Frameworks that Horovod has an extension for."""
NAMES = tuple(framework.name for framework in COMPILED)


def _at_least_one(cell: Cell) -> Answer:
    if any(cell.value(name) for name in NAMES) or (cell.value("jax") and not cell.value("horovod")):
        return Ruling.FITS
    reason = "CUDA, cuDNN and NCCL come with the wheels of a framework, and the row has none"
    if cell.value("horovod"):
        reason = "Horovod needs at least one framework to be compiled against"
    return Clash(values=tuple((name, "none") for name in NAMES), reason=reason)


def _floors(cell: Cell) -> Answer:
    horovod = cell.value("horovod")
    if horovod is None:
        return Ruling.SILENT
    below = [
        (name, value, least, fact)
        for since, name, least, fact in facts.FLOORS
        if as_numbers(horovod) >= as_numbers(since)
        and (value := gcc_of(cell) if name == "gcc" else cell.value(name))
        and as_numbers(value) < as_numbers(least)
    ]
    if not below:
        return Ruling.FITS
    needs = ", ".join(f"{name} {least}" for name, _, least, _ in below)
    return Clash(
        values=(("horovod", horovod), *((name, value) for name, value, _, _ in below)),
        reason=f"Horovod {horovod} needs {needs} or later",
        fact=below[0][3],
    )


def _release(cell: Cell) -> Answer:
    horovod = cell.value("horovod")
    if horovod is None:
        return Ruling.SILENT
    if horovod == facts.RELEASE:
        return Ruling.FITS
    reason = f"patches/horovod is for {facts.RELEASE}"
    return Clash(values=(("horovod", horovod),), reason=reason)


def _unpatched(cell: Cell) -> Answer:
    horovod = cell.value("horovod")
    if horovod is None:
        return Ruling.SILENT
    for name, since, why, fact in facts.UNPATCHED:
        version = cell.value(name)
        if version and as_numbers(version) >= as_numbers(since):
            return Clash(
                values=((name, version), ("horovod", horovod)),
                reason=f"Horovod does not compile against {name} {since} or later: {why}, "
                "and patches/horovod has no patch for it",
                fact=fact,
            )
    return Ruling.FITS


def _tools(cell: Cell) -> Answer:
    known = distributions.distribution(cell.os)
    if known is None:
        return Ruling.SILENT
    lacking = ["tini"] if "tini" in known.lacks else []
    cuda = cuda_of(cell) or "0"
    least = [cmake for since, cmake, _ in facts.CMAKE if as_numbers(cuda) >= as_numbers(since)][-1]
    if as_numbers(known.cmake) < as_numbers(least):
        lacking.append(f"CMake {least} (it has {known.cmake}), which compiles Horovod with CUDA {cuda}")
    if not lacking:
        return Ruling.FITS
    reason = f"{cell.os} packages no {' and no '.join(lacking)}"
    return Clash(values=(("os", cell.os), ("cuda", cuda)), reason=reason)


PATCHED = "horovod-patch"
TOOLS = (distributions.PACKAGED.source, *(row[2].source for row in facts.CMAKE))

RULES = (
    Placed(
        at=Place.INDEX,
        rule=rule("frameworks", ("horovod", "jax", *NAMES),
                  read("horovod 0.28.1, setup.py: an extension for each framework", "2026-11-20"),
                  _at_least_one, "a row has a framework"),
    ),
    Placed(
        at=Place.COMPILED + 50,
        rule=rule("horovod-floor", (*GCC_FIELDS, "horovod", "python", *NAMES), facts.INSTALL, _floors,
                  "Horovod supports frameworks and compilers from some release on"),
    ),
    Placed(
        at=Place.RELEASE,
        rule=rule("horovod", ("horovod",), read("patches/horovod/series.yaml", "2026-11-20"), _release,
                  "the patches are for one release of Horovod", about=About.RELEASE),
    ),
    Placed(
        at=Place.RELEASE + 1,
        rule=rule(PATCHED, ("horovod", *NAMES, "keras"), facts.UNPATCHED[0][3], _unpatched,
                  "Horovod compiles against a framework as released, or by a patch that is here",
                  about=About.RELEASE),
    ),
    Placed(
        at=Place.RELEASE + 60,
        rule=rule("tools-os", CUDA_FIELDS,
                  documented("; ".join(TOOLS), "2026-11-20"),
                  _tools,
                  "the image takes its init, and Horovod's build its CMake, from the distribution",
                  about=About.RELEASE),
    ),
)  # fmt: skip


def _compiler_matches(cell: Cell, lock: Lock) -> Clash | None:
    cuda, majors = cuda_of(cell), cuda_majors(lock)
    if cell.value("horovod") is None or cuda is None or len(majors) != 1:
        return None
    (major,) = majors
    if cuda.split(".")[0] == major:
        return None
    return Clash(
        values=(("cuda", cuda), ("the frameworks' CUDA", major)),
        reason="Horovod's kernels must be compiled by the CUDA major release that the frameworks load",
    )


def _nccl_present(cell: Cell, lock: Lock) -> Clash | None:
    if cell.value("horovod") is None or brought(lock, "nccl"):
        return None
    return Clash(
        values=(("nccl", "none in the lock"),),
        reason="the frameworks' wheels bring no NCCL, and Horovod is linked against the one that they load",
    )


LOCK_RULES = (
    LockRule(
        name="nccl-present",
        says="the wheels bring an NCCL",
        fact=read("horovod 0.28.1, cmake/Modules/FindNCCL.cmake", "2026-11-20"),
        ask=_nccl_present,
    ),
    LockRule(
        name="compiler-cuda",
        says="nvcc is of the CUDA that the frameworks load",
        fact=documented("NVIDIA, CUDA Compatibility", "2026-11-20"),
        ask=_compiler_matches,
    ),
)
