"""Facts about compilers, distributions and drivers, each with how it was obtained; and look-ups in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stackwright.core.facts import entries
from stackwright.core.facts.provenance import Provenance, documented, read, unchecked
from stackwright.core.model.row import ProviderName
from stackwright.core.model.target import platform_of

DEBIAN = read("the distribution's package index", "2026-11-20")
PACKAGED = read(f"{DEBIAN.source}; Ubuntu: main and universe, documented", "2026-11-20")
NVIDIA_TAGS = documented(
    "NVIDIA, container-images/cuda: dist, doc/supported-tags.md and unsupported-tags.md as of 2025-08-18; "
    "before 11: replicate/cog, pkg/config/cuda_base_image_tags.json",
    "2026-11-22",
)
NVIDIA_TAGS_LATER = unchecked(
    "nvidia/cuda, tags of the images after CUDA 13.0.0: as public Dockerfiles name them", "2026-11-22"
)
NVIDIA_COMPAT = documented("NVIDIA, CUDA Compatibility: minor version compatibility", "2026-11-20")

UBUNTU = ProviderName.NVIDIA
"""Bases of Ubuntu come from nvidia/cuda."""


PUBLIC = {
    "debian": ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security"),
    "ubuntu": ("http://archive.ubuntu.com/ubuntu", "http://security.ubuntu.com/ubuntu"),
}
"""By family: the mirrors of the packages and of their security fixes. apt checks signatures, not servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What a release of a distribution offers. ``cuda`` is None where it packages no CUDA compiler.

    ``image`` is the name that a registry gives the release; ``glibc`` decides which wheels fit.
    ``provider`` is the one that makes its base from this release; ``pythons`` are further ones, packaged
    besides ``python``. ``lacks`` are packages of our images that it does not have. ``sources`` is where its
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
    fact: Provenance
    names: tuple[tuple[str, str], ...] = ()
    provider: ProviderName = ProviderName.DEBIAN
    pythons: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    sources: str = "/etc/apt/sources.list.d/debian.sources"
    old_pip: bool = False

    @property
    def family(self) -> str:
        """What its mirrors are mirrors of: debian, ubuntu."""
        return self.id.partition("-")[0]

    @property
    def suites(self) -> tuple[str, ...]:
        """Where its packages come from, the later ones the newer. Debian's point releases need one alone."""
        later = ("-security", "-updates") if self.family == "ubuntu" else ()
        return (self.suite, *(self.suite + pocket for pocket in later))

    @property
    def public(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The distribution's own mirrors, as its image on Docker Hub names them, and the suites of each."""
        main, security = PUBLIC[self.family]
        return (main, (self.suite, f"{self.suite}-updates")), (security, (f"{self.suite}-security",))

    @property
    def key(self) -> str:
        """Where the package of keys in an image has those of the distribution."""
        return f"/usr/share/keyrings/{self.family}-archive-keyring.gpg"

    @property
    def components(self) -> str:
        """What its images take packages from."""
        return {"debian": "main", "ubuntu": "main universe"}[self.family]

    @property
    def in_lines(self) -> bool:
        """Whether its sources are in one line each, and not in deb822 notation."""
        return self.sources.endswith(".list")

    def package(self, name: str) -> str:
        """This release's name of a distribution package that was renamed at some point."""
        return dict(self.names).get(name, name)


def _distribution(id: str, **own: Any) -> Distribution:
    """Return what we know of a release for ourselves, with what its mirror says."""
    entry = next(entry for entry in entries.load("distributions") if entry.key == id)
    value = dict(entry.value)
    first, *others = value.pop("python")
    return Distribution(
        id=id, python=first, pythons=tuple(others), gcc=tuple(value.pop("gcc")),
        lacks=tuple(value.pop("lacks")), fact=entry.fact, **value, **own,
    )  # fmt: skip


ONE_LINE = "/etc/apt/sources.list"
RENAMED = (("librdmacm1", "librdmacm1t64"),)

DISTRIBUTIONS = (
    _distribution("debian-11", suite="bullseye", image="debian:bullseye-slim", old_pip=True),
    _distribution("debian-12", suite="bookworm", image="debian:bookworm-slim"),
    _distribution("debian-13", suite="trixie", image="debian:trixie-slim", names=RENAMED),
    _distribution("ubuntu-16.04", suite="xenial", image="ubuntu:16.04", provider=UBUNTU, sources=ONE_LINE,
                  old_pip=True),
    _distribution("ubuntu-18.04", suite="bionic", image="ubuntu:18.04", provider=UBUNTU, sources=ONE_LINE,
                  old_pip=True),
    _distribution("ubuntu-20.04", suite="focal", image="ubuntu:20.04", provider=UBUNTU, sources=ONE_LINE,
                  old_pip=True),
    _distribution("ubuntu-22.04", suite="jammy", image="ubuntu:22.04", provider=UBUNTU, sources=ONE_LINE),
    _distribution("ubuntu-24.04", suite="noble", image="ubuntu:24.04", provider=UBUNTU, names=RENAMED,
                  sources="/etc/apt/sources.list.d/ubuntu.sources"),
)  # fmt: skip

NVIDIA_IMAGES = (
    # Ubuntu, the tags of the devel images that NVIDIA made on it, how that is known
    ("16.04", "8.0 9.0 9.1 9.2 10.0 10.1 10.2 11.0.3 11.1.1 11.2.0 11.2.1 11.2.2 11.3.0 11.3.1", NVIDIA_TAGS),
    (
        "18.04",
        "9.2 10.0 10.1 10.2 11.0.3 11.1.1 11.2.0 11.2.1 11.2.2 11.3.0 11.3.1 11.4.0 11.4.1 11.4.2 11.4.3 "
        "11.5.0 11.5.1 11.5.2 11.6.0 11.6.2 11.7.0 11.7.1 11.8.0 12.0.0 12.0.1 12.1.0",
        NVIDIA_TAGS,
    ),
    (
        "20.04",
        "11.0.3 11.1.1 11.2.0 11.2.1 11.2.2 11.3.0 11.3.1 11.4.0 11.4.1 11.4.2 11.4.3 11.5.0 11.5.1 11.5.2 "
        "11.6.0 11.6.1 11.6.2 11.7.0 11.7.1 11.8.0 12.0.0 12.0.1 12.1.0 12.1.1 12.2.0 12.2.2 12.3.0 12.3.1 "
        "12.3.2 12.4.0 12.4.1 12.5.0 12.5.1 12.6.0 12.6.1 12.6.2 12.6.3 12.8.0 12.8.1 12.9.0 12.9.1",
        NVIDIA_TAGS,
    ),
    (
        "22.04",
        "11.7.0 11.7.1 11.8.0 12.0.0 12.0.1 12.1.0 12.1.1 12.2.0 12.2.2 12.3.0 12.3.1 12.3.2 12.4.0 12.4.1 "
        "12.5.0 12.5.1 12.6.0 12.6.1 12.6.2 12.6.3 12.8.0 12.8.1 12.9.0 12.9.1 13.0.0",
        NVIDIA_TAGS,
    ),
    ("22.04", "13.0.2 13.1.1 13.2.1 13.3.0", NVIDIA_TAGS_LATER),
    (
        "24.04",
        "12.5.1 12.6.0 12.6.1 12.6.2 12.6.3 12.8.0 12.8.1 12.9.0 12.9.1 13.0.0",
        NVIDIA_TAGS,
    ),
    ("24.04", "13.0.2 13.1.1 13.2.1 13.3.0", NVIDIA_TAGS_LATER),
)

LISTED_TO = "13.0.0"
"""The newest CUDA in NVIDIA_TAGS: images of later ones are not checked."""

CUDA_ARCH = {entry.key: entry for entry in entries.load("cuda-arch")}
"""By release of CUDA, the architectures that its nvcc makes code for."""

CUDA_GCC = {entry.key: entry for entry in entries.load("cuda-gcc")}
"""By release of CUDA, the newest gcc that its nvcc accepts."""

NVCC_WHEELS = {entry.key: tuple(entry.value) for entry in entries.load("nvcc-wheels")}
"""CUDA releases whose whole compiler NVIDIA has on the package index; wheels before 13 lack parts of it."""

DRIVER_FLOOR = (("11", 450), ("12", 525), ("13", 580))
"""Lowest driver, by CUDA major version, that runs every minor release of it."""

CUDA11_LIBRARIES = (
    "nvidia-cublas-cu11", "nvidia-cuda-nvrtc-cu11", "nvidia-cuda-runtime-cu11", "nvidia-cudnn-cu11<9",
    "nvidia-cufft-cu11", "nvidia-curand-cu11", "nvidia-cusolver-cu11", "nvidia-cusparse-cu11",
    "nvidia-nccl-cu11", "nvidia-nvtx-cu11",
)  # fmt: skip
"""What wheels of CUDA 11 load and do not require: TensorFlow before 2.14, MXNet, PyTorch before 2.0."""


def nvcc_wheels(platform: str | None) -> tuple[str, ...]:
    """Return the releases for a platform, as a row names it."""
    return NVCC_WHEELS[f"releases{platform_of(platform).suffix}"]


def distribution(os: str) -> Distribution | None:
    return next((d for d in DISTRIBUTIONS if d.id == os), None)


def nvidia_tags(os: str) -> tuple[str, ...]:
    """Return the releases of CUDA that NVIDIA made a devel image of on this release of Ubuntu, in their
    order."""
    return tuple(tag for ubuntu, tags, _ in NVIDIA_IMAGES if f"ubuntu-{ubuntu}" == os for tag in tags.split())


def nvidia_tag(os: str, cuda: str) -> str | None:
    """Return the newest image of the CUDA that a row names, which may leave parts out: 11.8 -> 11.8.0."""
    fitting = [tag for tag in nvidia_tags(os) if tag == cuda or tag.startswith(cuda + ".")]
    return fitting[-1] if fitting else None


def known(os: str) -> Distribution:
    """Of a row that the rules accepted: they reject an unknown distribution."""
    found = distribution(os)
    assert found is not None, os
    return found


def gcc_release(gcc: str) -> str:
    """As the compiler's releases are counted: 13.3.0 -> 13, and 4.9.3 -> 4.9 before 5."""
    major, _, rest = gcc.partition(".")
    return f"{major}.{rest.split('.')[0]}" if int(major) < 5 and rest else major


@lru_cache(maxsize=10_000)
def as_numbers(version: str) -> tuple[int, ...]:
    """Return the numeric head of a version, for comparing releases: "12.4" -> (12, 4)."""
    return tuple(int(part) for part in version.split("+")[0].split(".") if part.isdigit())


def cuda_release(cuda: str) -> str:
    """As the tables name it: 12.4.1 -> 12.4."""
    return ".".join(cuda.split(".")[:2])


def highest_gcc(cuda: str) -> int | None:
    """Return the newest gcc that this CUDA's nvcc accepts; None for a CUDA that the table does not know."""
    entry = CUDA_GCC.get(cuda_release(cuda))
    return int(entry.value) if entry else None


def architectures() -> tuple[str, ...]:
    """Return every compute capability that some release of CUDA makes code for."""
    found = {arch for entry in CUDA_ARCH.values() for arch in entry.value}
    return tuple(sorted(found, key=as_numbers))


def cuda_range(arch: str) -> tuple[str, str | None] | None:
    """First and last CUDA release that compiles for the architecture (None: the newest still does)."""
    releases = [release for release, entry in CUDA_ARCH.items() if arch in entry.value]
    if not releases:
        return None
    newest = next(reversed(CUDA_ARCH))
    return releases[0], None if releases[-1] == newest else releases[-1]
