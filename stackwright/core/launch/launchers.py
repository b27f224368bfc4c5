"""What starts training of one image over several ranks, with the reason of each setting.

Pure. What a launcher's recipe consists of is a tuple of settings, so that no word of it is unexplained;
a launcher is one module with one function, and a line in LAUNCHERS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stackwright.core.components.table import COMMUNICATION
from stackwright.core.errors import UsageError
from stackwright.core.launch.docker import docker
from stackwright.core.launch.kubernetes import kubernetes
from stackwright.core.launch.mpirun import mpirun
from stackwright.core.launch.options import MOST_RANKS, hosts, site, suits
from stackwright.core.launch.recipe import (
    BENCHMARK,
    FABRICS,
    SSH_PORT,
    TRAIN,
    Launch,
    Line,
    Site,
    Target,
    document,
    files,
    script,
)
from stackwright.core.launch.slurm import slurm

__all__ = [
    "BENCHMARK", "FABRICS", "LAUNCHERS", "MOST_RANKS", "SSH_PORT", "TRAIN", "Launch", "Line", "Site",
    "Target", "chosen", "document", "files", "hosts", "script", "site", "suits",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launcher:
    """``makes`` is the word of its help; ``reads`` the options that mean something to it."""

    make: Callable[[Target, Site, tuple[str, ...]], Launch]
    makes: str
    reads: frozenset[str]


_FABRIC = ("interface", "fabric", "hca", "provider")
_NAMED = frozenset(("hosts", *_FABRIC))
_BY_SSH = _NAMED | {"ssh-port", "ssh-key"}
_MEASURED = frozenset(("benchmark", "link-speed"))

LAUNCHERS: dict[str, Launcher] = {
    "mpirun": Launcher(mpirun, "the line of mpirun", _BY_SSH | _MEASURED),
    **{
        name: Launcher(make, f"the line of {name}", _NAMED if name in layer.on_each_node else _BY_SSH)
        for layer in COMMUNICATION
        for name, make in layer.launchers
    },
    "docker": Launcher(docker, "the line of docker run, on one host", frozenset(("per-node",))),
    "slurm": Launcher(
        slurm,
        "a script for sbatch",
        frozenset(("nodes", "per-node", "host-mpi", "pyxis", "edf", "podman-hpc", *_FABRIC)) | _MEASURED,
    ),
    "kubernetes": Launcher(
        kubernetes, "an MPIJob for the MPI Operator", frozenset(("nodes", "per-node", *_FABRIC))
    ),
}
"""By the name of the option that asks for it."""


def chosen(asked: Sequence[str]) -> str:
    """Return the one launcher that was asked for."""
    names = " or ".join(f"--{name}" for name in LAUNCHERS)
    if len(asked) != 1:
        raise UsageError(f"{len(asked)} launchers are named, and one is needed", hint=f"add {names}")
    return asked[0]
