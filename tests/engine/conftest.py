"""Real engines for the tests: the one that answers, and ones of our own with a configuration to be tried."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from own_engine import TINY, OwnEngine, StartEngine

from stackwright import host
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.runner import Runner

CACHE = Path(__file__).resolve().parents[2] / "out" / "cache"
APPLETS = ("sh", "cat", "env", "echo", "id", "ls", "sleep", "test", "touch", "true", "wc", "sed", "df", "dd")


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="session")
def docker(runner: Runner) -> Docker:
    return engine.find(runner)


@pytest.fixture(scope="session")
def tiny_tar(runner: Runner) -> Path:
    """A root file system of 2 MB: the distribution's static busybox. No registry is asked."""
    CACHE.mkdir(parents=True, exist_ok=True)
    archive = CACHE / "busybox.tar"
    with (CACHE / "busybox.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make_tiny(runner, archive)
    return archive


def _make_tiny(runner: Runner, archive: Path) -> None:
    package = archive.with_suffix(".package")
    argv: list[str | Path] = ["mmdebstrap", "--quiet", "--variant=extract", "--include=busybox-static"]
    mirror = host.apt_mirror(runner)
    source = [f"deb {mirror} trixie main"] if mirror else []
    done = runner([*argv, "--format=tar", "trixie", package, *source])
    assert done.ok, done.stderr
    with tarfile.open(package) as found:
        member = next(m for m in found if m.name.endswith("bin/busybox") and m.isfile())
        file = found.extractfile(member)
        assert file is not None
        program = file.read()
    with tarfile.open(archive.with_suffix(".part"), "w") as made:
        for name in ("bin", "tmp", "etc"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            made.addfile(folder)
        _add(made, "bin/busybox", program, 0o755)
        _add(made, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n", 0o644)
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            made.addfile(link)
    archive.with_suffix(".part").replace(archive)
    package.unlink()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))


@pytest.fixture(scope="session")
def tiny(runner: Runner, docker: Docker, tiny_tar: Path) -> str:
    if not engine.image_exists(docker, TINY):
        done = runner(docker.command("import", "--change", "ENV PATH=/bin", tiny_tar, TINY))
        assert done.ok, done.stderr
    return TINY


@pytest.fixture
def start_engine(
    runner: Runner, tiny_tar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartEngine]:
    """Start a dockerd with its own data, socket, configuration and PATH, which disturbs no other one."""
    with contextlib.ExitStack() as stack:

        def start(config: Mapping[str, Any] | None = None, programs: Path | None = None) -> OwnEngine:
            folder = tmp_path_factory.mktemp("e")
            own = stack.enter_context(_engine(folder, config or {}, programs, runner))
            done = runner(own.docker.command("import", "--change", "ENV PATH=/bin", tiny_tar, TINY))
            assert done.ok, done.stderr
            return own

        yield start


@contextlib.contextmanager
def _engine(
    folder: Path, config: Mapping[str, Any], programs: Path | None, runner: Runner
) -> Iterator[OwnEngine]:
    (folder / "cdi").mkdir(exist_ok=True)
    features = {"features": {"cdi": True, "containerd-snapshotter": False}, "storage-driver": "overlay2"}
    (folder / "daemon.json").write_text(json.dumps({**features, **config}))
    socket = f"unix://{folder}/s"
    # A network of its own: --bridge=none makes a daemon delete docker0, which is the other engine's.
    argv: list[str | Path] = [
        "unshare",
        "--net",
        "dockerd",
        "--config-file",
        folder / "daemon.json",
        "--data-root",
        folder / "data",
    ]
    argv += ["--exec-root", folder / "x", "--pidfile", folder / "pid", "--host", socket]
    argv += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--cdi-spec-dir", folder / "cdi"]
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
        _unmount_below(folder, runner)


def _wait(process: subprocess.Popen[bytes], folder: Path, socket: str, runner: Runner) -> None:
    program = host.docker_program(runner)
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
