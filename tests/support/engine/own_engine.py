"""What conftest.py hands to a test that needs an engine of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host import owners
from stackwright.host.runner import Runner
from stackwright.host.site import settings

TINY = "stackwright-test/tiny:1"
"""The image that is in every engine of the tests: busybox, 2 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEngine:
    """``folder`` holds all of it; ``environ`` has the DOCKER_HOST that leads to it."""

    docker: Docker
    folder: Path
    environ: Mapping[str, str]


def forget(docker: Docker, reference: str) -> None:
    """Remove a name of an image, and the marks of the projects that use it."""
    names = (engine.inspect(docker, reference) or {}).get("RepoTags") or ()
    for name in (reference, *(name for name in names if owners.marked_by((name,)))):
        engine.remove(docker, name)


class StartEngine(Protocol):
    """``config`` goes into daemon.json; ``programs`` is a folder put first on the daemon's PATH."""

    def __call__(
        self, config: Mapping[str, Any] | None = None, programs: Path | None = None
    ) -> OwnEngine: ...


def _dockerd(folder: Path, sockets: Path) -> list[str | Path]:
    """A network of its own: --bridge=none makes a daemon delete docker0, which is the other engine's."""
    words: list[str | Path] = ["dockerd", "--config-file", folder / "daemon.json", "--exec-root", sockets]
    words += ["--data-root", folder / "data", "--pidfile", folder / "pid", "--cdi-spec-dir", folder / "cdi"]
    return [*words, "--bridge=none", "--iptables=false", "--ip6tables=false"]


@contextlib.contextmanager
def own_engine(
    folder: Path,
    config: Mapping[str, Any],
    runner: Runner,
    *,
    programs: Path | None = None,
    network: Sequence[str | Path] = ("unshare", "--net"),
) -> Iterator[OwnEngine]:
    """A dockerd with all that it has in ``folder``, and its network by the command ``network``.

    Its sockets are in a folder apart: the kernel takes a path of 107 bytes, and that of a test is long.
    """
    short = Path(tempfile.mkdtemp(prefix="engine-"))
    (folder / "cdi").mkdir(exist_ok=True)
    features = {"features": {"cdi": True, "containerd-snapshotter": False}, "storage-driver": "overlay2"}
    (folder / "daemon.json").write_text(json.dumps({**features, **config}))
    socket = f"unix://{folder}/s"
    argv = [*network, *_dockerd(folder, short), "--host", socket]
    path = os.environ["PATH"] if programs is None else f"{programs}:{os.environ['PATH']}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "PATH": path}
        )
    try:
        environ = {**os.environ, "DOCKER_HOST": socket}
        _wait(process, folder, socket, runner)
        yield OwnEngine(docker=engine.find(runner, environ), folder=folder, environ=environ)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        for used in (folder, short):
            _unmount_below(used, runner)
        shutil.rmtree(short)


def _wait(process: subprocess.Popen[bytes], folder: Path, socket: str, runner: Runner) -> None:
    program = settings.docker_program(runner)
    for _ in range(150):
        if runner([program, "--host", socket, "version"]).ok:
            return
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        time.sleep(0.1)
    raise AssertionError((folder / "log").read_text()[-2000:])


def _unmount_below(folder: Path, runner: Runner) -> None:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for path in sorted((m for m in mounted if m.startswith(f"{folder}/")), reverse=True):
        runner(["umount", path])
