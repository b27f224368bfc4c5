"""mpi4py: MPI in Python, compiled against the row's MPI."""

from __future__ import annotations

from stackwright.core.components.component import Component, Field, Kind
from stackwright.core.components.mpi4py import checks
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell, Stack, Tier


def words(stack: Stack, gpus: int) -> dict[Tier, tuple[str, ...]]:
    return {
        Tier.BUILT: (f"built={checks.NAME}",),
        Tier.COLLECTIVE: tuple(f"collective={run}" for run in checks.RUNS),
    }


def compiled(cell: Cell) -> tuple[Addition, ...]:
    """The wheel of the index loads whichever MPI it finds first: the row's is compiled against its own."""
    return (Addition(requirement=f"mpi4py=={cell.value('mpi4py')}", modules=("mpi4py.MPI",)),)


MPI4PY = Component(
    name=checks.NAME,
    title="mpi4py",
    kind=Kind.COMMUNICATION,
    package="mpi4py",
    license="BSD-3-Clause",
    source="https://github.com/mpi4py/mpi4py",
    field=Field(
        description="mpi4py, compiled against the row's MPI.", example="4.1.2", prefix="mpi4py", cost=2.3,
        releases=("4.1.2",),
    ),
    indexed=(("mpi4py", "3.0"),),
    imports=lambda stack: ("mpi4py.MPI",),
    words=words,
    runs=lambda stack: checks.RUNS,
    joins=lambda stack: "mpi4py.MPI",
    trains=False,
    measures="python -m mpi4py.bench pingpong",
    loads_cuda=False,
    checks=checks.RULES,
    compiled=compiled,
)  # fmt: skip
