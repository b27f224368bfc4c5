"""``build.py facts`` against an index and a mirror on loopback: agree, a planted difference, an update."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from upstream_server import UpstreamServer

from stackwright.audit.facts import deb, frameworks, index, nvcc, readers
from stackwright.audit.facts.sources import Sources
from stackwright.cli import main
from stackwright.core.errors import SiteError
from stackwright.core.facts import distributions, entries
from stackwright.host.retry import Patience
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.host.upstream import web

DEBIAN = tuple(known for known in distributions.DISTRIBUTIONS if known.family == "debian")


def packages(known: distributions.Distribution) -> dict[str, str]:
    """What a mirror would have, if the table were true."""
    compilers = {f"{name}-{gcc}": gcc for gcc in known.gcc for name in ("gcc", "g++")}
    return compilers | {
        "python3": f"{known.python}.1-1", "libc6": f"{known.glibc}-1", "openmpi-bin": f"{known.openmpi}-1",
        "mpich": f"{known.mpich}-1", "cmake": f"{known.cmake}-1", "nvidia-cuda-toolkit": f"{known.cuda}.1-1",
        "tini": "0.19", "libucx0": "1.18", "ucx-utils": "1.18",
    }  # fmt: skip


@pytest.fixture
def a_mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[UpstreamServer]:
    """A mirror that agrees with the committed tables, of which the test has a copy."""
    server = UpstreamServer()
    server.start()
    for known in DEBIAN:
        server.suite(known.suite, packages(known), "Thu, 01 Jan 2026 00:00:00 UTC")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(entries, "DATA", shutil.copytree(entries.DATA, tmp_path / "data"))
    _forget()
    yield server
    server.stop()
    _forget()


def _forget() -> None:
    entries.load.cache_clear()
    deb.stanzas.cache_clear()


def facts(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main.main(["--out", str(out), "facts", "distributions", *arguments])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def test_a_changed_fact_is_named_and_the_exit_code_says_so(
    a_mirror: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source moves, the table stays; an update writes the table, and the two agree again."""
    table = entries.DATA / "distributions.json"
    before, page = table.read_bytes(), tmp_path / "facts.md"
    code, _, said = facts(capsys, tmp_path, "--check")
    assert (code, "3 agree, 0 differ, 5 cannot be asked" in said) == (0, True), said

    moved = packages(DEBIAN[2]) | {"mpich": "9.9.9-1"}
    a_mirror.suite("trixie", moved, "Fri, 02 Jan 2026 00:00:00 UTC")
    _forget()
    code, out, said = facts(capsys, tmp_path, "--check", "--format", "json", "--report", str(page))
    assert (code, "1 facts differ" in said) == (16, True), said
    (line,) = [entry for entry in json.loads(out)["entries"] if entry["outcome"] == "differs"]
    assert (line["table"], line["key"]) == ("distributions", "debian-13")
    assert '{"mpich": "9.9.9"} there' in page.read_text()
    assert table.read_bytes() == before

    code, _, said = facts(capsys, tmp_path, "--update")
    assert (code, "written: " in said) == (0, True), said
    assert b'"mpich": "9.9.9"' in table.read_bytes()
    _forget()
    assert facts(capsys, tmp_path, "--check")[0] == 0


def test_without_any_source_nothing_counts_as_checked(
    a_mirror: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("stackwright.host.upstream.mirror.PATIENCE", Patience(most=1))
    a_mirror.files.clear()
    code, _, said = facts(capsys, tmp_path, "--check")
    assert (code, "no source of facts can be reached" in said) == (11, True), said


# -- an index -----------------------------------------------------------------------------------------

PTXAS = """#!/bin/sh
echo "--gpu-name <gpu name>"
echo "  Allowed values for this option:  'compute_90','sm_80','sm_90','sm_90a'."
echo "  Default value:  'sm_52'."
"""
HEADER = "#if __GNUC__ > 12\n#error\n#endif\n"


class Index:
    """Wheels on loopback, whole and by ranges; the page is as PEP 691 has it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges, self.sent = True, 0
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = index.page(self.path) if self.path.endswith("/") else index.files[self.path[1:]]
                wanted = self.headers.get("Range", "") if index.ranges else ""
                if wanted:
                    first, last = map(int, wanted.removeprefix("bytes=").split("-"))
                    content = content[first : last + 1]
                self.send_response(206 if wanted else 200)
                if wanted:
                    whole = len(index.files[self.path[1:]])
                    self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                index.sent += len(content)  # before the client can have it, and ask how much was sent
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def page(self, path: str) -> bytes:
        project = path.strip("/").replace("-", "_")
        files = [
            {"filename": name, "url": f"/{name}", "size": len(content), "yanked": False,
             "hashes": {"sha256": hashlib.sha256(content).hexdigest()}}
            for name, content in self.files.items() if name.startswith(f"{project}-")
        ]  # fmt: skip
        return json.dumps({"files": files}).encode()

    def add(self, name: str, members: dict[str, str], stuffing: int = 0) -> None:
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as archive:
            archive.writestr("stuffing", b"\0" * stuffing)
            for path, text in members.items():
                archive.writestr(path, text)
        self.files[name] = held.getvalue()


@pytest.fixture
def served() -> Iterator[Index]:
    made = Index()
    yield made
    made.server.shutdown()
    made.server.server_close()


def sources(served: Index, kept: Path) -> Sources:
    return Sources(index=served.address, mirror=lambda os: None, kept=kept, runner=Runner())


TAG = "py3-none-manylinux1_x86_64.whl"


def test_a_compiler_is_fetched_whole_and_its_ptxas_is_run(served: Index, tmp_path: Path) -> None:
    """It is asked once: the second answer is what was kept of a file with this hash."""
    compiler = {"nvidia/bin/ptxas": PTXAS, "nvidia/include/crt/host_config.h": HEADER}
    served.add(f"nvidia_cuda_nvcc_cu12-12.4.99-{TAG}", {"nvidia/bin/ptxas": "not the newest"})
    served.add(f"nvidia_cuda_nvcc_cu12-12.4.131-{TAG}", compiler)
    said = {
        (answer.table, answer.key): answer
        for answer in nvcc.read(sources(served, tmp_path))
        if not answer.why
    }
    assert list(said["cuda-arch", "12.4"].value) == ["8.0", "9.0"]
    assert said["cuda-gcc", "12.4"].value == 12
    assert "12.4.131" in said["cuda-gcc", "12.4"].source
    sent = served.sent
    again = [
        answer.value for answer in nvcc.read(sources(served, tmp_path)) if (answer.table, answer.key) in said
    ]
    assert ["8.0", "9.0"] in [list(value) if isinstance(value, list) else value for value in again]
    assert served.sent == sent


def test_a_file_with_another_hash_is_never_run(served: Index, tmp_path: Path) -> None:
    name = f"nvidia_cuda_nvcc_cu12-12.4.131-{TAG}"
    served.add(name, {"nvidia/bin/ptxas": PTXAS})
    (wheel,) = index.wheels(served.address, "nvidia-cuda-nvcc-cu12")
    served.files[name] += b"more"
    with pytest.raises(SiteError, match="sha256 differs"):
        web.download(wheel.url, wheel.sha256, tmp_path / "wheel")


def test_of_a_large_wheel_only_what_is_asked_for_is_fetched(served: Index) -> None:
    served.add(
        f"torch-2.0.0-{TAG}",
        {
            "torch-2.0.0.dist-info/METADATA": "Name: torch\nRequires-Dist: nvidia-nccl-cu11==2.14.3\n",
            "torch/version.py": "cuda = '11.7'\n",
            "torch/lib/libtorch_python.so": "sm_70 sm_80",
        },
        stuffing=8 << 20,
    )
    (wheel,) = index.wheels(served.address, "torch")
    said = frameworks.torch_wheel(web.archive(wheel.url, wheel.size))
    assert (said["cuda"], said["nccl"], said["code"]) == ("11.7", "2.14.3", "sm_70 sm_80")
    assert web.archive(wheel.url, 0).namelist()[0] == "stuffing"
    assert served.sent < 2 << 20
    served.ranges = False
    with pytest.raises(SiteError, match="does not serve parts"):
        web.archive(wheel.url, wheel.size)


def test_a_release_of_jax_has_the_plugins_that_the_index_has(served: Index, tmp_path: Path) -> None:
    """A release before 0.7, one for CUDA 12 alone, and one for both: each as for its newest Python."""
    needs = "Name: x\nRequires-Dist: nvidia-nccl-cu%s>=2.%s; extra == 'with-cuda'\n"
    for version, cuda, python in (
        ("0.6.2", "12", "312"), ("0.7.0", "12", "312"),
        ("0.12.0", "12", "313"), ("0.12.0", "13", "313"), ("0.12.0", "13", "314"),
    ):  # fmt: skip
        name = f"jax_cuda{cuda}_plugin-{version}"
        tag = f"cp{python}-cp{python}-manylinux_2_27_x86_64"
        files = {f"{name}.dist-info/METADATA": needs % (cuda, python), f"jax_cuda{cuda}_plugin/_prng.so": ""}
        served.add(f"{name}-{tag}.whl", files)
    said = {plugin.key: plugin for plugin in frameworks.plugins(sources(served, tmp_path))}
    assert {key: sorted(answer.value["plugins"]) for key, answer in said.items() if not answer.why} == {
        "0.7.0": ["12"], "0.12.0": ["12", "13"],
    }, said  # fmt: skip
    newest = said["0.12.0"].value
    assert (newest["python"], newest["glibc"]) == ("3.13-3.14", "2.27")
    assert newest["plugins"]["13"] == {"cuda": "", "cudnn": "", "nccl": ">=2.314", "code": ""}
    assert newest["plugins"]["12"]["nccl"] == ">=2.313"


def test_a_wheel_that_would_need_too_many_parts_is_refused(
    served: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "PARTS_LIMIT", 100)
    served.add(f"torch-2.0.0-{TAG}", {"torch/version.py": ""}, stuffing=1 << 20)
    (wheel,) = index.wheels(served.address, "torch")
    with pytest.raises(SiteError, match="more than 100 bytes"):
        web.archive(wheel.url, wheel.size)


def test_a_package_of_another_release_answers_no_question(
    a_mirror: UpstreamServer, runner: Runner, tmp_path: Path
) -> None:
    known = distributions.known("debian-13")
    stanza = "12.3.107-1\nFilename: pool/toolkit.deb\nSHA256: 00"
    a_mirror.suite(known.suite, {"nvidia-cuda-toolkit": stanza}, "Thu, 01 Jan 2026 00:00:00 UTC")
    there = readers.sources(settings.site(runner), runner, tmp_path)
    assert nvcc.packaged(there, known, "nvidia-cuda-toolkit", "12.3").version == "12.3.107-1"
    with pytest.raises(SiteError, match=r"of debian-13 is 12\.3\.107-1, not CUDA 12\.4"):
        nvcc.packaged(there, known, "nvidia-cuda-toolkit", "12.4")


# -- the host's own index and mirror ------------------------------------------------------------------


def test_the_sources_that_this_host_knows_answer_as_the_readers_expect(
    runner: Runner, tmp_path: Path
) -> None:
    """The formats of the real index and mirror. What they say of releases that move is not compared."""
    real = readers.sources(settings.site(runner), runner, tmp_path)
    known = distributions.known("debian-13")
    toolkit = deb.stanzas(deb.mirror(real, known), known.suite, "non-free")["nvidia-cuda-toolkit"]
    assert "\nVersion: 12.4." in toolkit
    (header,) = [wheel for wheel in real.wheels("nvidia-cuda-crt") if str(wheel.version) == "13.0.88"]
    assert nvcc.header(header) == 15
