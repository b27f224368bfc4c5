"""A cluster in which all works, whose programs print what they are told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster_outputs import IBV, LDD, LSCPU, MPIRUN, NVIDIA, OMPI_INFO, PMI, RUNTIME, SLURM
from rows import stack

from stackwright.core.launch.fit import image as images
from stackwright.core.launch.fit.questions import Answer, judge
from stackwright.core.launch.fit.readers import ClusterFacts
from stackwright.core.model.row import Mpi
from stackwright.host import login_node
from stackwright.host.runner import Completed, Runner

OPENMPI = images.of(stack(mpi=Mpi.of("openmpi", "5.0.7"), cuda_runtime="12.4.127"))
OPENMPI_4 = Mpi.of("openmpi", "4.1.4")
OLD = images.of(stack(id="old", mpi=OPENMPI_4, os="debian-12", cuda_runtime="11.8.89"))
MPICH = images.of(stack(id="mpich", mpi=Mpi.of("mpich", "4.2.1")))
WITHOUT_UCX = "  Open MPI: 5.0.7\n  Prefix: /opt/m\n  MCA pml: ob1 (MCA v2)\n"
HEALTHY = {
    "srun --version": SLURM["24.11"],
    "srun --mpi=list": PMI["pmix 5"],
    "srun --help": "Usage: srun [OPTIONS...] executable [args...]\n",
    "mpirun --version": MPIRUN["Open MPI 5"],
    "ompi_info": OMPI_INFO["HPC-X"].replace("4.1.7rc1", "5.0.7"),
    "ibv_devinfo": IBV["InfiniBand"],
    "nvidia-smi": NVIDIA["580"],
    "nvidia-smi --query-gpu=compute_cap --format=csv,noheader": "8.0\n8.0\n",
    "ldd --version": LDD["2.34"],
    "apptainer --version": RUNTIME["apptainer"],
    "uname -r": "5.14.0-362.el9.x86_64\n",
    "lscpu": LSCPU["x86-64"],
}


class Cluster(Runner):
    """Programs that print what they are told, and no others."""

    def __init__(self, said: Mapping[str, str]) -> None:
        super().__init__()
        self.said = said

    def __call__(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        words = tuple(map(str, argv))
        text = self.said.get(" ".join(words))
        if text is None:
            return Completed(argv=words, returncode=127, stdout="", stderr=f"{words[0]}: not found")
        return Completed(argv=words, returncode=0, stdout=text, stderr="")


def seen_on(said: Mapping[str, str]) -> ClusterFacts:
    return login_node.examine(Cluster(said), [stack()]).cluster


def answer(image: images.Image, about: str, **changed: str | None) -> Answer:
    """On the healthy cluster, but for some programs: their name with _ for what is between words."""
    names = {re.sub(r"\W+", "_", key.split("=")[0]): key for key in HEALTHY}
    said = {**HEALTHY, **{names[name]: text for name, text in changed.items() if text is not None}}
    for name, text in changed.items():
        if text is None:
            del said[names[name]]
    (judged,) = judge([image], seen_on(said))
    return next(told for told in judged.answers if told.about == about)
