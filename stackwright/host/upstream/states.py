"""The state of a distribution for a row: its release and the versions of its packages, now."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stackwright.core.errors import LockError
from stackwright.core.facts import distributions
from stackwright.core.model.row import Base, Cell, Package, ProviderName
from stackwright.core.model.site import Mirror
from stackwright.core.model.target import platform_of
from stackwright.core.resolve.bases import NVCC, nvidia_release
from stackwright.host.upstream.mirror import read_suite


def _debian(cell: Cell, packages: tuple[str, ...], mirror: Mirror | None) -> Base:
    if not mirror:
        raise LockError("no mirror of the distribution is known", hint="set STACKWRIGHT_APT_MIRROR")
    return read_suite(mirror, distributions.known(cell.os), packages, platform_of(cell.platform))


def _nvidia(cell: Cell, packages: tuple[str, ...], mirror: Mirror | None) -> Base:
    """From a mirror of Ubuntu; without one from the tables, as exactly as they know it."""
    ubuntu, tag = distributions.known(cell.os), nvidia_release(cell)
    wanted = tuple(name for name in packages if name != NVCC)
    found = read_suite(mirror, ubuntu, wanted) if mirror else _of_tables(ubuntu, wanted)
    known = (*found.packages, Package(name=NVCC, version=tag))
    return Base(
        os=found.os,
        suite=found.suite,
        release=found.release,
        date=found.date,
        digest=found.digest,
        packages=tuple(sorted(known, key=lambda package: package.name)),
    )


def _of_tables(ubuntu: distributions.Distribution, names: tuple[str, ...]) -> Base:
    versions = {"libc6": ubuntu.glibc, "openmpi-bin": ubuntu.openmpi, "mpich": ubuntu.mpich}
    versions |= {f"gcc-{gcc}": gcc for gcc in ubuntu.gcc}
    versions |= {f"python{python}": python for python in (ubuntu.python, *ubuntu.pythons)}
    if unknown := [name for name in names if name not in versions]:
        hint = "set STACKWRIGHT_UBUNTU_MIRROR, or mirrors.ubuntu in site.yaml"
        raise LockError(f"no mirror is known that has a version of {', '.join(unknown)}", hint=hint)
    return Base(
        os=ubuntu.id,
        suite=ubuntu.suite,
        release=ubuntu.id.partition("-")[2],
        date="",
        digest="",
        packages=tuple(Package(name=name, version=versions[name]) for name in names),
    )


STATE: Mapping[str, Callable[[Cell, tuple[str, ...], Mirror | None], Base]] = {
    ProviderName.DEBIAN: _debian,
    ProviderName.NVIDIA: _nvidia,
}
"""By provider. It asks for the versions of some packages; the mirror is None where the site has none."""
