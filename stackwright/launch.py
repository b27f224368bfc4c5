"""The command line that starts training of one image over several hosts, with the reason of each setting.

Pure. What a launcher's line consists of is a tuple of settings, so that no word of it is unexplained;
a launcher is one function of LAUNCHERS.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from stackwright.errors import UsageError
from stackwright.model import Stack

Fabric = Literal["tcp", "infiniband"]
FABRICS: tuple[str, ...] = get_args(Fabric)

SSH_PORT = 2222
"""Where sshd-as-user listens unless it is told otherwise."""

TRAIN = ("python", "train.py")
"""What each rank runs unless it is told otherwise."""

MOST_RANKS = 4096
NCCL_NET_SINCE = 21000
"""NCCL_VERSION_CODE. https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net"""

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(
    rf"(?P<name>(?=.{{1,253}}(:|\Z)){_LABEL}(\.{_LABEL})*)(:(?P<slots>[0-9]{{1,4}}))?", re.ASCII
)
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", re.ASCII)
"""IFNAMSIZ of Linux is 16, with the final zero."""
_HCA = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,31}:[0-9]{1,3}", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~-]{0,254}", re.ASCII)
"""Open MPI and horovodrun hand this to ssh without quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """``slots``: how many ranks start there, which is the number of its GPUs."""

    name: str
    slots: int

    def __str__(self) -> str:
        return f"{self.name}:{self.slots}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The hosts of a job and the way between them. ``hca`` is device:port, as in "mlx5_0:1"."""

    hosts: tuple[Host, ...]
    interface: str | None = None
    fabric: Fabric = "tcp"
    hca: str | None = None
    ssh_port: int = SSH_PORT
    ssh_key: str | None = None

    @property
    def ranks(self) -> int:
        return sum(host.slots for host in self.hosts)

    @property
    def host_list(self) -> str:
        return ",".join(str(host) for host in self.hosts)


@dataclass(frozen=True, slots=True)
class Option:
    """Some words of a command line, and what they are for."""

    words: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return shlex.join(self.words)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of an environment, and what it is for."""

    name: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}={shlex.quote(self.value)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """``variables`` are set for the program that launches; it passes on what the ranks need."""

    program: str
    variables: tuple[Variable, ...] = ()
    options: tuple[Option, ...]
    command: tuple[str, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.program, *(word for option in self.options for word in option.words), *self.command)

    @property
    def environment(self) -> dict[str, str]:
        return {variable.name: variable.value for variable in self.variables}

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Each as it stands in the line, and why it is there."""
        every: tuple[Variable | Option, ...] = (*self.variables, *self.options)
        return tuple((str(setting), setting.why) for setting in every)


# -- what a person wrote ---------------------------------------------------------------------------


def hosts(text: str) -> tuple[Host, ...]:
    """Read ``a:2,b:2``; a host without a number gets one rank. UsageError where it has another notation."""
    found = tuple(_host(part) for part in text.split(","))
    names = [host.name.lower() for host in found]
    double = next((name for name in names if names.count(name) > 1), None)
    if double:
        raise UsageError(f"--hosts names {double} twice", hint="give each host once, with all its ranks")
    if sum(host.slots for host in found) > MOST_RANKS:
        raise UsageError(f"--hosts asks for more than {MOST_RANKS} ranks", hint="use the cluster's scheduler")
    return found


def _host(text: str) -> Host:
    match = _HOST.fullmatch(text)
    if not match or (match["slots"] and int(match["slots"]) == 0):
        cause = f"--hosts: {text!r} is not a host name with a number of ranks"
        raise UsageError(cause, hint="write it as in --hosts node1:4,node2:4")
    return Host(name=match["name"], slots=int(match["slots"] or 1))


def site(
    *,
    hosts_text: str,
    interface: str | None = None,
    fabric: Fabric = "tcp",
    hca: str | None = None,
    ssh_port: int = SSH_PORT,
    ssh_key: str | None = None,
) -> Site:
    """The site that the options describe; UsageError for the first that is wrong."""
    notations = (
        ("--interface", interface, _INTERFACE, "a network interface", "--interface eth0"),
        ("--hca", hca, _HCA, "a device of InfiniBand with its port", "--hca mlx5_0:1"),
        ("--ssh-key", ssh_key, _KEY, "a path of letters, digits and _ . / ~ -", "--ssh-key /keys/id_ed25519"),
    )
    for option, value, notation, what, example in notations:
        if value is not None and not notation.fullmatch(value):
            raise UsageError(f"{option}: {value!r} is not {what}", hint=f"write it as in {example}")
    if hca and fabric != "infiniband":
        raise UsageError("--hca is about InfiniBand", hint="add --fabric infiniband")
    return Site(
        hosts=hosts(hosts_text), interface=interface, fabric=fabric, hca=hca,
        ssh_port=ssh_port, ssh_key=ssh_key,
    )  # fmt: skip


# -- what every launcher needs ---------------------------------------------------------------------


def _ssh_words(site: Site) -> tuple[str, ...]:
    key = ("-i", site.ssh_key) if site.ssh_key else ()
    unknown = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
    return ("-p", str(site.ssh_port), *key, *unknown)


SSH_WHY = (
    "how ssh reaches sshd-as-user of the other containers; each makes its host key when it starts, "
    "so nobody can know it before, and the network between the hosts has to be one that you trust"
)
PATH_WHY = "the image's own PATH: ssh would start ranks without it"
BIND_WHY = "the threads of a rank may use every core: the framework's, the loader's and Horovod's own"


def _counted(site: Site, hosts_option: str) -> tuple[Option, ...]:
    return (
        Option(("-np", str(site.ranks)), "how many ranks in all: one per GPU"),
        Option((hosts_option, site.host_list), "how many of them on which host"),
    )


def _nccl(stack: Stack, site: Site) -> Iterator[Variable]:
    """How NCCL finds the way between GPUs of different hosts."""
    if site.interface:
        why = "NCCL's ranks find each other on this interface, and what goes over TCP goes here"
        yield Variable("NCCL_SOCKET_IFNAME", site.interface, why)
    if site.fabric == "tcp":
        yield Variable("NCCL_IB_DISABLE", "1", "NCCL over TCP, also where a host has InfiniBand")
        return
    if stack.nccl_code >= NCCL_NET_SINCE:
        yield Variable(
            "NCCL_NET", "IB", "fail where InfiniBand is out of reach: by itself NCCL takes TCP then"
        )
    if site.hca:
        yield Variable(
            "NCCL_IB_HCA", f"={site.hca}", "exactly this device and port; without =, all that begin so"
        )
    yield Variable(
        "NCCL_DEBUG", "INFO", "say at the start which way was taken: NET/IB is the one that is wanted"
    )


def _ucx(site: Site) -> Iterator[Variable]:
    """UCX chooses by itself among what is allowed here."""
    if site.fabric == "infiniband":
        yield Variable("UCX_TLS", "rc,sm,self", "MPI by RDMA or shared memory: fail rather than take TCP")
        device = site.hca
    else:
        yield Variable("UCX_TLS", "tcp,sm,self", "MPI by TCP between hosts, by shared memory on one")
        device = site.interface
    if device:
        yield Variable("UCX_NET_DEVICES", device, "the only network device that MPI may use")


# -- the launchers ---------------------------------------------------------------------------------


def _mpirun(stack: Stack, site: Site, command: tuple[str, ...]) -> Launch:
    return {"openmpi": _openmpi, "mpich": _mpich}[stack.mpi.flavour](stack, site, command)


def _openmpi(stack: Stack, site: Site, command: tuple[str, ...]) -> Launch:
    """Open MPI 5 leaves the start of ranks to PRRTE, whose parameters have other names.

    The names are those that ompi_info and prte_info of Debian's 4.1.4 and 5.0.7 print.
    """
    modern = int(stack.mpi.version.split(".")[0]) >= 5
    variables = (*_nccl(stack, site), *(_ucx(site) if site.fabric == "infiniband" else ()))
    options = (
        *_counted(site, "-H"),
        Option(("--bind-to", "none"), BIND_WHY),
        Option(("--mca", "plm_ssh_args" if modern else "plm_rsh_args", " ".join(_ssh_words(site))), SSH_WHY),
        *_openmpi_way(site, modern=modern),
        Option(("-x", "PATH"), PATH_WHY),
        *(Option(("-x", f"{one.name}={one.value}"), one.why) for one in variables),
    )
    return Launch(program="mpirun", options=options, command=command)


def _openmpi_way(site: Site, *, modern: bool) -> Iterator[Option]:
    if site.interface:
        name = ("--prtemca", "prte_if_include") if modern else ("--mca", "oob_tcp_if_include")
        yield Option((*name, site.interface), "mpirun and its daemons speak to each other on this interface")
    if site.fabric == "infiniband":
        why = "MPI over UCX: Debian's openmpi-mca-params.conf forbids it, and TCP would be taken in silence"
        yield Option(("--mca", "pml", "ucx"), why)
        return
    memory = "sm" if modern else "vader"
    yield Option(("--mca", "pml", "ob1"), "MPI over the transports that btl names, and not over UCX")
    yield Option(("--mca", "btl", f"self,{memory},tcp"), "TCP between hosts, shared memory on one")
    if site.interface:
        why = "else MPI tries every interface, and hangs on a bridge that has the same address on each host"
        yield Option(("--mca", "btl_tcp_if_include", site.interface), why)


def _mpich(stack: Stack, site: Site, command: tuple[str, ...]) -> Launch:
    """Debian's MPICH uses UCX (mpichversion: ch4:ucx); Hydra reads ssh's options from a variable only."""
    variables = (*_ucx(site), *_nccl(stack, site))
    interface = (
        (Option(("-iface", site.interface), "mpirun and its proxies speak to each other on this interface"),)
        if site.interface
        else ()
    )
    options = (
        *_counted(site, "-hosts"),
        Option(("-bind-to", "none"), BIND_WHY),
        *interface,
        Option(("-genvall",), PATH_WHY),
        *(Option(("-genv", one.name, one.value), one.why) for one in variables),
    )
    ssh = Variable("HYDRA_LAUNCHER_EXTRA_ARGS", " ".join(_ssh_words(site)), SSH_WHY)
    return Launch(program="mpirun", variables=(ssh,), options=options, command=command)


def _horovodrun(stack: Stack, site: Site, command: tuple[str, ...]) -> Launch:
    """By Gloo. horovodrun hands its own environment to the ranks, and the interface to NCCL."""
    variables = tuple(one for one in _nccl(stack, site) if one.name != "NCCL_SOCKET_IFNAME")
    options = [
        Option(("--gloo",), "no MPI: the ranks find each other through horovodrun"),
        *_counted(site, "-H"),
        Option(("-p", str(site.ssh_port)), "where sshd-as-user listens in the other containers"),
    ]
    if site.ssh_key:
        options.append(Option(("-i", site.ssh_key), "the key that it lets in"))
    if site.interface:
        why = (
            "Gloo and NCCL connect on this interface (HOROVOD_GLOO_IFACE, NCCL_SOCKET_IFNAME); "
            "else horovodrun asks the hosts which of theirs reach each other"
        )
        options.append(Option(("--network-interfaces", site.interface), why))
    return Launch(program="horovodrun", variables=variables, options=tuple(options), command=command)


LAUNCHERS: dict[str, Callable[[Stack, Site, tuple[str, ...]], Launch]] = {
    "mpirun": _mpirun,
    "horovodrun": _horovodrun,
}
"""By the name of the option that asks for it."""


def chosen(asked: Sequence[str]) -> str:
    """The one launcher that was asked for."""
    names = " or ".join(f"--{name}" for name in LAUNCHERS)
    if len(asked) != 1:
        raise UsageError(f"{len(asked)} launchers are named, and one is needed", hint=f"add {names}")
    return asked[0]


# -- what is printed -------------------------------------------------------------------------------


def before(image: str, site: Site) -> tuple[str, ...]:
    """How the containers are started that the line connects."""
    fabric = "--device /dev/infiniband --ulimit memlock=-1 " if site.fabric == "infiniband" else ""
    return (
        "First, on each host, with the keys of this job in ./keys, owned by uid 1000:",
        f"  docker run -d --name job --network host --gpus all --shm-size 1g {fabric}-v ./keys:/keys:ro "
        f"-e AUTHORIZED_KEYS=/keys/id_ed25519.pub {image} sshd-as-user {site.ssh_port}",
        "Then on the first one, in its container (docker exec -it job bash):",
    )


def line(launch: Launch) -> str:
    """One shell command: variables, program, options, command."""
    return " ".join([*(str(variable) for variable in launch.variables), shlex.join(launch.argv)])


def script(launch: Launch, first: Sequence[str] = ()) -> str:
    """The line after its explanations, which are comments: all of it can be pasted into a shell."""
    remarks = (*first, *(f"{setting}: {why}" for setting, why in launch.settings))
    return "\n".join([*(f"# {remark}" for remark in remarks), line(launch)])


def document(row: str, launcher: str, launch: Launch, first: Sequence[str]) -> dict[str, Any]:
    """``launch --format json``."""
    return {
        "version": 1,
        "id": row,
        "launcher": launcher,
        "before": list(first),
        "environment": launch.environment,
        "argv": list(launch.argv),
        "line": line(launch),
        "settings": [{"setting": setting, "why": why} for setting, why in launch.settings],
    }
