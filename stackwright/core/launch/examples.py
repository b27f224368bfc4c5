"""How a row is started over several nodes, for the page: each launcher's recipe, with example numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stackwright.core.components.table import COMMUNICATION, LAUNCHERS, started_by
from stackwright.core.launch import launchers
from stackwright.core.launch.recipe import Host, Site, mpi_of
from stackwright.core.model.record import Record
from stackwright.core.resolve.resolve import nccl_code

TWO = Site(nodes=2, per_node=4)
NAMED = Site(hosts=(Host(name="node1", slots=4), Host(name="node2", slots=4)))
"""The example: two nodes of four GPUs."""

WAYS = (
    ("Slurm", "slurm", TWO),
    ("Slurm, with the cluster's own MPI", "slurm", replace(TWO, host_mpi="/opt/mpi")),
    ("Slurm, with pyxis", "slurm", replace(TWO, pyxis=True)),
    ("Slurm, with an environment definition file", "slurm", replace(TWO, edf=True)),
    ("Slurm, with podman-hpc", "slurm", replace(TWO, podman_hpc=True)),
    ("Kubernetes", "kubernetes", TWO),
    ("mpirun", "mpirun", NAMED),
    *((name, name, NAMED) for layer in COMMUNICATION for name, _ in layer.launchers),
    ("Docker, on one node", "docker", Site(per_node=4)),
)
"""What a reader calls it, the launcher, and the example's nodes."""


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    when: str
    text: str


def recipes(record: Record, image: str) -> tuple[Recipe, ...]:
    """Empty where the record does not say which MPI and NCCL the row has."""
    return tuple(_recipes(record, image))


def _recipes(record: Record, image: str) -> Iterator[Recipe]:
    declared = dict(record.declared)
    mpi = mpi_of(declared.get("mpi.flavour", ""), declared.get("mpi.version", ""))
    nccl = declared.get("nccl", "")
    if mpi is None or not re.fullmatch(r"\d+(\.\d+){2}", nccl, re.ASCII):
        return
    user = declared.get("user", "")
    target = launchers.Target(
        row=record.row, mpi=mpi, nccl_code=nccl_code(nccl), image=image, sif=f"{record.row}.sif",
        user=user if re.fullmatch(r"[1-9]\d*:[1-9]\d*", user, re.ASCII) else "",
    )  # fmt: skip
    for name, launcher, site in WAYS:
        if launcher in LAUNCHERS and launcher not in started_by(declared):
            continue
        made = launchers.LAUNCHERS[launcher].make(target, site, launchers.TRAIN)
        yield Recipe(name, made.when, launchers.script(made))
