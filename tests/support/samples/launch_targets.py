"""Rows that training is started in."""

from __future__ import annotations

from rows import stack

from stackwright.core.launch import launchers
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
