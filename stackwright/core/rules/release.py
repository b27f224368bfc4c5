"""Rules about this release: what it cannot build, though somebody could write what it takes."""

from __future__ import annotations

from collections.abc import Callable

from packaging.specifiers import SpecifierSet

from stackwright.core.facts import distributions, horovod, wheels
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import Provenance, documented, read
from stackwright.core.model.row import FRAMEWORKS, Cell
from stackwright.core.rules.bases import PACKAGED
from stackwright.core.rules.compilers import CUDA, cuda_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Said


def _horovod(cell: Cell) -> Answer:
    if cell.horovod == horovod.RELEASE:
        return Said.FITS
    reason = f"patches/horovod is for {horovod.RELEASE}"
    return Clash(values=(("horovod", cell.horovod),), reason=reason)


def _unpatched(cell: Cell) -> Answer:
    for name, since, why, fact in horovod.UNPATCHED:
        version = getattr(cell, name)
        if version and as_numbers(version) >= as_numbers(since):
            return Clash(
                values=((name, version), ("horovod", cell.horovod)),
                reason=f"Horovod does not compile against {name} {since} or later: {why}, "
                "and patches/horovod has no patch for it",
                fact=fact,
            )
    return Said.FITS


def _cuda_wheels(cell: Cell) -> Answer:
    cuda = cuda_of(cell)
    if cuda is None:
        return Said.SILENT
    if as_numbers(cuda) >= as_numbers(wheels.FIRST_CUDA):
        return Said.FITS
    reason = f"the package index has the libraries of CUDA from {wheels.FIRST_CUDA} on"
    return Clash(values=(("cuda", cuda),), reason=reason)


def _own_cuda(cell: Cell) -> Answer:
    if cell.torch is None:
        return Said.SILENT
    entry = wheels.wheel(wheels.TORCH, cell.torch)
    if entry is None or not entry.own_cuda:
        return Said.FITS if entry else Said.SILENT
    reason = (
        f"the wheel of torch {cell.torch} holds a CUDA runtime or an NCCL of its own, "
        "beside those that Horovod is linked against"
    )
    return Clash(values=(("torch", cell.torch),), reason=reason, fact=entry.fact)


def _nccl_wheel(cell: Cell) -> Answer:
    if cell.nccl is None:
        return Said.SILENT
    if as_numbers(cell.nccl) >= as_numbers(wheels.FIRST_NCCL):
        return Said.FITS
    reason = f"the package index has no wheel of NCCL before {wheels.FIRST_NCCL}"
    return Clash(values=(("nccl", cell.nccl),), reason=reason)


def _tensorflow_wheels(cell: Cell) -> Answer:
    if cell.tensorflow is None:
        return Said.SILENT
    for _, releases, requirement in wheels.SOURCE_ONLY:
        entry = wheels.REQUIREMENTS[requirement]
        python = ".".join(cell.python.split(".")[:2])
        if python in entry.value or not SpecifierSet(releases).contains(cell.tensorflow):
            continue
        also = (("python", cell.python),) if entry.value else ()
        here = f" for Python {python}" if entry.value else ""
        reason = f"the package index has no wheel{here} of {requirement}, which it requires"
        return Clash(values=(("tensorflow", cell.tensorflow), *also), reason=reason, fact=entry.fact)
    return Said.FITS


def _tools_os(cell: Cell) -> Answer:
    known = distributions.distribution(cell.os)
    if known is None:
        return Said.SILENT
    lacking = ["tini"] if "tini" in known.lacks else []
    cuda = cuda_of(cell) or "0"
    least = [cmake for since, cmake, _ in horovod.CMAKE if as_numbers(cuda) >= as_numbers(since)][-1]
    if as_numbers(known.cmake) < as_numbers(least):
        lacking.append(f"CMake {least} (it has {known.cmake}), which compiles Horovod with CUDA {cuda}")
    if not lacking:
        return Said.FITS
    reason = f"{cell.os} packages no {' and no '.join(lacking)}"
    return Clash(values=(("os", cell.os), ("cuda", cuda)), reason=reason)


def _rule(
    name: str, fields: tuple[str, ...], fact: Provenance, ask: Callable[[Cell], Answer], says: str
) -> CellRule:
    return CellRule(name=name, about=About.RELEASE, fields=fields, fact=fact, ask=ask, says=says)


UV = read("the package index, asked by uv for wheels alone", "2026-11-20")

UNPATCHED = _rule(
    "horovod-patch",
    ("horovod", *FRAMEWORKS),
    horovod.UNPATCHED[0][3],
    _unpatched,
    "Horovod compiles against a framework as released, or by a patch that is here",
)

RULES = (
    _rule(
        "horovod",
        ("horovod",),
        read("patches/horovod/series.yaml", "2026-11-20"),
        _horovod,
        "the patches are for one release of Horovod",
    ),
    UNPATCHED,
    _rule("cuda-wheels", CUDA, UV, _cuda_wheels, "the image takes CUDA's libraries from the package index"),
    _rule(
        "torch-own-cuda",
        ("torch",),
        wheels.INDEX,
        _own_cuda,
        "one CUDA runtime and one NCCL are in the image",
    ),
    _rule("nccl-wheel", ("nccl",), wheels.INDEX, _nccl_wheel, "a lock takes wheels alone"),
    _rule(
        "tensorflow-wheels",
        ("tensorflow", "python"),
        wheels.INDEX,
        _tensorflow_wheels,
        "a lock takes wheels alone, and so does what TensorFlow requires",
    ),
    _rule(
        "tools-os",
        CUDA,
        documented("; ".join((PACKAGED.source, *(row[2].source for row in horovod.CMAKE))), "2026-11-20"),
        _tools_os,
        "the image takes its init, and Horovod's build its CMake, from the distribution",
    ),
)
