"""Readers of the output of a cluster's programs. Each reader is pure: the output in, a fact or None out.

None means that the output does not say it; a program that is absent leaves all its facts at None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from stackwright.core.model.target import CUDA

NUMBER = r"\d{1,9}"
"""int() refuses one that is long enough."""
VERSION = rf"({NUMBER}(?:\.{NUMBER})+)"
PATIENCE = 30
"""Seconds for one program: a controller that does not answer, or a driver that hangs."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port for RDMA. ``link`` is InfiniBand or Ethernet."""

    device: str
    number: int
    active: bool
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """``pmi`` are the plugins of srun, ``pmix`` the major versions of its PMIx, ``pmi_error`` what it could
    not load. ``mpi`` is the cluster's own: flavour and version; ``prefix`` is where it lies. ``other_mpi`` is
    what mpirun says where it is that of another one, ``hung`` the programs that did not end. ``machine`` and
    ``cpu_features`` are of this node's processors. ``libfabric`` is the release of the host's, ``providers``
    what it drives there.
    """

    slurm: str | None = None
    pmi: tuple[str, ...] | None = None
    pmix: tuple[int, ...] = ()
    pmi_error: str = ""
    pyxis: bool = False
    mpi: tuple[str, str] | None = None
    prefix: str | None = None
    pml: tuple[str, ...] = ()
    ports: tuple[Port, ...] | None = None
    libfabric: str | None = None
    providers: tuple[str, ...] = ()
    driver: str | None = None
    capabilities: tuple[str, ...] = ()
    glibc: str | None = None
    runtime: tuple[str, str] | None = None
    kernel: str | None = None
    machine: str | None = None
    cpu_features: tuple[str, ...] = ()
    other_mpi: str = ""
    hung: tuple[str, ...] = ()


def slurm(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """``slurm 23.02.7``, ``slurm-wlm 24.11.5``."""
    return replace(cluster, slurm=_first(rf"^slurm\S*\s+{VERSION}", text))


def pmi(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """The plugins stand below a title, one in a line, until 21.08 with "srun: " before each."""
    lines = [line.removeprefix("srun:").strip() for line in text.splitlines()]
    title = next((at for at, line in enumerate(lines) if re.match(r"MPI (plugin )?types are", line)), None)
    if title is None:
        return replace(cluster, pmi_error=_first(r"^(srun: (?:error|fatal): .*)$", text) or "")
    found = tuple(line for line in lines[title + 1 :] if re.fullmatch(r"[a-z][a-z0-9_]*", line))
    versions = {int(number) for number in re.findall(rf"\bpmix_v({NUMBER})\b", " ".join(lines[title:]))}
    error = next((line for line in lines if "can not load PMIx library" in line), "")
    return replace(cluster, pmi=found, pmix=tuple(sorted(versions)), pmi_error=error)


def pyxis(cluster: ClusterFacts, text: str) -> ClusterFacts:
    return replace(cluster, pyxis="--container-image" in text)


_FLAVOURS = (
    ("openmpi", rf"\(Open MPI\)\s+{VERSION}"),
    ("intel", rf"Intel\(R\) MPI Library.*?Version\s+({NUMBER}(?:\.{NUMBER})*)"),
    ("mpich", rf"HYDRA build details:\s+Version:\s+{VERSION}"),
)


def mpirun(cluster: ClusterFacts, text: str) -> ClusterFacts:
    found = ((name, _first(pattern, text)) for name, pattern in _FLAVOURS)
    mpi = next(((name, version) for name, version in found if version), None)
    return replace(cluster, mpi=mpi, other_mpi="" if mpi else _first(r"^\s*(\S.{0,60})", text) or "")


def ompi_info(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """Where mpirun is that of another MPI, or of another Open MPI, this one is not what would be bound in."""
    version, prefix = _first(rf"^\s*Open MPI:\s+{VERSION}", text), _first(r"^\s*Prefix:\s+(/\S*)\s*$", text)
    pml = tuple(dict.fromkeys(re.findall(r"^\s*MCA pml:\s+(\w+)", text, re.M)))
    if not version or cluster.mpi not in (None, ("openmpi", version)):
        return cluster
    return replace(cluster, mpi=("openmpi", version), prefix=prefix, pml=pml)


def ibv(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """Devices begin with "hca_id:", their ports with "port:"."""
    ports: list[Port] = []
    device = ""
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "hca_id":
            device = value if re.fullmatch(r"\w{1,32}", value, re.ASCII) else ""
        elif name == "port" and re.fullmatch(r"\d{1,3}", value, re.ASCII) and device:
            ports.append(Port(device, int(value), False, ""))
        elif name == "state" and ports:
            ports[-1] = replace(ports[-1], active=value.startswith("PORT_ACTIVE"))
        elif name == "link_layer" and ports:
            ports[-1] = replace(ports[-1], link=value)
    return replace(cluster, ports=tuple(ports))


def libfabric(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """``libfabric: 1.17.0``, in a line of its own."""
    return replace(cluster, libfabric=_first(rf"^libfabric:\s+{VERSION}", text))


def providers(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """``provider: cxi`` heads each interface; ``tcp;ofi_rxm`` is tcp with a layer on it."""
    found = re.findall(r"^provider:\s+([a-z]\w{0,30})", text, re.M | re.ASCII)
    return replace(cluster, providers=tuple(dict.fromkeys(found)))


def nvidia(cluster: ClusterFacts, text: str) -> ClusterFacts:
    return replace(cluster, driver=_first(rf"Driver Version:\s+{VERSION}", text))


def capabilities(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """One line for each GPU; drivers before 510 do not know the question, and say so."""
    found = re.findall(r"^\s*(\d{1,3}\.\d)\s*$", text, re.M)
    return replace(cluster, capabilities=tuple(dict.fromkeys(found)))


def glibc(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """``ldd (GNU libc) 2.34``, ``ldd (Ubuntu GLIBC 2.35-0ubuntu3.1) 2.35``; musl has another first line."""
    return replace(cluster, glibc=_first(rf"^ldd \(.*(?:libc|GLIBC).*\)\s+{VERSION}", text))


def runtime(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """``apptainer version 1.2.5-1.el8``, ``singularity-ce version 3.11.4``; Singularity 2: ``2.6.1-dist``."""
    name = r"(?:(apptainer|singularity(?:-ce)?) version )?"
    match = re.search(rf"^{name}{VERSION}(?(1)|-dist)", text, re.M | re.ASCII)
    return replace(
        cluster, runtime=cluster.runtime or ((match[1] or "singularity", match[2]) if match else None)
    )


def kernel(cluster: ClusterFacts, text: str) -> ClusterFacts:
    return replace(cluster, kernel=_first(rf"^{VERSION}", text))


def lscpu(cluster: ClusterFacts, text: str) -> ClusterFacts:
    """``Architecture: x86_64``, and ``Flags: fpu … avx2``, on one line."""
    machine, flags = _first(r"^Architecture:\s+(\w{1,16})$", text), _first(r"^Flags:\s+(.*)$", text)
    return replace(cluster, machine=machine, cpu_features=tuple((flags or "").split()))


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.M | re.ASCII)
    return match[1] if match else None


PROGRAMS: tuple[tuple[tuple[str, ...], Callable[[ClusterFacts, str], ClusterFacts]], ...] = (
    (("srun", "--version"), slurm),
    (("srun", "--mpi=list"), pmi),
    (("srun", "--help"), pyxis),
    (("mpirun", "--version"), mpirun),
    (("ompi_info",), ompi_info),
    (("ibv_devinfo",), ibv),
    (("fi_info", "--version"), libfabric),
    (("fi_info",), providers),
    ((CUDA.query,), nvidia),
    ((CUDA.query, "--query-gpu=compute_cap", "--format=csv,noheader"), capabilities),
    (("ldd", "--version"), glibc),
    (("apptainer", "--version"), runtime),
    (("singularity", "--version"), runtime),
    (("uname", "-r"), kernel),
    (("lscpu",), lscpu),
)
"""What is run on the login node, in this order. None of them changes anything."""
