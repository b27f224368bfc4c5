"""What a row asks the package index and the mirror for."""

from __future__ import annotations

import hashlib
import json

from packaging.specifiers import SpecifierSet

from stackwright.core.compiled.source import Source
from stackwright.core.components.component import Kind
from stackwright.core.components.table import COMPONENTS, by_pip, compiled, lowest_limit, of_kind
from stackwright.core.config.own import versions
from stackwright.core.errors import LockError
from stackwright.core.facts import distributions
from stackwright.core.model.row import Cell
from stackwright.core.model.target import CUDA, platform_of
from stackwright.core.ofi import plugin
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.core.rules.derived import cuda_of, gcc_of, nvcc_in_wheels

NVCC = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-nvvm")
"""The wheels that a whole CUDA compiler is made of."""


NEWEST_MANYLINUX = (2, 40)  # the newest platform that uv knows by name


def requirements(cell: Cell) -> tuple[str, ...]:
    """Return what the row asks of the package index, as requirement lines."""
    asked = [*_of_kind(cell, Kind.FRAMEWORK), *_limited(cell, "numpy")]
    asked += _of_kind(cell, Kind.EXTENSION)
    if _leaves_cuda_to_others(cell):
        asked += distributions.CUDA11_LIBRARIES
    known = distributions.distribution(cell.os)
    if known and known.old_pip:
        asked.append("pip")
    asked += _limited(cell, "setuptools") or ["setuptools"]
    return (*asked, *_of_kind(cell, Kind.COMMUNICATION))


def with_additions(cell: Cell, sources: tuple[Source, ...] = ()) -> tuple[str, ...]:
    """Return the same with the row's own requirements, in one question; empty where it has none.

    What is compiled from ``sources`` is not asked for itself, but what it runs with is.
    """
    own = by_pip(cell)
    asked = (
        *(addition.requirement for addition in own),
        *(line for source in sources for line in source.requires),
    )
    return (*requirements(cell), *asked) if own or sources else ()


def asked(cell: Cell) -> tuple[tuple[str, ...], ...]:
    """Return every question that the row has for the index before its sources are read."""
    together = () if compiled(cell) else with_additions(cell)
    return tuple(lines for lines in (requirements(cell), together, toolchain(cell)) if lines)


def _of_kind(cell: Cell, *kinds: Kind) -> list[str]:
    return [
        line
        for component in of_kind(*kinds)
        if cell.value(component.name)
        for line in component.requires(cell)
    ]


def _limited(cell: Cell, package: str) -> list[str]:
    """Most wheels do not state the newest numpy that they work with, so that the lock has to."""
    found = lowest_limit(cell, package)
    return [f"{package}<{found[1].below}"] if found else []


def _leaves_cuda_to_others(cell: Cell) -> bool:
    return any(
        component.leaves_cuda is not None
        and SpecifierSet(component.leaves_cuda).contains(version, prereleases=True)
        for component in COMPONENTS
        if (version := cell.value(component.name))
    )


def overrides(cell: Cell) -> tuple[str, ...]:
    """Return what the row says against the wheels' own pins: NCCL keeps its ABI, so a newer one can replace
    it."""
    cuda = cuda_of(cell)
    if cell.nccl is None or cuda is None:
        return ()
    return (f"{CUDA.wheel('nccl', cuda)}=={_pin(cell.nccl, parts=3)}",)


def of_wheels(cell: Cell) -> tuple[str, ...]:
    """Return constraints to the versions in the row's folder of wheels: no index has a newer one of them."""
    return tuple(f"{name}=={version}" for name, version in sorted(versions(cell.wheels).items()))


def constraints(cell: Cell) -> tuple[str, ...]:
    """Return the row's cuDNN, which replaces none that a wheel pins: uv refuses where the two differ."""
    cuda = cuda_of(cell)
    if cell.cudnn is None or cuda is None:
        return ()
    return (f"{CUDA.wheel('cudnn', cuda)}=={_pin(cell.cudnn, parts=4)}",)


def _pin(version: str, *, parts: int) -> str:
    """Return a requirement; a version that leaves parts out means all releases that begin with it."""
    return version if version.count(".") >= parts - 1 else f"{version}.*"


def toolchain(cell: Cell) -> tuple[str, ...]:
    """Requirement lines of a CUDA compiler in wheels; empty where the base brings one."""
    release = nvcc_in_wheels(cell)
    return tuple(f"{name}=={release}.*" for name in NVCC) if release else ()


def platform(os: str, named: str | None = None) -> str:
    """Return what uv calls a platform, as a row names it, with the glibc of a distribution."""
    known = distributions.distribution(os)
    if known is None:
        raise LockError(f"no distribution {os!r} in the tables")
    major, minor = min(distributions.as_numbers(known.glibc), NEWEST_MANYLINUX)
    return platform_of(named).manylinux(major, minor)


def request(cell: Cell) -> str:
    """Digest of everything that the lock depends on; a lock with another one is out of date."""
    asked = [
        *requirements(cell), *overrides(cell), *constraints(cell), *toolchain(cell), cell.python,
        platform(cell.os, cell.platform), *distribution_packages(cell), *with_additions(cell),
        *((str(cell.wheels),) if cell.wheels else ()),
        *(" ".join(("compile", addition.requirement, *addition.needs)) for addition in compiled(cell)),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def distribution_packages(cell: Cell) -> tuple[str, ...]:
    """Return the distribution's packages whose versions are values of the row, and those that it adds."""
    compiler = gcc_of(cell)
    mpi = cell.mpi.flavour.package
    names = ["libc6", mpi, f"python{cell.python}"]
    if compiler:
        names.append(f"gcc-{distributions.gcc_release(compiler)}")
    if cuda_of(cell) and not nvcc_in_wheels(cell):
        names.append(PROVIDERS[cell.provider].nvcc)
    if plugin.asked(cell.fabric):
        names.append(plugin.PACKAGE)
    return tuple(sorted({*names, *cell.apt}))


def question(cell: Cell, wanted: tuple[str, ...]) -> tuple[object, ...]:
    """Return what the answer of the index depends on: rows with the same question have the same answer."""
    wheels = cell.wheels if wanted == with_additions(cell) else None
    return wanted, overrides(cell), constraints(cell), cell.python, platform(cell.os, cell.platform), wheels
