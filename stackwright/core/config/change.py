"""Differences between two rows: as text, and as options of a command line."""

from __future__ import annotations

import shlex

from stackwright.core.components.table import COMMUNICATION, MODULES, TOOLS
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.added.image import Variable
from stackwright.core.model.row import Cell, Mpi

FIELDS = (
    "provider", "os", "platform", "python", "cuda", "cudnn", "nccl", "gcc", "mpi",
    *(component.name for component in (*COMMUNICATION, *MODULES, *TOOLS)), "gpu_arch", "flavour",
    "fabric", "benchmarks", "test_on_gpu", "pip", "compile", "build-env", "apt", "env", "files", "ports",
    "entrypoint", "user", "wheels",
)  # fmt: skip


def changes(old: Cell, new: Cell) -> tuple[str, ...]:
    """Return the change as text: "gcc 13 instead of 14"."""
    return tuple(
        f"{name} {shown(new.value(name))} instead of {shown(old.value(name))}"
        for name in _differing(old, new)
    )


def settings(old: Cell, new: Cell) -> tuple[str, ...]:
    """Return what ``--set`` takes to make the one from the other: "mpi=openmpi5.0", "gpu_arch=8.0,9.0",
    "torch="."""
    return tuple(f"{name}={written(new.value(name))}" for name in _differing(old, new))


def _differing(old: Cell, new: Cell) -> tuple[str, ...]:
    return tuple(name for name in FIELDS if old.value(name) != new.value(name))


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, Mpi):
        return f"{value.flavour} {value.version}"
    return "none" if value is None else str(value)


def written(value: object) -> str:
    if isinstance(value, tuple):
        words = [shlex.quote(str(entry)) if isinstance(entry, Variable) else str(entry) for entry in value]
        return (" " if isinstance(next(iter(value), None), Addition | Variable) else ",").join(words)
    if isinstance(value, Mpi):
        return f"{value.flavour}{value.version}"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
