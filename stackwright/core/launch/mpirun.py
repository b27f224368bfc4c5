"""``mpirun`` in the first of several containers; it starts the others' ranks over ssh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stackwright.core.launch.fabric import (
    BIND_WHY,
    PATH_WHY,
    PROVEN,
    RANKS_WHY,
    SSH_WHY,
    nccl,
    proofs,
    ssh_words,
    summary,
    ucx,
)
from stackwright.core.launch.recipe import Fabric, Line, Option, Site, Target, Variable
from stackwright.core.model.row import MpiFlavour

DEVICES = {
    Fabric.AUTO: "--ulimit memlock=-1 $(test ! -e /dev/infiniband || echo --device /dev/infiniband) ",
    Fabric.TCP: "",
    Fabric.INFINIBAND: "--ulimit memlock=-1 --device /dev/infiniband ",
    Fabric.OFI: "--ulimit memlock=-1 "
    "$(ls -d /dev/infiniband /dev/cxi* /dev/hfi1_* 2>/dev/null | sed 's/^/--device /') ",
}
"""What a container needs of its host to reach InfiniBand, or EFA, Slingshot and Omni-Path."""
WHEN = "where you start the containers of each node yourself, with Docker and without a scheduler"


def mpirun(target: Target, site: Site, command: tuple[str, ...]) -> Line:
    made = {MpiFlavour.OPENMPI: openmpi, MpiFlavour.MPICH: mpich}[target.mpi.flavour](target, site, command)
    return proven(made, site)


def proven(line: Line, site: Site) -> Line:
    """With its proofs where the site has a fabric that they can miss: else it stays one line."""
    checks = tuple(proofs(site, str(site.ranks))) if site.fabric in PROVEN else ()
    return replace(line, proofs=checks, summary=summary(site, str(site.ranks)))


def counted(site: Site, hosts_option: str) -> tuple[Option, ...]:
    return (
        Option(("-np", str(site.ranks)), RANKS_WHY),
        Option((hosts_option, site.host_list), "how many of them on which host"),
    )


def openmpi(target: Target, site: Site, command: tuple[str, ...]) -> Line:
    """Open MPI 5 leaves the start of ranks to PRRTE, whose parameters have other names.

    The names are those that ompi_info and prte_info of Debian's 4.1.4 and 5.0.7 print.
    """
    options = (*counted(site, "-H"), *openmpi_options(target, site))
    return Line(program="mpirun", options=options, command=command, when=WHEN, before=before(target, site))


def openmpi_options(target: Target, site: Site) -> tuple[Option, ...]:
    """Return all but the ranks and where they are."""
    modern = target.mpi_major >= 5
    variables = (*nccl(target, site), *(ucx(site) if site.fabric is Fabric.INFINIBAND else ()))
    return (
        Option(("--bind-to", "none"), BIND_WHY),
        Option(("--mca", "plm_ssh_args" if modern else "plm_rsh_args", " ".join(ssh_words(site))), SSH_WHY),
        *_openmpi_way(site, modern=modern),
        Option(("-x", "PATH"), PATH_WHY),
        *(Option(("-x", f"{variable.name}={variable.value}"), variable.why) for variable in variables),
    )


def _openmpi_way(site: Site, *, modern: bool) -> Iterator[Option]:
    if site.interface:
        own = ("--prtemca", "prte_if_include") if modern else ("--mca", "oob_tcp_if_include")
        yield Option((*own, site.interface), "mpirun and its daemons speak to each other on this interface")
    for name, value, why in openmpi_transport(site, modern=modern):
        yield Option(("--mca", name, value), why)


def openmpi_transport(site: Site, *, modern: bool) -> Iterator[tuple[str, str, str]]:
    """Parameters of Open MPI that choose the way between ranks: name, value, reason."""
    if site.fabric is Fabric.INFINIBAND:
        why = "MPI over UCX: Debian's openmpi-mca-params.conf forbids it, and TCP would be taken in silence"
        yield "pml", "ucx", why
        return
    if site.fabric is Fabric.OFI:
        yield "pml", "cm", "MPI hands its messages to a library that sorts them itself, as libfabric does"
        yield "mtl", "ofi", "that library is libfabric: fail rather than take another way"
        if site.provider:
            common = "opal_common_ofi" if modern else "mtl_ofi"
            yield f"{common}_provider_include", site.provider, "the only provider that MPI may use"
        return
    if site.fabric is Fabric.TCP:
        memory = "sm" if modern else "vader"
        yield "pml", "ob1", "MPI over the transports that btl names, and not over UCX"
        yield "btl", f"self,{memory},tcp", "TCP between hosts, shared memory on one"
    else:
        why = (
            "MPI chooses: InfiniBand, by UCX, where the nodes have it, and else TCP; "
            "Debian's openmpi-mca-params.conf would rule UCX out"
        )
        yield "pml", "^v", why
    if site.interface:
        why = "else MPI tries every interface, and hangs on a bridge that has the same address on each host"
        yield "btl_tcp_if_include", site.interface, why


def mpich(target: Target, site: Site, command: tuple[str, ...]) -> Line:
    """Hydra reads ssh's options from a variable only."""
    interface = (
        (Option(("-iface", site.interface), "mpirun and its proxies speak to each other on this interface"),)
        if site.interface
        else ()
    )
    options = (*counted(site, "-hosts"), *mpich_options(target, site, interface))
    return Line(
        program="mpirun", variables=(mpich_ssh(site),), options=options, command=command,
        when=WHEN, before=before(target, site),
    )  # fmt: skip


def mpich_ssh(site: Site) -> Variable:
    return Variable("HYDRA_LAUNCHER_EXTRA_ARGS", " ".join(ssh_words(site)), SSH_WHY)


def mpich_options(target: Target, site: Site, interface: tuple[Option, ...] = ()) -> tuple[Option, ...]:
    variables = (*ucx(site), *nccl(target, site))
    return (
        Option(("-bind-to", "none"), BIND_WHY),
        *interface,
        Option(("-genvall",), PATH_WHY),
        *(Option(("-genv", variable.name, variable.value), variable.why) for variable in variables),
    )


def before(target: Target, site: Site) -> tuple[str, ...]:
    """How the containers are started that the line connects."""
    fabric = DEVICES[site.fabric]
    return (
        "First, on each host, next to your program, as the owner of the job's keys in ./keys:",
        f"  docker run -d --name job --network host --gpus all --shm-size 1g {fabric}"
        '--user "$(id -u):$(id -g)" '
        "-v .:/workspace -v ./keys:/keys:ro -e AUTHORIZED_KEYS=/keys/id_ed25519.pub "
        f"{target.image} sshd-as-user {site.ssh_port}",
        "Then on the first one, in its container (docker exec -it job bash):",
    )
