"""What images are made for and of: platform, accelerator, package manager.

Each is a value that has its own words, so that a second one is a second value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """``architecture`` is the word of OCI and Debian, ``machine`` that of the kernel and of wheels.

    ``cpu_flags`` are those of the compiler. ``elf`` is its number in an ELF file (e_machine).
    """

    os: str
    architecture: str
    machine: str
    title: str
    elf: int
    cpu_flags: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the word of a matrix and of OCI: linux/arm64."""
        return f"{self.os}/{self.architecture}"

    @property
    def named(self) -> str | None:
        """Return the name, or None for the usual platform, which nothing names."""
        return None if self == AMD64 else self.name

    @property
    def suffix(self) -> str:
        """Return what keeps apart what is made for several platforms; empty for the usual one."""
        return "" if self == AMD64 else f"-{self.architecture}"

    @property
    def cpu_features(self) -> tuple[str, ...]:
        """Return what the compiler's flags ask of a processor, as the kernel calls it: avx2."""
        return tuple(flag.removeprefix("-m") for flag in self.cpu_flags if "=" not in flag)

    def manylinux(self, major: int, minor: int) -> str:
        """Return uv's name of the platform with this release of glibc."""
        return f"{self.machine}-manylinux_{major}_{minor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """``runtime`` is the name of its OCI runtime, ``device`` that of its CDI devices and Kubernetes resource.

    ``control`` is there on a host with a driver, one of ``toolkit`` where containers can get a device;
    ``query`` prints driver and devices. ``visible``: the variable that says which devices a container gets.
    """

    vendor: str
    runtime: str
    device: str
    control: str
    toolkit: tuple[str, ...]
    query: str
    visible: str
    capabilities: str
    requirement: str

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of what an image says to the runtime."""
        return (self.visible, self.capabilities, self.requirement)

    def environment(self, requirement: str) -> dict[str, str]:
        """Return what an image says to the runtime: every device, to compute, on drivers that suffice."""
        return dict(zip(self.variables, ("all", "compute,utility", requirement), strict=True))

    def is_wheel(self, name: str) -> bool:
        """Return whether a package of the index is the vendor's."""
        return name.startswith(f"{self.runtime}-")

    def wheel(self, library: str, release: str) -> str:
        """Return the package of a library for a release: ``nvidia-nccl-cu12``."""
        return f"{self.runtime}-{library}-cu{release.split('.')[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageManager:
    """``purl`` is the type of its packages in package URLs.

    ``list_sources`` prints each source of a host as ADDRESS|RELEASE|COMPONENT. ``secret`` is the id by which
    a build mounts the site's sources.
    """

    name: str
    purl: str
    secret: str
    list_sources: tuple[str, ...]

    def index(self, component: str, platform: Platform) -> str:
        """Return the list of packages of a component, below a suite of a mirror."""
        return f"{component}/binary-{platform.architecture}/Packages.xz"

    def sources(
        self,
        address: str,
        suites: Sequence[str],
        components: str,
        key: str,
        *,
        in_lines: bool,
        a_copy: bool = False,
    ) -> str:
        """Return the file that names a mirror: in lines, which old releases read, or in deb822 notation.

        ``a_copy``: what it has was signed for a time that may be over, and is taken all the same.
        """
        if in_lines:
            options = f"signed-by={key}{' check-valid-until=no' if a_copy else ''}"
            return "".join(f"deb [{options}] {address} {suite} {components}\n" for suite in suites)
        past = "Check-Valid-Until: no\n" if a_copy else ""
        return (
            f"Types: deb\nURIs: {address}\nSuites: {' '.join(suites)}\n"
            f"Components: {components}\nSigned-By: {key}\n{past}"
        )


AMD64 = Platform(
    os="linux", architecture="amd64", machine="x86_64", title="x86-64", elf=62,
    cpu_flags=("-mavx2", "-mf16c", "-mfma"),
)  # fmt: skip
"""Every server with a supported GPU has these; without flags a build takes those of the build host."""

ARM64 = Platform(
    os="linux", architecture="arm64", machine="aarch64", title="64-bit Arm", elf=183,
    cpu_flags=("-march=armv8-a",),
)  # fmt: skip
"""What the distribution and the wheels are compiled for. A later CPU's atomics are used where they are there:
gcc asks for them at run time (-moutline-atomics, its default)."""

PLATFORMS = {platform.name: platform for platform in (AMD64, ARM64)}
"""By the value of a row's field; a row without one is for the first."""


def platform_of(name: str | None) -> Platform:
    """Return the platform of a row that names it, or leaves it out."""
    return PLATFORMS[name] if name else AMD64


CUDA = Accelerator(
    vendor="NVIDIA", runtime="nvidia", device="nvidia.com/gpu", control="/dev/nvidiactl",
    toolkit=("nvidia-container-runtime", "nvidia-ctk"), query="nvidia-smi",
    visible="NVIDIA_VISIBLE_DEVICES", capabilities="NVIDIA_DRIVER_CAPABILITIES",
    requirement="NVIDIA_REQUIRE_CUDA",
)  # fmt: skip

APT = PackageManager(
    name="apt", purl="deb", secret="apt-sources",  # noqa: S106 (the name of a file, and no password)
    list_sources=(
        "apt-get", "indextargets", "--no-release-info", "Created-By: Packages",
        "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
    ),
)  # fmt: skip
