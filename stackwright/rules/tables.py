"""Facts about versions that no index knows, each with where it was read. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from stackwright.rules.provenance import Provenance, documented, read, unchecked

SPACK = documented("spack-packages, build_systems/cuda.py", "2026-11-20")
SPACK_OLD = unchecked("spack-packages, build_systems/cuda.py: CUDA before 11.0", "2026-11-20")
DEBIAN = read("the distribution's package index", "2026-11-20")
UBUNTU = documented(
    "the distribution's package index: main and universe of the release and its updates", "2026-11-20"
)
NVIDIA_TAGS = documented(
    "nvidia/cuda, tags of the images: replicate/cog, pkg/config/cuda_compatibility.json and "
    "cuda_base_image_tags.json",
    "2026-11-20",
)
NVIDIA_TAGS_13 = unchecked(
    "nvidia/cuda, tags of the images from CUDA 13.0 on: as public Dockerfiles name them", "2026-11-20"
)
NVIDIA_COMPAT = documented("NVIDIA, CUDA Compatibility: minor version compatibility", "2026-11-20")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What a release of a distribution offers. ``cuda`` is None where it packages no CUDA compiler.

    ``image`` is the name that a registry gives the release; ``glibc`` decides which wheels fit.
    ``provider`` is the one that makes its base from this release; ``pythons`` are further ones, packaged
    beside ``python``. ``lacks`` are packages of our images that it does not have. ``sources`` is where its
    own apt sources are. ``old_pip``: its pip knows no wheel tagged manylinux_X_Y (before 20.3), or
    its venv holds a pkg-resources that is no package of the index.
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
    cmake: str
    names: tuple[tuple[str, str], ...] = ()
    provider: str = "debian"
    pythons: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    sources: str = "/etc/apt/sources.list.d/debian.sources"
    old_pip: bool = False

    @property
    def fact(self) -> Provenance:
        return {"debian": DEBIAN, "ubuntu": UBUNTU}[self.family]

    @property
    def family(self) -> str:
        """What its mirrors are mirrors of: debian, ubuntu."""
        return self.id.partition("-")[0]

    @property
    def suites(self) -> tuple[str, ...]:
        """Where its packages come from, the later ones the newer. Debian's point releases need one alone."""
        later = ("-security", "-updates") if self.family == "ubuntu" else ()
        return (self.suite, *(self.suite + pocket for pocket in later))

    def package(self, name: str) -> str:
        """This release's name of a distribution package that was renamed at some point."""
        return dict(self.names).get(name, name)


UCX = ("libucx0", "ucx-utils")
ONE_LINE = "/etc/apt/sources.list"

DISTRIBUTIONS = (
    Distribution(
        id="debian-11", suite="bullseye", image="debian:bullseye-slim", glibc="2.31", python="3.9",
        gcc=("9", "10"), cuda="11.2", openmpi="4.1.0", mpich="3.4", cmake="3.18", old_pip=True,
    ),
    Distribution(
        id="debian-12", suite="bookworm", image="debian:bookworm-slim", glibc="2.36", python="3.11",
        gcc=("11", "12"), cuda="11.8", openmpi="4.1.4", mpich="4.0", cmake="3.25",
    ),
    Distribution(
        id="debian-13", suite="trixie", image="debian:trixie-slim", glibc="2.41", python="3.13",
        gcc=("12", "13", "14"), cuda="12.4", openmpi="5.0.7", mpich="4.2", cmake="3.31",
        names=(("librdmacm1", "librdmacm1t64"),),
    ),
    Distribution(
        id="ubuntu-16.04", suite="xenial", image="ubuntu:16.04", glibc="2.23", python="3.5",
        gcc=("4.7", "4.8", "4.9", "5"), cuda=None, openmpi="1.10.2", mpich="3.2", provider="nvidia",
        cmake="3.5", lacks=("tini", *UCX), sources=ONE_LINE, old_pip=True,
    ),
    Distribution(
        id="ubuntu-18.04", suite="bionic", image="ubuntu:18.04", glibc="2.27", python="3.6",
        gcc=("4.8", "5", "6", "7", "8"), cuda=None, openmpi="2.1.1", mpich="3.3", provider="nvidia",
        pythons=("3.7", "3.8"), cmake="3.10", lacks=("tini", *UCX), sources=ONE_LINE, old_pip=True,
    ),
    Distribution(
        id="ubuntu-20.04", suite="focal", image="ubuntu:20.04", glibc="2.31", python="3.8",
        gcc=("7", "8", "9", "10"), cuda=None, openmpi="4.0.3", mpich="3.3.2", provider="nvidia",
        pythons=("3.9",), cmake="3.16", lacks=UCX, sources=ONE_LINE, old_pip=True,
    ),
    Distribution(
        id="ubuntu-22.04", suite="jammy", image="ubuntu:22.04", glibc="2.35", python="3.10",
        gcc=("9", "10", "11", "12"), cuda=None, openmpi="4.1.2", mpich="4.0", provider="nvidia",
        pythons=("3.11",), cmake="3.22", sources=ONE_LINE,
    ),
    Distribution(
        id="ubuntu-24.04", suite="noble", image="ubuntu:24.04", glibc="2.39", python="3.12",
        gcc=("9", "10", "11", "12", "13", "14"), cuda=None, openmpi="4.1.6", mpich="4.2.0", provider="nvidia",
        cmake="3.28", sources="/etc/apt/sources.list.d/ubuntu.sources",
        names=(("librdmacm1", "librdmacm1t64"),),
    ),
)  # fmt: skip

NVIDIA_IMAGES = (
    # Ubuntu, the newest tag of each CUDA release of which NVIDIA made a devel image on it
    ("16.04", "8.0 9.0 9.1 9.2 10.0 10.1 10.2 11.0.3 11.1.1 11.2.2 11.3.1"),
    (
        "18.04",
        "9.2 10.0 10.1 10.2 11.0.3 11.1.1 11.2.2 11.3.1 11.4.3 11.5.2 11.6.2 11.7.1 11.8.0 12.0.1",
    ),
    (
        "20.04",
        "11.0.3 11.1.1 11.2.2 11.3.1 11.4.3 11.5.2 11.6.2 11.7.1 11.8.0 12.0.1 12.1.1 12.2.2 12.3.2 12.4.1 "
        "12.5.1 12.6.3 12.8.1 12.9.1",
    ),
    (
        "22.04",
        "11.7.1 11.8.0 12.0.1 12.1.1 12.2.2 12.3.2 12.4.1 12.5.1 12.6.3 12.8.1 12.9.1 13.0.2 13.1.1 13.2.1 "
        "13.3.0",
    ),
    ("24.04", "12.6.3 12.8.1 12.9.1 13.0.2 13.1.1 13.2.1 13.3.0"),
)

CUDA_GCC = (
    # highest CUDA release that the line speaks of, highest gcc that its nvcc accepts
    ("8.0", 5),
    ("9.1", 6),
    ("10.0", 7),
    ("10.2", 8),
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

NVCC_WHEELS = ("13.0", "13.1", "13.2")
"""CUDA releases whose whole compiler NVIDIA has on the package index; wheels before 13 lack parts of it."""

DRIVER_FLOOR = (("11", 450), ("12", 525), ("13", 580))
"""Lowest driver, by CUDA major version, that runs every minor release of it."""

CPU_FLAGS = ("-mavx2", "-mf16c", "-mfma")
"""Every server that holds a supported GPU has these; without flags Horovod takes the build host's own."""

CUDA11_LIBRARIES = (
    "nvidia-cublas-cu11", "nvidia-cuda-nvrtc-cu11", "nvidia-cuda-runtime-cu11", "nvidia-cudnn-cu11<9",
    "nvidia-cufft-cu11", "nvidia-curand-cu11", "nvidia-cusolver-cu11", "nvidia-cusparse-cu11",
    "nvidia-nccl-cu11", "nvidia-nvtx-cu11",
)  # fmt: skip
"""What wheels of CUDA 11 load and do not require: TensorFlow before 2.14, MXNet, PyTorch before 2.0."""

HOROVOD_NEEDS = ("cffi", "cloudpickle", "numpy", "packaging", "psutil", "pyyaml")
"""What the framework environment must hold for Horovod to be compiled and imported."""


def distribution(os: str) -> Distribution | None:
    return next((d for d in DISTRIBUTIONS if d.id == os), None)


def nvidia_tags(os: str) -> tuple[str, ...]:
    """The releases of CUDA that NVIDIA made a devel image of on this release of Ubuntu."""
    return tuple(dict(NVIDIA_IMAGES).get(os.removeprefix("ubuntu-"), "").split())


def nvidia_tag(os: str, cuda: str) -> str | None:
    """The image's own release of the CUDA that a row names, which may leave parts out: 11.8 -> 11.8.0."""
    return next((tag for tag in nvidia_tags(os) if tag == cuda or tag.startswith(cuda + ".")), None)


def known(os: str) -> Distribution:
    """Of a row that the rules accepted: they reject an unknown distribution."""
    found = distribution(os)
    assert found is not None, os
    return found


def gcc_release(gcc: str) -> str:
    """As the compiler's releases are counted: 13.3.0 -> 13, and 4.9.3 -> 4.9 before 5."""
    major, _, rest = gcc.partition(".")
    return f"{major}.{rest.split('.')[0]}" if int(major) < 5 and rest else major


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
