"""Rows that training is started in."""

from __future__ import annotations

from typing import Any

from rows import stack

from stackwright.core.launch import launchers
from stackwright.core.launch.recipe import Batch
from stackwright.core.model.row import Mpi

TARGETS = {
    which: launchers.Target.of(stack(mpi=mpi), "stackwright/row:0123456789ab")
    for which, mpi in {
        "openmpi 5": Mpi.of("openmpi", "5.0.7"),
        "openmpi 4": Mpi.of("openmpi", "4.1.4"),
        "mpich": Mpi.of("mpich", "4.2.1"),
    }.items()
}
ROW = "cuda12-torch"


def batch(which: str, command: tuple[str, ...] = ("true",), **site: Any) -> Batch:
    """The script for sbatch of a site that is described as on the command line."""
    made = launchers.LAUNCHERS["slurm"].make(TARGETS[which], launchers.site(**site), command)
    assert isinstance(made, Batch)
    return made
