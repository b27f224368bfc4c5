"""Values that several unit tests start from: a real row, and its real lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stackwright.core.components.table import FILES, TEMPLATES
from stackwright.core.facts import patches
from stackwright.core.model.row import Cell, Lock, Mpi, Package, ProviderName, Stack
from stackwright.core.render.sources import Sources
from stackwright.core.resolve import lockfile, resolve

ROOT = Path(__file__).parents[3]
SERIES = patches.load_series(ROOT / "patches" / "horovod")
SOURCES = Sources.load(ROOT, SERIES, files=FILES, templates=TEMPLATES)
ALWAYS = tuple(patch.file for patch in SERIES.patches if not patch.when)
"""The patches that every row has."""
LOCK = lockfile.read(ROOT / "locks" / "cuda12-torch.txt")

CELL = Cell(
    id="cuda12-torch",
    provider=ProviderName.DEBIAN,
    os="debian-13",
    python="3.13",
    mpi=Mpi.of("openmpi", "5.0"),
    cuda="12.4",
    gcc="13",
    components=(("horovod", "0.28.1"), ("torch", "2.6.0")),
    gpu_arch=("7.0", "8.0", "9.0"),
)


def cell(**values: Any) -> Cell:
    return CELL.changed(values)


def lock_with(**versions: str) -> Lock:
    """The real lock with some packages added or replaced: `nvidia_nccl_cu13="2.27.7"`."""
    changed = {name.replace("_", "-"): version for name, version in versions.items()}
    kept = tuple(package for package in LOCK.packages if package.name not in changed)
    added = tuple(Package(name=name, version=version) for name, version in changed.items())
    return replace(LOCK, packages=kept + added)


def stack(**values: Any) -> Stack:
    found = resolve.resolve(CELL, LOCK, SERIES)
    assert isinstance(found, Stack)
    return replace(found, **values)
