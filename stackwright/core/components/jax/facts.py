"""Which plugins for CUDA each release of JAX has, and what is known of JAX on a CPU. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stackwright.core.facts import entries
from stackwright.core.facts.provenance import documented, read, unchecked
from stackwright.core.facts.wheels import Wheels
from stackwright.core.model.row import Cell
from stackwright.core.model.target import AMD64, ARM64, platform_of
from stackwright.core.rules.derived import cuda_of

LAUNCHERS = ("mpi", "srun")
"""What the collective probe starts ranks with; srun: by the variables that it sets, which JAX reads."""

WITHOUT_GPU = ("No visible GPU devices", "no supported devices found for platform CUDA")
"""What the plugin says where there is no GPU: without a driver, and with one (xla/pjrt/gpu)."""

OLDEST = "0.7"
UNTRIED = unchecked("the probe of JAX before 0.7", "2026-11-22")

INDEX = read("the package index: jax-cuda12-plugin and jax-cuda13-plugin, their requirements", "2026-11-22")
CODE = read("the package index: the code for GPUs in _prng.so of each plugin", "2026-11-22")
PARTS = documented("docs.jax.dev, installation: jax, jaxlib and the plugins are of one release", "2026-11-22")
LOADS = read("jax_plugins/xla_cuda13/__init__.py of JAX 0.12.0.1: the libraries that it loads", "2026-11-22")
WITHOUT_DRIVER = read(
    "nvidia-cuda-cupti 13.2.86, asked by JAX 0.12.0.1 without a driver; 13.5.25 answers that there is none",
    "2026-11-22",
)
SHARED_GPU = documented("docs.jax.dev, GPU memory allocation", "2026-11-22")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """For one major release of CUDA: which versions it takes, as in ">=9.8,<10.0", and its code for GPUs."""

    cuda: str
    cudnn: str
    nccl: str
    code: str


def _describe(minor: str, value: Mapping[str, Any]) -> dict[str, Any]:
    majors = tuple(value["plugins"])
    return {"python": value["python"], "glibc": value["glibc"], "builds": majors, "cuda": majors[-1]}


WHEELS = Wheels.load("jax", _describe, others=(ARM64,))
"""``builds`` are the major releases of CUDA that it has a plugin for."""

PLUGINS = {
    platform: {
        entry.key: {major: Plugin(**plugin) for major, plugin in entry.value["plugins"].items()}
        for entry in entries.load(f"jax{platform.suffix}")
    }
    for platform in (AMD64, ARM64)
}
"""By platform, by release, and by the major release of CUDA."""


def major_of(cell: Cell) -> str | None:
    """Return the major release of CUDA that the row's plugin is of: that of its compiler."""
    cuda = cuda_of(cell)
    return cuda.split(".")[0] if cuda else None


def plugin_of(cell: Cell) -> tuple[str, Plugin] | None:
    """Return the row's JAX and its plugin; None where the tables know none."""
    version, major = cell.value("jax"), major_of(cell)
    entry = WHEELS.on(cell.platform).of(version) if version else None
    found = PLUGINS[platform_of(cell.platform)][entry.newest].get(major or "") if entry else None
    return (str(version), found) if found else None
