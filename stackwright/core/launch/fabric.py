"""How the ranks find the way between nodes: the settings of NCCL, UCX and ssh that launchers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stackwright.core.launch.carried import bandwidth, nccl_route, world
from stackwright.core.launch.recipe import Fabric, Proof, Site, Target, Variable
from stackwright.core.model.row import MpiFlavour

NCCL_NET_SINCE = 21000
"""NCCL_VERSION_CODE. https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net"""

PROVEN = (Fabric.INFINIBAND, Fabric.OFI)
"""On a site with one of these nothing may go by TCP between nodes."""

SSH_WHY = (
    "how ssh reaches sshd-as-user of the other containers; each makes its host key when it starts, "
    "so it is not known before, and the network between the hosts has to be one that you trust"
)
PATH_WHY = "the image's own PATH: ssh would start ranks without it"
BIND_WHY = "the threads of a rank may use every core: the framework's, the loader's and those of collectives"
RANKS_WHY = "how many ranks in all: one per GPU"
SHM_WHY = "ranks of one node exchange data in /dev/shm, and a container gets 64 MB of it"


def ssh_words(site: Site) -> tuple[str, ...]:
    key = ("-i", site.ssh_key) if site.ssh_key else ()
    unknown = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
    return ("-p", str(site.ssh_port), *key, *unknown)


def nccl(target: Target, site: Site) -> Iterator[Variable]:
    """Yield how NCCL finds the way between GPUs of different hosts."""
    if site.interface:
        why = "NCCL's ranks find each other on this interface, and what goes over TCP goes here"
        yield Variable("NCCL_SOCKET_IFNAME", site.interface, why)
    if site.fabric is Fabric.TCP:
        why = "NCCL over TCP as --fabric tcp asks, also where a host has InfiniBand"
        yield Variable("NCCL_IB_DISABLE", "1", why)
    if site.fabric is Fabric.OFI:
        yield from _ofi(site)
    if site.fabric is not Fabric.INFINIBAND:
        return
    if target.nccl_code >= NCCL_NET_SINCE:
        yield Variable(
            "NCCL_NET", "IB", "fail where InfiniBand is out of reach: by itself NCCL takes TCP then"
        )
    if site.hca:
        yield Variable(
            "NCCL_IB_HCA", f"={site.hca}", "exactly this device and port; without =, all that begin so"
        )
    yield Variable("NCCL_DEBUG", "INFO", "say at the start which way was taken: it should be NET/IB")


def _ofi(site: Site) -> Iterator[Variable]:
    """NCCL compares NCCL_NET with the plugin's name for itself: src/nccl_ofi_interface_nvidia.cpp."""
    yield Variable("NCCL_NET_PLUGIN", "ofi", "NCCL's plugin for libfabric, which is not taken by itself")
    yield Variable(
        "NCCL_NET", "Libfabric", "fail where libfabric is out of reach: by itself NCCL takes TCP then"
    )
    if site.provider:
        yield Variable("FI_PROVIDER", site.provider, "the only provider of libfabric that may be used")
    yield Variable("NCCL_DEBUG", "INFO", "say at the start which way was taken: it should be Libfabric")


def ucx(site: Site) -> Iterator[Variable]:
    """UCX chooses by itself among what is allowed here: among all, if nothing is."""
    device = site.interface
    if site.fabric is Fabric.INFINIBAND:
        yield Variable("UCX_TLS", "rc,sm,self", "MPI by RDMA or shared memory: fail rather than take TCP")
        device = site.hca
    elif site.fabric is Fabric.TCP:
        yield Variable("UCX_TLS", "tcp,sm,self", "MPI by TCP between hosts, by shared memory on one")
    if device:
        yield Variable("UCX_NET_DEVICES", device, "the only network device that MPI may use")


def uses_ucx(target: Target, site: Site) -> bool:
    """Debian's MPICH has nothing else (mpichversion: ch4:ucx)."""
    return target.mpi.flavour is MpiFlavour.MPICH or site.fabric is Fabric.INFINIBAND


def may_use_ucx(target: Target, site: Site) -> bool:
    return uses_ucx(target, site) or site.fabric is Fabric.AUTO


def proofs(site: Site, ranks: str) -> Iterator[Proof]:
    """Yield what the ranks run before the training; ``ranks`` is their number, for a shell."""
    way = f"{site.fabric}={site.provider}" if site.provider else str(site.fabric)
    yield Proof(name="prove_world", program=_text(world.__file__), words=(ranks, way))
    if site.fabric in PROVEN and (len(site.hosts) or site.nodes) > 1:
        yield Proof(name="prove_nccl", program=_text(nccl_route.__file__), words=())


def summary(site: Site, ranks: str) -> Proof | None:
    """Return what reads the table of a benchmark; None where the ranks train."""
    words = (ranks, str(site.link_speed or 0))
    return Proof(name="bandwidth", program=_text(bandwidth.__file__), words=words) if site.benchmark else None


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()
