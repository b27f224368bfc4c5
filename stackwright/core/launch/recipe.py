"""What a recipe consists of: settings, each with its reason, and the line, script or manifest of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml

from stackwright.core.model.row import Mpi, MpiFlavour, Stack


class Fabric(StrEnum):
    """What data takes between nodes. ``AUTO``: InfiniBand where the nodes have it, and else TCP. ``OFI``:
    libfabric, for Slingshot, EFA and Omni-Path."""

    AUTO = "auto"
    TCP = "tcp"
    INFINIBAND = "infiniband"
    OFI = "ofi"


FABRICS = tuple(str(fabric) for fabric in Fabric)

SSH_PORT = 2222
"""The default port of sshd-as-user."""

TRAIN = ("python", "train.py")
"""The default command of each rank."""

BENCHMARK = ("all_reduce_perf", "-b", "8", "-e", "1G", "-f", "2", "-g", "1")
"""Of each rank that measures: from 8 bytes to 1 GiB, and one GPU for each rank."""


def mpi_of(flavour: str, version: str) -> Mpi | None:
    """Return the MPI in a file or a label, or None where images have no such MPI."""
    if flavour not in tuple(MpiFlavour) or not re.fullmatch(r"\d+(\.\d+)*", version, re.ASCII):
        return None
    return Mpi.of(flavour, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is started: the image of a row, by its reference in a registry or an engine, and its SIF.

    ``user`` has the numbers of the image's user and group, where the row says them. ``plugin``: it has NCCL's
    plugin for libfabric.
    """

    row: str
    mpi: Mpi
    nccl_code: int
    image: str
    sif: str
    user: str = ""
    plugin: bool = False

    @classmethod
    def of(cls, stack: Stack, image: str, sif: str = "") -> Target:
        return cls(
            row=stack.id, mpi=stack.mpi, nccl_code=stack.nccl_code, image=image,
            sif=sif or f"{stack.id}.sif", user=stack.user or "", plugin=bool(stack.plugin),
        )  # fmt: skip

    @property
    def mpi_major(self) -> int:
        return int(self.mpi.version.split(".")[0])

    @property
    def registry(self) -> str:
        """The host that the image's name begins with, as Docker reads it; without one it is Docker Hub's."""
        host, slash, _ = self.image.partition("/")
        return host if slash and (host == "localhost" or "." in host or ":" in host) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """``slots``: how many ranks start there, which is the number of its GPUs."""

    name: str
    slots: int

    def __str__(self) -> str:
        return f"{self.name}:{self.slots}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The nodes of a job and the way between them. ``hca`` is device:port, as in "mlx5_0:1", ``provider`` one
    of libfabric's, as in "efa".

    ``hosts`` names the nodes; where a scheduler chooses them there is only their number.
    ``host_mpi`` is the folder of the cluster's own MPI. ``pyxis``, ``edf`` and ``podman_hpc`` are other ways
    into the container than Apptainer. ``benchmark``: the ranks measure, and do not train;
    ``link_speed`` is what the links of a node give together, in Gbit/s.
    """

    hosts: tuple[Host, ...] = ()
    nodes: int = 1
    per_node: int = 1
    interface: str | None = None
    fabric: Fabric = Fabric.AUTO
    hca: str | None = None
    provider: str | None = None
    ssh_port: int = SSH_PORT
    ssh_key: str | None = None
    host_mpi: str | None = None
    pyxis: bool = False
    edf: bool = False
    podman_hpc: bool = False
    benchmark: bool = False
    link_speed: int | None = None

    @property
    def ranks(self) -> int:
        return sum(host.slots for host in self.hosts) or self.nodes * self.per_node

    @property
    def host_list(self) -> str:
        return ",".join(str(host) for host in self.hosts)


@dataclass(frozen=True, slots=True)
class Option:
    """Some words of a command line, and what they are for. ``expands``: with a variable of the shell's."""

    words: tuple[str, ...]
    why: str
    expands: bool = False

    def __str__(self) -> str:
        if not self.expands:
            return shlex.join(self.words)
        return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in self.words)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of an environment, and what it is for."""

    name: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}={shlex.quote(self.value)}"


RANKS = "in_all_ranks"
"""The function of a script that starts a command in all ranks."""

TABLE = '"benchmark-$SLURM_JOB_ID.txt"'
ALONE = ("--nodes=1", "--ntasks=1")
"""Where a script keeps what its ranks measure, and how srun starts what reads it."""

END = "END_OF_PROGRAM"
"""No line of a program that a script carries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A program of Python that every rank runs before the training, or one process after a benchmark;
    ``words`` are for a shell.

    A line carries it; a script for a scheduler finds it in a file next to it.
    """

    name: str
    program: str
    words: tuple[str, ...]

    @property
    def carried(self) -> str:
        return f"{self.name}=$(cat <<'{END}'\n{self.program}\n{END}\n)"

    @property
    def run(self) -> str:
        return " ".join(("python3", "-c", f'"${self.name}"', *self.words))

    @property
    def file(self) -> str:
        return f"{self.name}.py"

    @property
    def run_file(self) -> str:
        return " ".join(("python3", self.file, *self.words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One command. ``variables`` are set for the program that launches; it passes on what the ranks need.
    ``summary`` reads what the ranks write.
    """

    program: str
    variables: tuple[Variable, ...] = ()
    options: tuple[Option, ...]
    command: tuple[str, ...]
    when: str
    before: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    summary: Proof | None = None

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

    @property
    def line(self) -> str:
        return " ".join((self._start, shlex.join(self.command)))

    @property
    def text(self) -> str:
        """The line; where there are proofs, a shell that runs them first."""
        last = (self.summary,) if self.summary else ()
        carried = (proof.carried for proof in (*self.proofs, *last))
        starts = (f"{self._start} {proof.run}" for proof in self.proofs)
        line = " |\n    ".join((self.line, *(proof.run for proof in last)))
        return "\n".join((*carried, " &&\n".join((*starts, line))))

    @property
    def _start(self) -> str:
        return " ".join([*map(str, self.variables), shlex.quote(self.program), *map(str, self.options)])

    @property
    def parts(self) -> Mapping[str, Any]:
        return {"environment": self.environment, "argv": list(self.argv), "line": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A script for sbatch: ``directives`` for Slurm, the proofs, then the line.

    ``extra`` has the files that lie next to the script besides the proofs: content by name. ``summary`` reads
    what the ranks wrote, in a container of its own.
    """

    directives: tuple[Option, ...]
    variables: tuple[Variable, ...]
    step: tuple[Option, ...]
    proofs: tuple[Proof, ...]
    command: tuple[str, ...]
    when: str
    before: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    summary: Proof | None = None

    @property
    def files(self) -> Mapping[str, str]:
        """What the script needs next to it: content by name."""
        every = (*self.proofs, self.summary) if self.summary else self.proofs
        return {**self.extra, **{proof.file: f"{proof.program}\n" for proof in every}}

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        every: tuple[Variable | Option, ...] = (*self.directives, *self.variables, *self.step)
        return tuple((str(setting), setting.why) for setting in every)

    @property
    def argv(self) -> tuple[str, ...]:
        """What starts the ranks, in an allocation."""
        return ("srun", *(word for option in self.step for word in option.words), *self.command)

    @property
    def text(self) -> str:
        step = [str(option) for option in self.step]
        start = " ".join(("srun", *step))
        lines = (
            *(f"#SBATCH {directive}" for directive in self.directives),
            "set -euo pipefail",
            *(f"export {variable}" for variable in self.variables),
            *self._proven(start),
            f"{RANKS if self.proofs else start} {shlex.join(self.command)}{self._kept}",
            *((" ".join(("srun", *ALONE, *step, self.summary.run_file, TABLE)),) if self.summary else ()),
        )
        return "\n".join(lines)

    @property
    def _kept(self) -> str:
        return f" | tee {TABLE}" if self.summary else ""

    def _proven(self, start: str) -> Iterator[str]:
        """Yield what comes before the training, and a function that starts each of them in all ranks."""
        if not self.proofs:
            return
        missing = "$file is not here: launch … --into FOLDER writes it next to this script"
        yield f"for file in {' '.join(self.files)}; do"
        yield f'    test -e "$file" || {{ echo "{missing}" >&2; exit 1; }}'
        yield "done"
        yield f'{RANKS}() {{\n    {start} "$@"\n}}'
        yield from (f"{RANKS} {proof.run_file}" for proof in self.proofs)

    @property
    def parts(self) -> Mapping[str, Any]:
        environment = {variable.name: variable.value for variable in self.variables}
        return {
            "environment": environment, "argv": list(self.argv), "script": script(self),
            "files": dict(self.files),
        }  # fmt: skip


class _Readable(yaml.SafeDumper):
    """A program stands in it as it is, and not as one string with escapes."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        node = super().represent_str(data)
        node.style = "|" if f"\n{END}\n" in data else node.style
        return node


_Readable.add_representer(str, _Readable.represent_str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An object of Kubernetes. ``settings`` name the fields that need a reason."""

    document: Mapping[str, Any]
    settings: tuple[tuple[str, str], ...]
    when: str
    before: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return str(yaml.dump(self.document, Dumper=_Readable, sort_keys=False, width=100)).rstrip("\n")

    @property
    def parts(self) -> Mapping[str, Any]:
        return {"manifest": self.document}


Launch = Line | Batch | Manifest


def script(launch: Launch) -> str:
    """Return all of it with its explanations as comments: for a shell, for sbatch or for kubectl."""
    first = ("#!/bin/bash",) if isinstance(launch, Batch) else ()
    when = f"Use it {launch.when}."
    reasons = (f"{setting}: {why}" for setting, why in launch.settings)
    remarks = (f"# {remark.replace(chr(10), ' ')}" for remark in (when, *launch.before, *reasons))
    return "\n".join([*first, *remarks, launch.text])


def files(row: str, launch: Launch) -> Mapping[str, str]:
    """Return all that is written for a launch: content by name."""
    match launch:
        case Batch():
            return {f"{row}.sbatch": f"{script(launch)}\n", **launch.files}
        case Manifest():
            return {f"{row}.yaml": f"{script(launch)}\n"}
        case Line():
            return {f"{row}.sh": f"{script(launch)}\n"}


def document(row: str, launcher: str, launch: Launch) -> dict[str, Any]:
    """``launch --format json``."""
    return {
        "version": 1,
        "id": row,
        "launcher": launcher,
        "when": launch.when,
        "before": list(launch.before),
        "settings": [{"setting": setting, "why": why} for setting, why in launch.settings],
        **launch.parts,
    }
