"""Facts about versions that no index knows, each with where it was read. Data only."""

from __future__ import annotations

from dataclasses import dataclass

SPACK = "spack-packages, build_systems/cuda.py"
DEBIAN = "the distribution's package index"
NVIDIA_COMPAT = "NVIDIA, CUDA Compatibility: minor version compatibility"
HOROVOD_INSTALL = "horovod 0.28.1, docs/install.rst and setup.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What a release of a distribution offers. ``cuda`` is None where it packages no CUDA compiler.

    ``image`` is the name that a registry gives the release; ``glibc`` decides which wheels fit.
    """

    id: str
    suite: str
    image: str
    glibc: str
    python: str
    gcc: tuple[str, ...]
    cuda: str | None
    openmpi: str
    mpich: str
    names: tuple[tuple[str, str], ...] = ()

    def package(self, name: str) -> str:
        """This release's name of a distribution package that was renamed at some point."""
        return dict(self.names).get(name, name)


DISTRIBUTIONS = (
    Distribution(
        id="debian-11", suite="bullseye", image="debian:bullseye-slim", glibc="2.31", python="3.9",
        gcc=("9", "10"), cuda="11.2", openmpi="4.1.0", mpich="3.4",
    ),
    Distribution(
        id="debian-12", suite="bookworm", image="debian:bookworm-slim", glibc="2.36", python="3.11",
        gcc=("11", "12"), cuda="11.8", openmpi="4.1.4", mpich="4.0",
    ),
    Distribution(
        id="debian-13", suite="trixie", image="debian:trixie-slim", glibc="2.41", python="3.13",
        gcc=("12", "13", "14"), cuda="12.4", openmpi="5.0.7", mpich="4.2",
        names=(("librdmacm1", "librdmacm1t64"),),
    ),
)  # fmt: skip

CUDA_GCC = (
    # highest CUDA release that the line speaks of, highest gcc that its nvcc accepts
    ("11.0", 9),
    ("11.4", 10),
    ("11.8", 11),
    ("12.3", 12),
    ("12.6", 13),
    ("12.9", 14),
    ("13.2", 15),
)

CUDA_ARCH = (
    # architecture, first and last CUDA release whose nvcc makes code for it
    ("3.5", "7.0", "11.8"),
    ("3.7", "7.0", "11.8"),
    ("5.0", "7.0", "12.9"),
    ("5.2", "7.0", "12.9"),
    ("6.0", "8.0", "12.9"),
    ("6.1", "8.0", "12.9"),
    ("7.0", "9.0", "12.9"),
    ("7.5", "10.0", None),
    ("8.0", "11.0", None),
    ("8.6", "11.1", None),
    ("8.9", "11.8", None),
    ("9.0", "12.0", None),
    ("10.0", "12.8", None),
    ("10.3", "12.9", None),
    ("12.0", "12.8", None),
    ("12.1", "12.9", None),
)

DRIVER_FLOOR = (("11", 450), ("12", 525), ("13", 580))
"""Lowest driver, by CUDA major version, that runs every minor release of it."""

HOROVOD_NEEDS = ("cffi", "cloudpickle", "numpy", "packaging", "psutil", "pyyaml")
"""What the framework environment must hold for Horovod to be compiled and imported."""


def distribution(os: str) -> Distribution | None:
    return next((d for d in DISTRIBUTIONS if d.id == os), None)


def as_numbers(version: str) -> tuple[int, ...]:
    """The numeric head of a version, for comparing releases: "12.4" -> (12, 4)."""
    return tuple(int(part) for part in version.split("+")[0].split(".") if part.isdigit())


def highest_gcc(cuda: str) -> int | None:
    """The newest gcc that this CUDA's nvcc accepts; None for a CUDA that the table does not know."""
    release = as_numbers(cuda)[:2]
    return next((gcc for upto, gcc in CUDA_GCC if release <= as_numbers(upto)), None)


def cuda_range(arch: str) -> tuple[str, str | None] | None:
    """First and last CUDA release that compiles for the architecture (None: still does)."""
    return next(((first, last) for name, first, last in CUDA_ARCH if name == arch), None)
