"""Rules on what a row adds besides Python packages: the distribution's packages, and variables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stackwright.core.components.table import COMMUNICATION, COMPONENTS, MODULES, TOOLS, served
from stackwright.core.config.own import named_ports
from stackwright.core.facts.provenance import documented, read
from stackwright.core.model.row import Cell, MpiFlavour
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling

PACKAGES = documented("names of packages: packages.debian.org, packages.ubuntu.com", "2026-11-22")
VARIABLES = documented(
    "docs.nvidia.com (NCCL, container toolkit), docs.open-mpi.org, openucx.readthedocs.io, ld.so(8), "
    "apptainer.org/docs, and the manual of each framework's launcher",
    "2026-11-22",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """``pattern`` is that of a whole name; ``why`` completes the sentence that begins with the name."""

    pattern: str
    why: str


LAYERS = "|".join(layer.name.upper() for layer in COMMUNICATION)
FRAMEWORKS = "|".join(module.field.prefix.upper() for module in MODULES)
OF_A_JOB = "is of one job, and in an image it holds for all, unseen; `launch` prints such settings"
OF_THE_FABRIC = f"decides how ranks reach each other: it {OF_A_JOB}"
OF_THE_STACK = "is what the stack itself sets, and is proven to set"
OF_THE_SITE = "is of the site that builds or runs the image (docs/site.md)"

OF_A_SITE = Refused(
    pattern="(?i:(https?|ftp|all|no)_proxy)|(PIP|UV|STACKWRIGHT)_.*|(SSL_CERT|REQUESTS_CA|CURL_CA)_.*",
    why=OF_THE_SITE,
)
REFUSED_VARIABLES = (
    Refused(pattern=f"_?({LAYERS})_.*", why=OF_A_JOB),
    Refused(pattern="(NCCL|UCX|UCC|OMPI|OPAL|ORTE|PRTE|PMIX|PMI|MPICH|MPIR|MPIEXEC|HYDRA|FI|GLOO)_.*"
            f"|({FRAMEWORKS})_NCCL_.*",
            why=OF_THE_FABRIC),
    Refused(pattern="(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|LOCAL_WORLD_SIZE|NODE_RANK|MASTER_(ADDR|PORT)"
            f"|(SLURM|KUBERNETES)_.*|({FRAMEWORKS})(ELASTIC_.*|_CONFIG)", why=OF_A_JOB),
    Refused(pattern="CUDA_(VISIBLE_DEVICES|HOME|PATH|DEVICE_ORDER)|NVIDIA_.*|GPU_DEVICE_ORDINAL",
            why="decides which GPUs and which CUDA a process sees, which is the engine's and the stack's"),
    Refused(pattern="LD_.*|GLIBC_TUNABLES|MALLOC_.*", why="puts other libraries or another allocator into "
            "every program of the image, past what is proven of its libraries"),
    Refused(pattern="PATH|VIRTUAL_ENV|LANG", why=OF_THE_STACK),
    Refused(pattern="PYTHON(PATH|HOME|STARTUP|USERBASE|EXECUTABLE|PLATLIBDIR|INSPECT|NOUSERSITE)|BASH_ENV|ENV|IFS",
            why="lets other modules or another script in before the proven ones"),
    Refused(pattern="HOME|USER|LOGNAME|SHELL|TERM|PWD|OLDPWD|SHLVL|HOSTNAME|PS1|PROMPT_COMMAND|_"
            "|(APPTAINER|SINGULARITY|SCIF|APPTAINERENV|SINGULARITYENV)_.*",
            why="is set by the engine or the shell in each container"),
    OF_A_SITE,
)  # fmt: skip
"""Variables that make two runs of one image differ, or the image from its proof."""

MPIS = {
    MpiFlavour.OPENMPI: r"openmpi-.*|libopenmpi.*|libopen-(rte|pal).*",
    MpiFlavour.MPICH: r"mpich.*|libmpich.*",
}
CUDA = (
    r"nvidia-(cuda|cudnn|driver|kernel|open|smi|opencl|egl|vulkan|alternative|legacy|tesla).*|cuda(-.*)?"
    r"|lib(nccl|cudnn|cudart|cublas|cufft|curand|cusolver|cusparse|nvrtc|nvjpeg|npp|nvvm|accinj|cupti).*"
    r"|libcuda\d.*|libnvidia-.*"
)
TITLES = "|".join(re.escape(component.package) for component in COMPONENTS)
REFUSED_PACKAGES = (
    Refused(pattern=CUDA, why="brings a second CUDA, or a driver, and the stack's are those of its wheels"),
    Refused(pattern=rf"python3-({TITLES})(-.*)?",
            why="is a field of a row, and one for the distribution's own Python"),
    Refused(pattern=r"python3(\.\d+)?(-(venv|dev|minimal|pip))?|libpython3.*",
            why="is the field python of a row; packages for it are its `pip`"),
    Refused(pattern=r"(gcc|g\+\+|gfortran|cpp)(-\d+)?|nvcc.*", why="is the field gcc or cuda of a row"),
    Refused(pattern=r"sudo|doas|policykit-1|polkitd", why="makes root of the user of the image"),
    Refused(pattern=r"linux-(image|headers|modules)-.*|systemd(-sysv)?|init|docker.*|containerd|podman",
            why="is of a host, and does nothing in a container"),
)  # fmt: skip
"""Packages of ``apt``. What they bring along is seen in the image."""


def refused(name: str, table: tuple[Refused, ...]) -> str:
    """Return why a name is refused; empty where it is not."""
    return next((entry.why for entry in table if re.fullmatch(entry.pattern, name, re.ASCII)), "")


def _env(cell: Cell) -> Answer:
    for variable in cell.env:
        if why := refused(variable.name, REFUSED_VARIABLES):
            return Clash(values=(("env", variable.name),), reason=f"{variable.name} {why}")
    return Ruling.FITS if cell.env else Ruling.SILENT


def _apt(cell: Cell) -> Answer:
    for name in cell.apt:
        if why := refused(name, REFUSED_PACKAGES) or _second_mpi(name):
            return Clash(values=(("apt", name),), reason=f"{name} {why}")
    return Ruling.FITS if cell.apt else Ruling.SILENT


def _second_mpi(name: str) -> str:
    flavour = next((flavour for flavour, pattern in MPIS.items() if re.fullmatch(pattern, name)), None)
    return f"is of {flavour}, and MPI is the field mpi of a row" if flavour else ""


LOWEST = 1024
"""Below it only root may listen on most systems (ip(7): ip_unprivileged_port_start)."""


def _ports(cell: Cell) -> Answer:
    """A port that a row names without a tool may be one of a tool's: both say the same."""
    named, ports = named_ports(cell.ports), served(cell)
    for entry in cell.ports:
        name, given, port = entry.partition("=")
        if given and name not in ports:
            known = " and ".join(ports) or "no tool"
            return Clash(values=(("ports", entry),), reason=f"the row has {known}, and {name} is none of its")
        if given and int(port) != named[name]:
            return Clash(
                values=(("ports", entry),), reason=f"{name} is served on one port, and the row names two"
            )
    for name, number in ports.items():
        other = next((each for each, its in ports.items() if its == number and each != name), None)
        if other:
            values = ((name, str(number)), (other, str(number)))
            return Clash(
                values=values, reason=f"both are served on port {number}: write {name}=PORT in ports"
            )
        if number < LOWEST:
            reason = f"any user can listen from port {LOWEST} on"
            return Clash(values=(("ports", f"{name}={number}"),), reason=reason)
    return Ruling.FITS if ports else Ruling.SILENT


RULES = (
    CellRule(
        name="tool-ports",
        about=About.STACK,
        fields=("ports", *(tool.name for tool in TOOLS)),
        says="each tool of a row is served on a port of its own, on which any user can listen",
        fact=read("ip(7): ip_unprivileged_port_start", "2026-11-22"),
        ask=_ports,
    ),
    CellRule(
        name="env-names",
        about=About.STACK,
        fields=("env",),
        says="what is of a job, of a cluster, of a site or of the stack is not set by a row's env",
        fact=VARIABLES,
        ask=_env,
    ),
    CellRule(
        name="apt-packages",
        about=About.STACK,
        fields=("apt",),
        says="what is a field of a row, a second CUDA, or a way to become root is not added by apt",
        fact=PACKAGES,
        ask=_apt,
    ),
)
