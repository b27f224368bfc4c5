"""Containers on a private network as the nodes of a cluster, with SSH keys that are made for it.

What is started over them is the line that `./build.py launch` prints.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from stackwright.core.checks.tables import collective
from stackwright.core.errors import EngineError
from stackwright.core.launch import launchers
from stackwright.core.model.row import Stack
from stackwright.core.render import dockerfile
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Mount
from stackwright.host.project import Planned
from stackwright.host.runner import Completed, Runner

ROOT = Path(__file__).resolve().parent.parent
USER = 1000
"""Of the image: ssh takes no key of another user."""
HOSTS = ("a", "b")
KEY = "/keys/id_ed25519"
INTERFACE = "eth0"
LIMIT = 300
"""Seconds that one program may take."""
SHARED_CORES = (
    "OMP_NUM_THREADS=1", "TF_NUM_INTRAOP_THREADS=1", "TF_NUM_INTEROP_THREADS=1", "TF_CPP_MIN_LOG_LEVEL=2",
    "OMPI_MCA_mpi_yield_when_idle=1", "CUDA_VISIBLE_DEVICES=",
)  # fmt: skip
"""All nodes are one machine, and more ranks than cores are usual: each computes with one thread, and one that
waits in MPI gives its core away: four ranks on two busy cores trained on 1,646 images a second so, and on 148
without. Open MPI would do it by itself, if it knew that the nodes share their cores."""
DRIVER = "/tmp/driver"  # noqa: S108 (in a container of our own)
LEND_DRIVER = f"""
import os, sys, sysconfig
sys.path.insert(0, "/probes")
import driver
os.makedirs("{DRIVER}", exist_ok=True)
driver.make(os.path.join(sysconfig.get_path("purelib"), "mxnet", "libmxnet.so"), "{DRIVER}/" + driver.LIBRARY)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """``containers`` of the stack's image are up, one for each of ``hosts``."""

    stack: Stack
    target: launchers.Target
    docker: Docker
    runner: Runner
    containers: tuple[str, ...]
    hosts: tuple[str, ...]

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Those that Horovod serves in the image, Keras among them: each has its probe and its example."""
        return tuple(dict.fromkeys(run.partition("/")[0] for run in collective.runs(self.stack)))

    def run(self, *argv: str) -> Completed:
        """On the first node, as the image's user."""
        return self.runner(self.docker.command("exec", self.containers[0], *argv), timeout=LIMIT)

    def launch(self, launcher: str, command: Sequence[str], *, nodes: int, per_node: int) -> Completed:
        """The line of this launcher, in a shell, as a person would paste it."""
        hosts = ",".join(f"{host}:{per_node}" for host in self.hosts[:nodes])
        site = launchers.site(hosts_text=hosts, interface=INTERFACE, ssh_key=KEY)
        made = launchers.LAUNCHERS[launcher].make(self.target, site, tuple(command))
        return self.run("bash", "-c", launchers.script(made))

    def python(self, framework: str, *words: str) -> tuple[str, ...]:
        """The command that runs the image's Python; MXNet does not load without a driver, and is lent one."""
        python = ("/opt/stack/bin/python", "-B")
        lent: tuple[str, ...] = ()
        if framework == "mxnet":
            lent = (f"LD_LIBRARY_PATH={DRIVER}",)
            for container in self.containers:
                _must(self.runner, self.docker.command("exec", container, *python, "-c", LEND_DRIVER))
        return ("env", *SHARED_CORES, *lent, *python, *words)


@contextlib.contextmanager
def up(runner: Runner, row: Planned, folder: Path, *mounts: Mount) -> Iterator[Nodes]:
    """Start a container for each host, and take all away in the end. ``folder`` receives the keys.

    They see the probes and the examples, in /probes and /examples, and what ``mounts`` adds. EngineError
    where the row's image is not there.
    """
    docker, tag = engine.find(runner), uuid4().hex[:8]
    image = dockerfile.reference(row.recipe)
    if not engine.image_exists(docker, image):
        raise EngineError(f"{image} is not there", hint=f"./build.py build {row.stack.id}")
    network, containers = f"nodes-{tag}", tuple(f"node-{host}-{tag}" for host in HOSTS)
    keys = folder / "keys"
    _make_keys(keys, docker, image)
    _must(runner, docker.command("network", "create", "--internal", network))
    try:
        for host, container in zip(HOSTS, containers, strict=True):
            shared = (
                *mounts,
                Mount(source=keys, target="/keys"),
                *(Mount(source=ROOT / name, target=f"/{name}") for name in ("probes", "examples")),
            )
            volumes = (f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}" for mount in shared)
            options = [word for volume in volumes for word in ("--volume", volume)]
            _must(runner, docker.command(
                "run", "--detach", "--label", f"{engine.MADE_BY_US}={os.getpid()}", "--name", container,
                "--hostname", host, "--network", network, "--network-alias", host, "--shm-size", "1g",
                "--env", f"AUTHORIZED_KEYS={KEY}.pub",
                *options, image, "sshd-as-user", str(launchers.SSH_PORT),
            ))  # fmt: skip
        yield Nodes(
            stack=row.stack, target=launchers.Target.of(row.stack, image), docker=docker, runner=runner,
            containers=containers, hosts=HOSTS,
        )  # fmt: skip
    finally:
        runner(docker.command("rm", "--force", *containers))
        runner(docker.command("network", "rm", network))


def _make_keys(folder: Path, docker: Docker, image: str) -> None:
    """In a container, as the user that will read them: the host may have no ssh-keygen."""
    folder.mkdir()
    os.chown(folder, USER, USER)
    argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", KEY)
    mount = Mount(source=folder, target="/keys", read_only=False)
    done = engine.run(docker, engine.Job(image=image, argv=argv, mounts=(mount,)))
    if not done.ok:
        raise EngineError(f"no keys could be made: {done.stderr.strip()}", place=image)


def _must(runner: Runner, argv: Sequence[str]) -> None:
    done = runner(argv)
    if not done.ok:
        raise EngineError(done.stderr.strip(), place=shlex.join(argv)[:200])
