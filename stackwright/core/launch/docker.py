"""``docker run``: all ranks in one container of one host."""

from __future__ import annotations

from stackwright.core.launch.fabric import BIND_WHY, RANKS_WHY, SHM_WHY
from stackwright.core.launch.recipe import Line, Option, Site, Target
from stackwright.core.model.row import MpiFlavour
from stackwright.core.model.target import CUDA

OWN_WHY = "as you on the host, so that what it writes is yours; as root, leave it out: mpirun would refuse"
WHEN = "on one host with Docker: a workstation, or a first try before the cluster"


def docker(target: Target, site: Site, command: tuple[str, ...]) -> Line:
    bind = "-bind-to" if target.mpi.flavour is MpiFlavour.MPICH else "--bind-to"
    options = (
        Option(
            ("run", "--rm"), "the container goes when the training ends; what it wrote to /workspace stays"
        ),
        Option(("--gpus", "all"), f"needs {CUDA.vendor}'s container toolkit on the host"),
        Option(("--shm-size", "1g"), SHM_WHY),
        Option(("--ulimit", "memlock=-1"), "NCCL pins the memory that it sends from"),
        Option(("--user=$(id -u):$(id -g)",), OWN_WHY, expands=True),
        Option(("-v", ".:/workspace"), "the folder with your program"),
        Option((target.image,), "the image of the row"),
        Option(("mpirun", "-np", str(site.ranks)), RANKS_WHY),
        Option((bind, "none"), BIND_WHY),
    )
    return Line(program="docker", options=options, command=command, when=WHEN)
