"""Versions in the image that must be compatible with the cluster: MPI, UCX/PMIx, glibc, CUDA."""

from __future__ import annotations

from dataclasses import dataclass

from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.model.row import Mpi, MpiFlavour, Stack

BELOW: dict[str, tuple[str, str, str]] = {
    "debian-11": ("4.0.0", "1.10.0", "1.11.0"),
    "debian-12": ("4.2.2", "1.13.1", "1.17.0"),
    "debian-13": ("5.0.7", "1.18.1", "2.1.0"),
}
"""PMIx, UCX and libfabric of a release: libpmix2, libucx0 and libfabric1 in its package index. A release that
is not here has ones that were not read."""

DRIVES = {"debian-13": ("efa", "psm2")}
"""Providers of a release's libfabric for fabrics without verbs: fi_info --list. Debian's has none for cxi."""

VERSIONED = ("2.5", "2.0", "1.20", "1.14", "1.13", "1.12", "1.9")
"""Releases from which on libfabric has new versions of its functions, which a program compiled with it asks
for (FABRIC_1.9 to FABRIC_1.3): libfabric.map.in of its tags."""

LIBRARY = {MpiFlavour.OPENMPI: "libmpi.so.40", MpiFlavour.MPICH: "libmpich.so.12"}
"""Open MPI 4 and 5 have the same name; MPICH's is Debian's name for the library of MPICH's ABI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """``cuda`` is what the frameworks load; ``pmix``, ``ucx``, ``libfabric`` are empty where not known.
    ``plugin``: it has NCCL's plugin for libfabric, whose own ``providers`` it then uses.
    ``machine`` is the kernel's word for the platform, ``cpu_features`` those that its programs use.

    Debian's MPICH is built on UCX alone (mpichversion), so that the other two are not its: libfabric is then
    that of NCCL's plugin.
    """

    row: str
    mpi: Mpi
    library: str
    pmix: str
    ucx: str
    libfabric: str
    glibc: str
    cuda: str
    gpu_arch: tuple[str, ...]
    machine: str
    cpu_features: tuple[str, ...]
    plugin: bool = False
    providers: tuple[str, ...] = ()

    @property
    def oldest_libfabric(self) -> str:
        """Return the oldest libfabric that can take the place of the image's, "" where that is not known."""
        own = as_numbers(self.libfabric or "0")
        return next((release for release in VERSIONED if own >= as_numbers(release)), "")

    @property
    def mpi_major(self) -> int:
        return int(self.mpi.version.split(".")[0])


LABELS = {
    "pmix": ("libpmix2", "libpmix2t64"),
    "ucx": ("libucx0",),
    "libfabric": ("libfabric1",),
    "glibc": ("libc6",),
}
"""Each is a label org.stackwright.NAME, and names the distribution's package that it tells the version of."""


def labels(stack: Stack) -> tuple[tuple[str, str], ...]:
    """Return the same as labels, to be read without the image; what is not known has no label."""
    image = of(stack)
    mpi = (
        ("mpi.flavour", image.mpi.flavour),
        ("mpi.version", image.mpi.version),
        ("mpi.library", image.library),
    )
    values = (*mpi, *((name, getattr(image, name)) for name in LABELS))
    return tuple((f"org.stackwright.{name}", value) for name, value in values if value)


def of(stack: Stack) -> Image:
    pmix, ucx, libfabric = BELOW.get(stack.os, ("", "", ""))
    if stack.mpi.flavour is MpiFlavour.MPICH:
        pmix, libfabric = "", libfabric if stack.plugin else ""
    glibc = next(
        (distribution.glibc for distribution in distributions.DISTRIBUTIONS if distribution.id == stack.os),
        "",
    )
    return Image(
        row=stack.id, mpi=stack.mpi, library=LIBRARY[stack.mpi.flavour], pmix=pmix, ucx=ucx,
        libfabric=libfabric, glibc=glibc, cuda=stack.cuda_runtime, gpu_arch=stack.gpu_arch,
        machine=stack.platform.machine, cpu_features=stack.platform.cpu_features, plugin=bool(stack.plugin),
        providers=DRIVES.get(stack.os, ()) if stack.plugin else (),
    )  # fmt: skip
