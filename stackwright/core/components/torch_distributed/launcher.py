"""``torchrun`` on each node, in its container: they connect to the first one, without MPI and without ssh."""

from __future__ import annotations

from stackwright.core.errors import UsageError
from stackwright.core.launch.fabric import nccl
from stackwright.core.launch.mpirun import DEVICES
from stackwright.core.launch.recipe import Line, Option, Site, Target, Variable

WHEN = (
    "where you start the container of each node yourself: the same line in all of them, in any order; they "
    "wait for each other. The program calls torch.distributed.init_process_group()"
)
PORT = 29500
"""torchrun's own default, on the first node."""


def torchrun(target: Target, site: Site, command: tuple[str, ...]) -> Line:
    """UsageError where the nodes have different numbers of ranks: then no line would be right on all."""
    if len({host.slots for host in site.hosts}) > 1:
        raise UsageError(
            f"--torchrun starts as many ranks on each node, and --hosts says {site.host_list}",
            hint="give each host the same number",
        )
    first, ranks = site.hosts[0].name, site.hosts[0].slots
    options = (
        Option((f"--nnodes={len(site.hosts)}",), "how many nodes: it waits until this line runs on all"),
        Option((f"--nproc-per-node={ranks}",), "how many ranks on each node: one per GPU"),
        Option(("--rdzv-backend=c10d",), "the nodes find each other without another program"),
        Option((f"--rdzv-endpoint={first}:{PORT}",), "the first node, by a name that all of them know"),
        Option((f"--rdzv-id={target.row}",), "the job's name, so that another job there is not joined"),
        Option(("--no-python",), "the command below is started as it is"),
    )
    return Line(
        program="torchrun", variables=tuple(_variables(target, site)), options=options, command=command,
        when=WHEN, before=_before(target, site),
    )  # fmt: skip


def _variables(target: Target, site: Site) -> tuple[Variable, ...]:
    """Gloo, by which CPUs communicate, has a variable of its own for the interface."""
    why = "Gloo, which sums on CPUs, connects on this interface"
    gloo = (Variable("GLOO_SOCKET_IFNAME", site.interface, why),) if site.interface else ()
    return (*nccl(target, site), *gloo)


def _before(target: Target, site: Site) -> tuple[str, ...]:
    return (
        "First, on each host, next to your program:",
        f"  docker run -it --rm --network host --gpus all --shm-size 1g {DEVICES[site.fabric]}"
        f'--user "$(id -u):$(id -g)" -v .:/workspace {target.image} bash',
        "Then in each of these containers:",
    )
