"""What starts a tool of a row for a browser, and the way to it from one's own machine.

A tool listens on the loopback address of the host, the node or the pod, and has a token that is in no
argument. Only where an engine maps the port does it listen on all addresses, which are the container's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stackwright.core.components.table import BY_NAME, TOOLS
from stackwright.core.errors import UsageError
from stackwright.core.launch.fabric import SHM_WHY
from stackwright.core.launch.recipe import Batch, Launch, Line, Manifest, Option, Target
from stackwright.core.model.row import Stack
from stackwright.core.model.target import CUDA

NAMES = tuple(tool.name for tool in TOOLS)
SERVE = "serve-tool"
TOKEN, TOKEN_FILE = "STACKWRIGHT_TOKEN", "STACKWRIGHT_TOKEN_FILE"
FILE = ".stackwright-token"
"""In the home: what a job prints can often be read by other users."""
USER = 1000
MAKE = "(umask 077; head -c 32 /dev/urandom | base64 -w 0 | tr '+/' '-_' | tr -d '=' > {file})"
SERVE_WHY = "refuses to start without a token; the address that it prints has it, where it was made there"
PORT_WHY = "the row's port"
GPU_WHY = "programs that are started in it see the GPUs"
FOLDER_WHY = "the folder that it shows is below it"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A tool of a row, with what is asked for: its port, and the folder that it shows."""

    name: str
    port: int
    folder: str
    gpu: bool

    @property
    def words(self) -> tuple[Option, ...]:
        """Return what is started in the container, but for the folder."""
        port = Option(("--port", str(self.port)), PORT_WHY)
        return (Option((SERVE, self.name), SERVE_WHY), port)

    @property
    def place(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/?token=TOKEN"


def served(stack: Stack, name: str, port: int | None, command: tuple[str, ...]) -> Served:
    """Return the tool that is asked for. Raise UsageError where the row has none of that name."""
    tool = next((tool for tool in stack.tools if tool.name == name), None)
    server = BY_NAME[name].server
    if tool is None or server is None:
        has = ", ".join(tool.name for tool in stack.tools) or "no tool"
        raise UsageError(f"{stack.id} has {has}", hint=f"give the row the field {name}, and lock it again")
    if len(command) > 1 or any(word.startswith("-") for word in command):
        raise UsageError(f"--tool {name} shows one folder", hint=f"write it as in -- {server.folder}")
    folder = command[0] if command else server.folder
    return Served(name=name, port=port or tool.port, folder=folder, gpu=server.uses_gpu)


def docker(target: Target, tool: Served) -> Line:
    own = "as you on the host, so that what it writes is yours"
    options = (
        Option(("run", "--rm", "-it"), "the container goes when you stop it with Ctrl-C"),
        Option(("-p", f"{LOOPBACK}:{tool.port}:{tool.port}"), "for programs of this host alone"),
        *((Option(("--gpus", "all"), GPU_WHY), Option(("--shm-size", "1g"), SHM_WHY)) if tool.gpu else ()),
        Option(("--user=$(id -u):$(id -g)",), own, expands=True),
        Option(("-v", ".:/workspace"), FOLDER_WHY),
        Option((target.image,), "the image of the row"),
        *tool.words,
        Option(("--address", "0.0.0.0"), "of the container: its port is mapped to this host's loopback"),  # noqa: S104
    )
    when = "on your own machine, or on a host that you reach by ssh"
    return Line(program="docker", options=options, command=(tool.folder,), when=when, before=_tunnel(tool))


def _tunnel(tool: Served) -> tuple[str, ...]:
    return (f"From another machine, first: ssh -N -L {tool.port}:{LOOPBACK}:{tool.port} YOU@HOST",)


def apptainer(target: Target, tool: Served) -> Line:
    options = (
        Option(("exec",), "as you, with your home and this folder"),
        *((Option(("--nv",), GPU_WHY),) if tool.gpu else ()),
        Option((target.sif,), "the SIF of the row"),
        *tool.words,
    )
    when = "on a host with Apptainer: it listens on the loopback address of that host"
    return Line(program="apptainer", options=options, command=(tool.folder,), when=when, before=_tunnel(tool))


def slurm(target: Target, tool: Served) -> Batch:
    directives = (
        Option((f"--job-name={target.row}-{tool.name}",), "as squeue shows it"),
        Option(("--nodes=1",), "one server on one node"),
        Option(("--ntasks=1",), "one process"),
        *((Option(("--gpus=1",), GPU_WHY),) if tool.gpu else ()),
    )
    step = (
        Option(("--ntasks=1",), "one process"),
        Option(("apptainer", "exec"), "as you, with your home"),
        *((Option(("--nv",), "the driver's libraries come from the node"),) if tool.gpu else ()),
        Option((f"--env={TOKEN_FILE}=$HOME/{FILE}",), "the file with the token", expands=True),
        Option((target.sif,), "on a disk that every node sees"),
        *tool.words,
    )
    before = (
        f"First, once: {MAKE.format(file=f'~/{FILE}')}",
        "Submit it with sbatch, -p and -t for your partition and time; squeue --me names its NODE.",
        f"On your own machine: ssh -N -J YOU@LOGIN -L {tool.port}:{LOOPBACK}:{tool.port} YOU@NODE",
        f"Then open {tool.place}: TOKEN is what {FILE} contains.",
        "Where the port is taken on that node, the job says so and ends: launch it with another --port.",
    )
    when = "on a cluster with Slurm and Apptainer, where ssh reaches the nodes of your jobs"
    return Batch(
        directives=directives, variables=(), step=step, proofs=(), command=(tool.folder,), when=when,
        before=before,
    )  # fmt: skip


def kubernetes(target: Target, tool: Served) -> Manifest:
    name = re.sub(r"[^a-z0-9]+", "-", f"{target.row}-{tool.name}".lower()).strip("-")
    words = [word for option in tool.words for word in option.words]
    container: dict[str, Any] = {
        "name": tool.name,
        "image": target.image,
        "args": [*words, tool.folder],
        "env": [{"name": TOKEN, "valueFrom": {"secretKeyRef": {"name": name, "key": "token"}}}],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    if tool.gpu:
        container["resources"] = {"limits": {CUDA.device: 1}}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {"runAsUser": USER, "runAsNonRoot": True},
            "containers": [container],
        },
    }
    before = (
        f"First, once: {MAKE.format(file='token')} && kubectl create secret generic {name} --from-file=token",
        f"kubectl apply -f this file, and then: kubectl port-forward pod/{name} {tool.port}:{tool.port}",
        f"Then open {tool.place}: TOKEN is what that file contains.",
    )
    when = "on Kubernetes: the image has to be in a registry that the cluster reaches"
    return Manifest(document=document, settings=_of_pod(tool), when=when, before=before)


def _of_pod(tool: Served) -> tuple[tuple[str, str], ...]:
    settings = (
        ("args", f"the image's entry point starts them; {SERVE} {SERVE_WHY}"),
        (TOKEN, "the token, of a secret and in no argument"),
        ("automountServiceAccountToken: false", "a notebook needs no right in the cluster"),
        ("securityContext", "a user who is not root, and does not become root"),
        ("restartPolicy: Never", "what ended stays with its log"),
    )
    return (*settings, (CUDA.device, GPU_WHY)) if tool.gpu else settings


LAUNCHERS: Mapping[str, Callable[[Target, Served], Launch]] = {
    "docker": docker, "apptainer": apptainer, "slurm": slurm, "kubernetes": kubernetes,
}  # fmt: skip
"""By the name of the option that asks for it."""
READS = frozenset(("tool", "port"))
