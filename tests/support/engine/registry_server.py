"""A real registry for the tests: Debian's docker-registry, with TLS from a CA made here, and a login.

Nothing is installed: the program is taken out of its package. It is a process of its own on a free port, so
that a test can kill it, start it again over the same data, and give it a disk that is too small.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stackwright.host.runner import Runner

CACHE = Path(__file__).resolve().parents[3] / "out" / "cache"
USER, PASSWORD = "publisher", "planted-Passw0rd"
HTPASSWD = f"{USER}:$2y$05$1NL4ooq5pjKpbHfq8BQcCuKCzq31E7U4.thhScPCQQ54Ng5.Hj2RO\n"
"""Made by `htpasswd -nbB` of the password above; docker-registry reads nothing but bcrypt."""

STARTS_WITHIN = 20
"""Seconds."""


def program(runner: Runner) -> Path:
    """The distribution's docker-registry, unpacked once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    found = CACHE / "docker-registry"
    with (CACHE / "docker-registry.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            folder = CACHE / f"docker-registry-{os.getpid()}"
            folder.mkdir()
            done = runner(["apt-get", "download", "docker-registry"], cwd=folder)
            assert done.ok, done.stderr
            (package,) = folder.glob("*.deb")
            assert runner(["dpkg-deb", "--extract", package, folder]).ok
            (folder / "usr/bin/docker-registry").replace(found)
            shutil.rmtree(folder)
    return found


@dataclass(slots=True, kw_only=True)
class RegistryServer:
    """``address`` is HOST:PORT. ``ca`` is the CA's certificate, None where it speaks plain http.

    ``data`` holds what was pushed, and outlives ``kill``. ``login``: it asks for USER and PASSWORD.
    """

    address: str
    folder: Path
    data: Path
    binary: Path
    ca: Path | None
    login: bool
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"{'https' if self.ca else 'http'}://{self.address}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Wait until it answers; 401 is an answer."""
        assert self.process is None, "it runs already"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", self.folder / "config.yml"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]},
            )  # fmt: skip
        until = time.monotonic() + STARTS_WITHIN
        while not self._answers():
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()[-2000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut does: it finishes nothing."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def get(self, path: str, *, accept: str = "*/*") -> bytes:
        """What it answers to a GET of /v2/``path``; HTTPError for anything but success."""
        request = urllib.request.Request(f"{self.url}/v2/{path}", headers={"Accept": accept})
        if self.login:
            word = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            request.add_header("Authorization", f"Basic {word}")
        with urllib.request.urlopen(request, context=self._context(), timeout=10) as answer:
            return bytes(answer.read())

    def tags(self, repository: str) -> list[str]:
        try:
            return sorted(json.loads(self.get(f"{repository}/tags/list"))["tags"] or [])
        except urllib.error.HTTPError:
            return []

    def docker_config(self, folder: Path, *, password: str = PASSWORD) -> Path:
        """A folder for DOCKER_CONFIG, whose config.json has the login."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        word = base64.b64encode(f"{USER}:{password}".encode()).decode()
        (folder / "config.json").write_text(json.dumps({"auths": {self.address: {"auth": word}}}))
        return folder

    def _context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=str(self.ca)) if self.ca else None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/v2/", context=self._context(), timeout=5):
                return True
        except urllib.error.HTTPError as error:
            return error.code == 401
        except OSError:
            return False

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=20)
            self.process = None


class StartRegistry(Protocol):
    """``host`` is the address to listen on, ``data`` a folder for what is pushed instead of a new one."""

    def __call__(
        self, *, tls: bool = True, login: bool = True, host: str = "127.0.0.1", data: Path | None = None
    ) -> RegistryServer: ...


@contextlib.contextmanager
def registry(
    folder: Path, runner: Runner, *, tls: bool = True, login: bool = True, host: str = "127.0.0.1",
    data: Path | None = None,
) -> Iterator[RegistryServer]:  # fmt: skip
    """A registry that has started, and is gone at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    address = f"{host}:{_free_port(host)}"
    server = RegistryServer(
        address=address, folder=folder, data=data or folder / "data", binary=program(runner),
        ca=certificates(folder / "tls", host, runner) if tls else None, login=login,
    )  # fmt: skip
    _configure(server)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _configure(server: RegistryServer) -> None:
    (server.folder / "htpasswd").write_text(HTPASSWD)
    http: dict[str, object] = {"addr": server.address}
    if server.ca:
        tls = server.folder / "tls"
        http["tls"] = {"certificate": str(tls / "server.pem"), "key": str(tls / "server.key")}
    config: dict[str, object] = {
        "version": 0.1, "http": http,
        "storage": {"filesystem": {"rootdirectory": str(server.data)}, "delete": {"enabled": True}},
    }  # fmt: skip
    if server.login:
        config["auth"] = {"htpasswd": {"realm": "tests", "path": str(server.folder / "htpasswd")}}
    (server.folder / "config.yml").write_text(json.dumps(config))  # YAML has all of JSON in it


def certificates(folder: Path, host: str, runner: Runner) -> Path:
    """A CA, whose certificate is returned, and ``server.pem`` with ``server.key`` signed by it."""
    folder.mkdir(parents=True)
    ca, key = folder / "ca.pem", folder / "ca.key"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    _must(runner, *new, "-days", "30", "-subj", "/CN=CA of the tests", "-keyout", key, "-out", ca)
    _must(
        runner, *new, "-days", "30", "-subj", f"/CN={host}", "-addext", f"subjectAltName=IP:{host}",
        "-addext", "basicConstraints=critical,CA:FALSE", "-CA", ca, "-CAkey", key,
        "-keyout", folder / "server.key", "-out", folder / "server.pem",
    )  # fmt: skip
    return ca


def _must(runner: Runner, *argv: str | Path) -> None:
    done = runner(argv)
    assert done.ok, done.stderr


def _free_port(host: str) -> int:
    with socket.socket() as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])
