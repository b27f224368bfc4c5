"""Two nodes on one machine: two engines that know nothing of each other, and one registry that both reach.

They share a network that nobody else has: there, the registry is on a loopback address, which an engine needs
no certificate for. A worker of Dask's is a node's if its DOCKER_HOST is that engine's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import registry_server
import small_repository
import yaml
from own_engine import OwnEngine, own_engine

from stackwright.host.runner import Runner

ROOT = small_repository.ROOT
REGISTRY = "127.0.0.1:5000"
CACHE = f"{REGISTRY}/stackwright-cache"
FIRST = ("cuda12-torch", "nccl-override", "cuda12-all", "cuda12-mpich", "cuda13-torch")
COPIES = tuple(f"copy-{number}" for number in range(10))
"""More rows: what a dead node had done of one row is to be a small part of all."""
ROWS = (*FIRST, *COPIES)
DYING = "cuda12-all"
SECONDS = '{{ 12 if stack.id == "cuda12-all" else 1 }}'
"""That a step of each row takes: of the one that is ``DYING``, long enough to be killed in it."""
DOCKERFILE = f"""\
ARG BASE_IMAGE=debian:trixie-slim
FROM ${{BASE_IMAGE}} AS base
RUN --network=none : SALT; mkdir -p /opt/stack/bin; install -m 755 /usr/bin/true /opt/stack/bin/python
FROM base AS toolchain
RUN --network=none echo "gcc {{{{ stack.gcc }}}}" > /toolchain; sleep 1
FROM base AS frameworks
RUN --network=none echo "{{{{ stack.id }}}}" > /frameworks; sleep {SECONDS}
FROM base AS final
RUN --network=none echo "{{{{ stack.mpi.flavour }}}}" > /mpi; sleep 1
COPY --link --from=toolchain /toolchain /toolchain
COPY --link --from=frameworks /frameworks /frameworks
COPY --link row.json /etc/stackwright/row.json
{{% for name, value in labels %}}LABEL {{{{ name }}}}={{{{ value | dockerfile_literal }}}}
{{% endfor %}}"""
LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as any: fcntl.ioctl(any, 0x8914, struct.pack("16sH14x", b"lo", 0x49))
"""
"""SIOCSIFFLAGS with IFF_UP | IFF_RUNNING | IFF_LOOPBACK: what `ip link set lo up` does."""
ANSWERS = f"import urllib.request as r; r.urlopen('http://{REGISTRY}/v2/', timeout=2)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    engines: tuple[OwnEngine, OwnEngine]
    runner: Runner

    def executed(self) -> list[str]:
        """The RUN steps that BuildKit of either node executed to their end, as its own cache tells."""
        told = [
            self.runner(engine.docker.command("buildx", "du", "--verbose")).stdout for engine in self.engines
        ]
        return [line for text in told for line in re.findall(r"Description:\s*(mount / from exec .*)", text)]

    def forget(self) -> None:
        """What a test before left in the build caches; in the registry, each has steps of its own."""
        for engine in self.engines:
            self.runner(engine.docker.command("buildx", "prune", "--all", "--force"))


@contextlib.contextmanager
def up(folder: Path, runner: Runner) -> Iterator[Nodes]:
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(_network())
        stack.enter_context(_registry(folder / "registry", inside, runner))
        made = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            made.append(stack.enter_context(own_engine(folder / name, {}, runner, network=inside)))
        yield Nodes(engines=(made[0], made[1]), runner=runner)


@contextlib.contextmanager
def _network() -> Iterator[tuple[str, ...]]:
    """The words in front of a command that is to run in it."""
    with process(["unshare", "--net", "sleep", "infinity"]) as holder:
        inside = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        mine = Path("/proc/self/ns/net").readlink()
        wait_for(lambda: Path(f"/proc/{holder.pid}/ns/net").readlink() != mine, "a network")
        subprocess.run([*inside, sys.executable, "-c", LOOPBACK_UP], check=True)
        yield inside


@contextlib.contextmanager
def _registry(folder: Path, inside: Sequence[str], runner: Runner) -> Iterator[None]:
    folder.mkdir()
    storage = {"filesystem": {"rootdirectory": str(folder / "data")}}
    config = {"version": 0.1, "http": {"addr": REGISTRY}, "storage": storage}
    (folder / "config.yml").write_text(json.dumps(config))
    with process([*inside, registry_server.program(runner), "serve", folder / "config.yml"]):
        wait_for(lambda: runner([*inside, sys.executable, "-c", ANSWERS]).ok, "a registry")
        yield


@contextlib.contextmanager
def process(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    cwd: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    with (log or Path(os.devnull)).open("ab") as output:
        started = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait(timeout=20)


def wait_for(there: Callable[[], bool], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < until, f"no {what} within {seconds:.0f} s"
        time.sleep(0.1)


def project(folder: Path, copies: Sequence[str]) -> Path:
    """Small rows of one distribution, which share stages as the real ones do."""
    small_repository.make(folder, FIRST)
    (folder / "dockerfiles" / "Dockerfile.j2").write_text(DOCKERFILE.replace("SALT", uuid4().hex))
    matrix = yaml.safe_load((folder / "matrix.yaml").read_text())
    assert [row["id"] for row in matrix["include"]] == list(FIRST)
    for name in copies:
        matrix["include"].append({**deepcopy(matrix["include"][0]), "id": name})
        shutil.copy(folder / "locks" / f"{FIRST[0]}.txt", folder / "locks" / f"{name}.txt")
    (folder / "matrix.yaml").write_text(yaml.safe_dump(matrix))
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@dataclass(slots=True, kw_only=True)
class Dask:
    """A scheduler and workers for a project, as a person would start them. ``kill`` is kill -9."""

    root: Path
    port: int
    logs: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def scheduler(self) -> None:
        words = ("--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0")
        self._start("scheduler", *words)

    def worker(
        self, name: str, node: OwnEngine, *more: str,
        env: Mapping[str, str] | None = None, root: Path | None = None,
    ) -> None:  # fmt: skip
        words = ("--name", name, "--nthreads", "2", "--no-nanny", "--no-dashboard", *more)
        self._start("worker", self.address, *words, env={**node.environ, **(env or {})}, name=name, root=root)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)

    def _start(
        self, program: str, *words: str,
        env: Mapping[str, str] = os.environ, name: str = "", root: Path | None = None,
    ) -> None:  # fmt: skip
        command = [str(self.root / ".venv/bin/python"), "-m", f"distributed.cli.dask_{program}", *words]
        log = self.logs / f"{name or program}.log"
        started = process(command, env=env, log=log, cwd=root or self.root)  # where Python finds the package
        self.running[name or program] = self.stack.enter_context(started)


@contextlib.contextmanager
def dask(root: Path, logs: Path) -> Iterator[Dask]:
    with contextlib.ExitStack() as stack:
        yield Dask(root=root, port=free_port(), logs=logs, stack=stack)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
