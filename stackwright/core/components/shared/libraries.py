"""Rules about NVIDIA's libraries, and about releases that are in no table.

A row with a release that the package index did not have is neither accepted nor refused. A lock settles it:
the index then answered for these very values.
"""

from __future__ import annotations

from collections.abc import Callable

from packaging.specifiers import SpecifierSet

from stackwright.core.components.component import Place, Placed
from stackwright.core.components.shared.wheel_rules import rule
from stackwright.core.components.table import COMPONENTS
from stackwright.core.facts import distributions, wheels
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import documented, read
from stackwright.core.facts.releases import LIBRARIES, RELEASES, RELEASES_READ
from stackwright.core.facts.wheels import INDEX, Wheels
from stackwright.core.model.row import Cell, ProviderName
from stackwright.core.model.target import CUDA
from stackwright.core.rules.derived import CUDA_FIELDS, cuda_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling
from stackwright.core.versions import covers

WHEELS = tuple(component.wheels for component in COMPONENTS if component.wheels)
WITH_CUDNN = tuple(table for table in WHEELS if any(wheel.cudnn for wheel in table.entries))
WITH_NCCL = tuple(table for table in WHEELS if any(wheel.nccl_needs for wheel in table.entries))


def _cudnn(cell: Cell) -> Answer:
    if cell.cudnn is None:
        return Ruling.SILENT
    asked = False
    for table in WITH_CUDNN:
        version = cell.value(table.name)
        wheel = table.on(cell.platform).of(version) if version and "+" not in version else None
        if not wheel or not wheel.cudnn:
            continue
        asked, needed = True, wheel.cudnn
        exact = needed.count(".") > 1
        if exact and not covers(cell.cudnn, needed):
            reason = f"the wheel of {table.name} {version} requires cuDNN {needed}"
        elif cell.cudnn.split(".")[0] != needed.split(".")[0]:
            reason = f"the wheel of {table.name} {version} was built for cuDNN {needed}"
        else:
            continue
        return Clash(values=(("cudnn", cell.cudnn), (table.name, str(version))), reason=reason)
    return Ruling.FITS if asked else Ruling.SILENT


def _nccl_floor(cell: Cell) -> Answer:
    """NCCL keeps its ABI forward: a library has what an older one had, and lacks what came later."""
    if cell.nccl is None:
        return Ruling.SILENT
    asked = False
    for name, pinned in _nccl_of_wheels(cell):
        asked = True
        parts = len(as_numbers(cell.nccl))
        if as_numbers(cell.nccl) >= as_numbers(pinned)[:parts]:
            continue
        version = str(cell.value(name))
        reason = (
            f"the wheel of {name} {version} was built for NCCL {pinned}, and calls what older ones lack "
            "(torch 2.2.2 with 2.16.5: undefined symbol ncclCommRegister)"
        )
        return Clash(values=(("nccl", cell.nccl), (name, version)), reason=reason)
    return Ruling.FITS if asked else Ruling.SILENT


def _nccl_of_wheels(cell: Cell) -> list[tuple[str, str]]:
    found = []
    for table in WITH_NCCL:
        version = cell.value(table.name)
        entry = table.on(cell.platform).of(version) if version and "+" not in version else None
        needs = SpecifierSet(entry.nccl_needs) if entry else ()
        found += [(table.name, spec.version) for spec in needs if spec.operator in ("==", ">=")]
    return found


def _cuda_wheels(cell: Cell) -> Answer:
    cuda = cuda_of(cell)
    if cuda is None:
        return Ruling.SILENT
    if as_numbers(cuda) >= as_numbers(wheels.FIRST_CUDA):
        return Ruling.FITS
    reason = f"the package index has the libraries of CUDA from {wheels.FIRST_CUDA} on"
    return Clash(values=(("cuda", cuda),), reason=reason)


def _nccl_wheel(cell: Cell) -> Answer:
    if cell.nccl is None:
        return Ruling.SILENT
    if as_numbers(cell.nccl) >= as_numbers(wheels.FIRST_NCCL):
        return Ruling.FITS
    reason = f"the package index has no wheel of NCCL before {wheels.FIRST_NCCL}"
    return Clash(values=(("nccl", cell.nccl),), reason=reason)


# -- releases ---------------------------------------------------------------------------------------


def _unknown(field: str, version: str, reason: str) -> Clash:
    return Clash(values=((field, version),), reason=reason, said=Ruling.UNKNOWN)


def _library(name: str) -> Callable[[Cell], Answer]:
    every = tuple(release for field, package in LIBRARIES if field == name for release in RELEASES[package])

    def ask(cell: Cell) -> Answer:
        declared, cuda = cell.value(name), cuda_of(cell)
        major = cuda.split(".")[0] if cuda else ""
        releases = RELEASES.get(CUDA.wheel(name, major))
        if declared is None or releases is None:
            return Ruling.SILENT
        if any(covers(declared, release) for release in releases):
            return Ruling.FITS
        when, last = RELEASES_READ.when, releases[-1]
        if any(covers(declared, release) for release in every):
            reason = (
                f"the package index has {name} {declared} for another CUDA; the newest for {major} is {last}"
            )
            return Clash(values=((name, declared), ("cuda", str(cuda))), reason=reason)
        reason = (
            f"the package index had no {name} {declared} on {when}; its newest for CUDA {major} is {last}"
        )
        return _unknown(name, declared, reason)

    return ask


def _exact_gcc(cell: Cell) -> Answer:
    if cell.gcc is None:
        return Ruling.SILENT
    release = distributions.gcc_release(cell.gcc)
    if release == cell.gcc:
        return Ruling.FITS
    reason = (
        f"the tables know gcc {release} of {cell.os}, and not which release of it; write gcc: {release!r}"
    )
    return _unknown("gcc", cell.gcc, reason)


def _exact_cuda(cell: Cell) -> Answer:
    if cell.cuda is None or cell.provider is not ProviderName.DEBIAN:
        return Ruling.SILENT
    release = ".".join(cell.cuda.split(".")[:2])
    if release == cell.cuda:
        return Ruling.FITS
    reason = f"the tables know the compiler of CUDA {release}, and not which release of it; write {release!r}"
    return _unknown("cuda", cell.cuda, reason)


def _names(tables: tuple[Wheels, ...]) -> tuple[str, ...]:
    return tuple(table.name for table in tables)


NCCL_FLOOR = CellRule(
    name="nccl-floor",
    about=About.STACK,
    fields=("platform", "nccl", *_names(WITH_NCCL)),
    fact=read(
        "the package index: requirements of the wheels; seen with torch 2.2.2 and NCCL 2.16.5", "2026-11-22"
    ),
    ask=_nccl_floor,
    says="a row's NCCL is not older than the one that a wheel pins",
)

TESTED = tuple(dict.fromkeys(fact.source for component in COMPONENTS for fact in component.tested))
RULES = (
    Placed(
        at=Place.COMPILED + 10,
        rule=rule(
            "cudnn", ("platform", "cudnn", *_names(WITH_CUDNN)),
            documented("; ".join((INDEX.source, *TESTED)), "2026-11-20"), _cudnn,
            "a cuDNN that the row names is the one that the wheels load",
        ),
    ),
    Placed(
        at=Place.RELEASE + 20,
        rule=rule(
            "cuda-wheels", CUDA_FIELDS, read("the package index, asked by uv for wheels alone", "2026-11-20"),
            _cuda_wheels, "the image takes CUDA's libraries from the package index", about=About.RELEASE,
        ),
    ),
    Placed(
        at=Place.RELEASE + 40,
        rule=rule("nccl-wheel", ("nccl",), INDEX, _nccl_wheel, "a lock takes wheels alone",
                  about=About.RELEASE),
    ),
    *(
        Placed(
            at=Place.RELEASED + 20,
            rule=rule(
                f"{name}-release", (*CUDA_FIELDS, name), RELEASES_READ, _library(name),
                "the package index has it for the row's CUDA", about=About.RELEASE,
            ),
        )
        for name in ("nccl", "cudnn")
    ),
    Placed(
        at=Place.RELEASED + 30,
        rule=rule(
            "gcc-exact", ("gcc", "os"),
            read("the tables of the distributions: releases of gcc", "2026-11-22"), _exact_gcc,
            "what exactly the distribution has is in the lock", about=About.RELEASE,
        ),
    ),
    Placed(
        at=Place.RELEASED + 31,
        rule=rule(
            "cuda-exact", ("provider", "cuda"),
            read("the tables of the distributions: releases of CUDA", "2026-11-22"), _exact_cuda,
            "what exactly the distribution, or the wheel, has is in the lock", about=About.RELEASE,
        ),
    ),
)  # fmt: skip
