"""scripts/build-distribution.sh compiles a real source with a real gcc, from an index on loopback."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from upstream_server import UpstreamServer

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("gcc") is None,
        reason="this host has no gcc; in an image, the checks `compiled.*` ask what the script made",
    ),
]

SCRIPT = Path(__file__).parents[2] / "scripts" / "build-distribution.sh"
BACKEND = """
import importlib.metadata, os, subprocess, zipfile

INFO = "own-1.0.dist-info/"
FILES = {
    "METADATA": "Metadata-Version: 2.1\\nName: own\\nVersion: 1.0\\n",
    "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "RECORD": "own/own.so,,\\n",
}

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    os.mkdir(os.path.join(folder, INFO))
    for name, text in FILES.items():
        open(os.path.join(folder, INFO, name), "w").write(text)
    return INFO.strip("/")

def build_wheel(folder, config_settings=None, metadata_directory=None):
    importlib.metadata.version("helper")  # what it is compiled with
    options = ("-march=native", os.environ["MORE"], "-g", "-shared", "-fPIC", "-o", "own.so", "own.c")
    subprocess.run([os.environ["CC"], *options], check=True)
    name = "own-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.write("own.so", "own/own.so")
        wheel.writestr("own/said.txt", os.environ["ASKED_FOR"])
        for file, text in FILES.items():
            wheel.writestr(INFO + file, text)
    return name
"""
PROJECT = '[build-system]\nrequires = ["helper"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
C = "int own(void) { return 0; }\n"
TOOLS = {
    "mpirun": "echo 'mpirun (Open MPI) 5.0.7'",
    "nvcc": "echo 'Cuda compilation tools, release 12.4, V12.4.131'",
    "ccache": 'case $1 in --*) ;; *) exec "$@" ;; esac',
}
"""Programs of the toolchain that this source does not need; gcc and strip are the host's."""


@dataclass(slots=True)
class Build:
    """Where the script finds things, and what it said."""

    upstream: UpstreamServer
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        files = {
            "PKG-INFO": "Metadata-Version: 2.1\n",
            "pyproject.toml": PROJECT,
            "own.c": C,
            "backend.py": BACKEND,
        }
        self.upstream.source("own", "1.0", {**files, "kernel.cu": ""})
        self.upstream.package("helper", "1.0")
        asked = self.folder / "asked"
        asked.mkdir()
        (asked / "source.txt").write_text(f"own==1.0 --hash=sha256:{self.digest('own-1.0.tar.gz')}\n")
        (asked / "env.txt").write_text("ASKED_FOR=1 -DA=b\nMORE=-Wall\n")
        wheel = "helper-1.0-py3-none-any.whl"
        (asked / "needs.txt").write_text(f"helper==1.0 --hash=sha256:{self.digest(wheel)}\n")
        tools = self.folder / "cuda" / "bin"
        tools.mkdir(parents=True)
        for name, line in TOOLS.items():
            (tools / name).write_text(f"#!/bin/sh\n{line}\n")
            (tools / name).chmod(0o755)

    def digest(self, file: str) -> str:
        return hashlib.sha256(self.upstream.files[f"/files/{file}"]).hexdigest()

    def run(self, out: str, key: str = "one", cache: str = "cache") -> subprocess.CompletedProcess[str]:
        there = {
            "PATH": f"{self.folder}/cuda/bin:{os.environ['PATH']}", "HOME": str(self.folder),
            "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{self.upstream.address}/simple",
            "PYTHON": sys.executable, "HOST_CC": "gcc", "HOST_CXX": "g++", "ARCH_FLAGS": "-mavx2 -mfma",
            "ASKED": f"{self.folder}/asked", "OUT": f"{self.folder}/{out}", "CUDA_ARCHES": "7.0;8.0",
            "CUDA_HOME": f"{self.folder}/cuda", "CACHE": f"{self.folder}/{cache}", "WHEEL_KEY": key,
            "WORK": f"{self.folder}/work", "SOURCE_DATE_EPOCH": "1577836800",
        }  # fmt: skip
        return subprocess.run(["bash", SCRIPT], capture_output=True, text=True, check=False, env=there)

    def wheel(self, out: str) -> bytes:
        (path,) = (self.folder / out).glob("*.whl")
        return path.read_bytes()


@pytest.fixture
def build(upstream: UpstreamServer, tmp_path: Path) -> Build:
    return Build(upstream=upstream, folder=tmp_path)


def unpacked(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def test_a_wheel_says_what_compiled_it_and_lists_every_file(build: Build) -> None:
    done = build.run("out")
    assert done.returncode == 0, done.stderr[-2000:]
    files = unpacked(build.folder / "out" / "own-1.0-py3-none-any.whl")
    note: dict[str, Any] = json.loads(files["own-1.0.dist-info/stackwright.json"])
    assert note["cpu_flags"] == ["-mavx2", "-mfma"], "not those of the CPU that compiled it"
    assert note["source"] == {"file": "own-1.0.tar.gz", "sha256": build.digest("own-1.0.tar.gz")}
    assert (note["nvcc"], note["cuda_sources"], note["mpi"]) == (None, 1, None), "nvcc compiled nothing of it"
    assert note["environment"] == {"ASKED_FOR": "1 -DA=b", "MORE": "-Wall"}
    assert files["own/said.txt"] == b"1 -DA=b"
    assert note["packages"]["helper"] == "1.0" and "pip" in note["packages"]
    assert note["gcc"] == subprocess.check_output(["gcc", "-dumpfullversion"], text=True).strip()
    listed = {
        line[0]: line[1] for line in csv.reader(files["own-1.0.dist-info/RECORD"].decode().splitlines())
    }
    assert listed.keys() == files.keys()
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        assert listed[name] == ("" if name.endswith("RECORD") else f"sha256={digest}")
    assert b".debug_info" not in files["own/own.so"]
    assert not (build.folder / "work").exists()


def test_nvcc_is_noted_where_it_was_started_by_its_path(build: Build) -> None:
    (build.folder / "asked" / "env.txt").write_text("ASKED_FOR=1\nMORE=-D__NVCC__\n")
    assert build.run("out").returncode == 0
    files = unpacked(build.folder / "out" / "own-1.0-py3-none-any.whl")
    assert json.loads(files["own-1.0.dist-info/stackwright.json"])["nvcc"] == "12.4"


def test_a_wheel_is_compiled_once_and_is_the_same_on_every_machine(build: Build) -> None:
    assert build.run("first").returncode == 0
    assert build.run("second", cache="of-another-machine").returncode == 0
    assert build.wheel("first") == build.wheel("second")
    build.upstream.files.clear()
    again = build.run("third")
    assert again.returncode == 0 and "nothing is compiled" in again.stdout
    assert build.wheel("third") == build.wheel("first")
    shutil.rmtree(build.folder / "asked")
    assert build.run("fourth", key="two").returncode != 0


def test_another_source_than_the_locked_one_is_refused(build: Build) -> None:
    build.upstream.files["/files/own-1.0.tar.gz"] += b"more"
    done = build.run("out")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr + done.stdout
    assert not list((build.folder / "out").glob("*")) and not (build.folder / "cache" / "wheels").exists()
