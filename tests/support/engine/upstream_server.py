"""A package index and a distribution's mirror for the tests: real formats, few packages, served on loopback.

The test says what is in them, moves it, and takes them away. It sees what is asked.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import lzma
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

RUNTIME = "nvidia-cuda-runtime-cu12"
PACKAGES = (
    ("torch", "2.6.0", (f"{RUNTIME}==12.4.127", "nvidia-cudnn-cu12==9.1.0.70", "nvidia-nccl-cu12==2.21.5")),
    (RUNTIME, "12.4.127", ()),
    ("nvidia-cudnn-cu12", "9.1.0.70", ()),
    ("nvidia-nccl-cu12", "2.21.5", ()),
    ("nvidia-nccl-cu12", "2.27.7", ()),
    ("nvidia-nccl-cu12", "2.28.3", ()),
    *((name, "1.0", ()) for name in ("cffi", "cloudpickle", "packaging", "psutil", "pyyaml", "setuptools")),
    ("numpy", "2.2.3", ()),
)
SUITE = {
    "libc6": "2.41-12", "openmpi-bin": "5.0.7-1", "python3.13": "3.13.5-2", "gcc-13": "13.3.0-16",
    "nvidia-cuda-toolkit": "12.4.131~12.4.1-2",
}  # fmt: skip


def wheel(name: str, version: str, requires: tuple[str, ...]) -> tuple[str, bytes]:
    """A file's name and its content: metadata, and no module."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    needs = "".join(f"Requires-Dist: {require}\n" for require in requires)
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in texts.items())
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in {**texts, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return f"{stem}-py3-none-any.whl", made.getvalue()


def _digest(text: str) -> str:
    found = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
    return f"sha256={found.decode()}"


@dataclass(slots=True)
class UpstreamServer:
    """``files`` by path. ``asked``: every path that was asked for, in order."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.wfile.write(self.do_HEAD())

            def do_HEAD(self) -> bytes:
                upstream.asked.append(self.path)
                content = upstream.files.get(self.path)
                kind = "text/html" if self.path.endswith("/") else "binary/octet-stream"
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                return content or b""

            def log_message(self, format: str, *args: object) -> None:
                pass

        port = self.server.server_port if self.server else 0
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """From now on nobody answers; ``start`` brings it back under the same address."""
        assert self.server
        self.server.shutdown()
        self.server.server_close()

    @property
    def address(self) -> str:
        assert self.server
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What leads a process to it."""
        return {
            "UV_DEFAULT_INDEX": f"{self.address}/simple", "STACKWRIGHT_APT_MIRROR": f"{self.address}/debian",
        }  # fmt: skip

    def fill(self) -> None:
        for name, version, requires in PACKAGES:
            self.package(name, version, requires)
        self.suite("trixie", SUITE, "Thu, 01 Jan 2026 00:00:00 UTC")

    def package(self, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
        """One more release of a package."""
        file, content = wheel(name, version, requires)
        self.files[f"/files/{file}"] = content
        page = self.files.get(f"/simple/{name}/", b"<!DOCTYPE html>\n").decode()
        digest = hashlib.sha256(content).hexdigest()
        page += f'<a href="/files/{file}#sha256={digest}">{file}</a><br>\n'
        self.files[f"/simple/{name}/"] = page.encode()

    def source(self, name: str, version: str, files: dict[str, str]) -> None:
        """A source of a package, with these files in its one folder."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path, text in files.items():
                member = tarfile.TarInfo(f"{name}-{version}/{path}")
                member.size = len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
        file, content = f"{name.replace('-', '_')}-{version}.tar.gz", packed.getvalue()
        self.files[f"/files/{file}"] = content
        page = self.files.get(f"/simple/{name}/", b"<!DOCTYPE html>\n").decode()
        page += f'<a href="/files/{file}#sha256={hashlib.sha256(content).hexdigest()}">{file}</a><br>\n'
        self.files[f"/simple/{name}/"] = page.encode()

    def suite(self, name: str, versions: dict[str, str], date: str) -> None:
        """The state of a suite, with all of its packages in main."""
        listed = []
        for component in ("main", "contrib", "non-free"):
            here = versions if component == "main" else {}
            index = "".join(f"Package: {p}\nArchitecture: amd64\nVersion: {v}\n\n" for p, v in here.items())
            packed = lzma.compress(index.encode())
            path = f"{component}/binary-amd64/Packages.xz"
            self.files[f"/debian/dists/{name}/{path}"] = packed
            listed.append(f" {hashlib.sha256(packed).hexdigest()} {len(packed)} {path}\n")
        text = f"Origin: Debian\nSuite: stable\nVersion: 13.2\nDate: {date}\nSHA256:\n{''.join(listed)}"
        self.files[f"/debian/dists/{name}/InRelease"] = text.encode()


@contextlib.contextmanager
def serving(patch: pytest.MonkeyPatch) -> Iterator[UpstreamServer]:
    """Lead this process, and those that it starts, to an index and a mirror with the packages above."""
    server = UpstreamServer()
    server.start()
    server.fill()
    for name, value in server.environment.items():
        patch.setenv(name, value)
    yield server
    server.stop()
