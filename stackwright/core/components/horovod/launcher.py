"""``horovodrun`` by Gloo, in the first of several containers: no MPI takes part."""

from __future__ import annotations

from stackwright.core.launch.fabric import nccl
from stackwright.core.launch.mpirun import before, counted
from stackwright.core.launch.recipe import Line, Option, Site, Target

WHEN = "as --mpirun, where MPI between the nodes is the problem: the ranks connect by Gloo, over TCP"


def horovodrun(target: Target, site: Site, command: tuple[str, ...]) -> Line:
    """horovodrun hands its own environment to the ranks, and the interface to NCCL."""
    variables = tuple(variable for variable in nccl(target, site) if variable.name != "NCCL_SOCKET_IFNAME")
    options = [
        Option(("--gloo",), "no MPI: the ranks find each other through horovodrun"),
        *counted(site, "-H"),
        Option(("-p", str(site.ssh_port)), "where sshd-as-user listens in the other containers"),
    ]
    if site.ssh_key:
        options.append(Option(("-i", site.ssh_key), "the key that it lets in"))
    if site.interface:
        why = (
            "Gloo and NCCL connect on this interface (HOROVOD_GLOO_IFACE, NCCL_SOCKET_IFNAME); "
            "else horovodrun asks the hosts which interfaces reach each other"
        )
        options.append(Option(("--network-interfaces", site.interface), why))
    return Line(
        program="horovodrun", variables=variables, options=tuple(options), command=command,
        when=WHEN, before=before(target, site),
    )  # fmt: skip
