"""Real engines for the tests: the one that answers, and ones of our own with a configuration to be tried."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attested import attest_folder, published, small, tampered, the_site, twin  # noqa: F401
from host_tools import bin_folder
from own_engine import TINY, OwnEngine, StartEngine, own_engine
from publishing import Rows
from registry_server import RegistryServer, StartRegistry
from registry_server import registry as running_registry
from upstream_server import UpstreamServer, serving

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings

CACHE = Path(__file__).resolve().parents[2] / "out" / "cache"
APPLETS = ("sh", "cat", "env", "echo", "id", "ls", "sleep", "test", "touch", "true", "wc", "sed", "df", "dd")


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="session", autouse=True)
def _the_mirror_is_asked_for_once(runner: Runner) -> Iterator[None]:
    """apt takes a second to say what its sources are, and each process would ask it."""
    with pytest.MonkeyPatch.context() as patch:
        if mirror := settings.apt_mirror(runner):
            patch.setenv("STACKWRIGHT_APT_MIRROR", mirror)
        yield


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
    mirror = settings.apt_mirror(runner)
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


@pytest.fixture(scope="module")
def host_tools(runner: Runner, docker: Docker) -> Iterator[None]:
    """This host has skopeo, oras and cosign. A module where they are to run in their image says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(bin_folder(runner, docker)), prepend=os.pathsep)
        yield


@pytest.fixture
def start_engine(
    runner: Runner, tiny_tar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartEngine]:
    """Start a dockerd with its own data, socket, configuration and PATH, which disturbs no other one."""
    with contextlib.ExitStack() as stack:

        def start(config: Mapping[str, Any] | None = None, programs: Path | None = None) -> OwnEngine:
            folder = tmp_path_factory.mktemp("e")
            own = stack.enter_context(own_engine(folder, config or {}, runner, programs=programs))
            done = runner(own.docker.command("import", "--change", "ENV PATH=/bin", tiny_tar, TINY))
            assert done.ok, done.stderr
            return own

        yield start


@pytest.fixture
def start_registry(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartRegistry]:
    """Start a registry that lives as long as the test: with TLS from a CA of its own, and a login."""
    with contextlib.ExitStack() as stack:

        def start(
            *, tls: bool = True, login: bool = True, host: str = "127.0.0.1", data: Path | None = None
        ) -> RegistryServer:
            folder = tmp_path_factory.mktemp("registry")
            made = running_registry(folder, runner, tls=tls, login=login, host=host, data=data)
            return stack.enter_context(made)

        yield start


@pytest.fixture
def registry(start_registry: StartRegistry, docker: Docker, runner: Runner) -> str:
    """HOST:PORT of a registry that lives as long as the test, where a container of the engine reaches it."""
    shown = runner(
        docker.command("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
    )
    return start_registry(tls=False, login=False, host=shown.stdout.strip()).address


@pytest.fixture
def rows(tmp_path: Path, docker: Docker, runner: Runner, tiny: str, host_tools: None) -> Iterator[Rows]:
    """Makes small images that stand for rows, and takes them away again."""
    made = Rows(tmp_path / "out", docker, runner)
    yield made
    made.remove()


@pytest.fixture
def server(start_registry: StartRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegistryServer:
    """A registry with TLS and a login, which Docker's configuration has."""
    server = start_registry()
    monkeypatch.setenv("DOCKER_CONFIG", str(server.docker_config(tmp_path / "docker")))
    return server


@pytest.fixture
def said() -> list[str]:
    """What the person who publishes is told on the way."""
    return []


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[UpstreamServer]:
    """An index and a mirror that this process, and those that it starts, are led to."""
    with serving(monkeypatch) as server:
        yield server
