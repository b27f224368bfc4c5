"""What a row leaves out and its other values decide, and what the packages of its lock bring."""

from __future__ import annotations

import re

from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.model.row import Cell, Lock, ProviderName
from stackwright.core.versions import covers

CUDA_FIELDS = ("platform", "provider", "os", "cuda")
"""What cuda_of and nvcc_in_wheels read."""
GCC_FIELDS = (*CUDA_FIELDS, "gcc")


def cuda_of(cell: Cell) -> str | None:
    """Return the CUDA compiler's release: as written, or the one that the distribution packages."""
    if cell.cuda or cell.provider is not ProviderName.DEBIAN:
        return cell.cuda
    known = distributions.distribution(cell.os)
    return known.cuda if known else None


def nvcc_in_wheels(cell: Cell) -> str | None:
    """Return the release of nvcc to take from the package index, where the distribution does not package
    it."""
    cuda, known = cuda_of(cell), distributions.distribution(cell.os)
    if cell.provider is not ProviderName.DEBIAN or cuda is None or known is None:
        return None
    release = ".".join(cuda.split(".")[:2])
    packaged = known.cuda is not None and covers(release, known.cuda)
    return release if release in distributions.nvcc_wheels(cell.platform) and not packaged else None


def gcc_of(cell: Cell) -> str | None:
    """Return the compiler's release: as written, or the newest that both CUDA and the OS allow."""
    known = distributions.distribution(cell.os)
    cuda = cuda_of(cell)
    if cell.gcc or known is None or cuda is None:
        return cell.gcc
    most = distributions.highest_gcc(cuda)
    fitting = [gcc for gcc in known.gcc if most is None or as_numbers(gcc)[0] <= most]
    return fitting[-1] if fitting else known.gcc[0]


def cuda_majors(lock: Lock) -> dict[str, list[str]]:
    """CUDA major version -> the packages that bring it, as the -cuNN suffix and the runtime say."""
    found: dict[str, list[str]] = {}
    for package in lock.packages:
        suffix = re.fullmatch(r"nvidia-.+-cu(\d+)", package.name)
        major = suffix[1] if suffix else None
        if package.name in ("nvidia-cuda-runtime", "cuda-toolkit"):
            major = package.version.split(".")[0]
        if major:
            found.setdefault(major, []).append(f"{package.name} {package.version}")
    return found


def brought(lock: Lock, component: str) -> list[tuple[str, str]]:
    """Packages that bring a component ("cuda-runtime", "cudnn", "nccl"), with their versions."""
    pattern = re.compile(rf"nvidia-{re.escape(component)}(-cu\d+)?")
    return [(p.name, p.version) for p in lock.packages if pattern.fullmatch(p.name)]
