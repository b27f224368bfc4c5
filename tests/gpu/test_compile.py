"""What `make gpu` compiles, for real, on a host without a GPU: PyTorch of a row with CUDA 13, and nvcc, from
the index. `make gpu-compile` runs it; no other target does, for the gigabytes and the minutes that it takes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rows import ROOT

from stackwright.core.errors import GpuError, UsageError

FOLDER = ROOT / "out" / "gpu-compile"
LOCK = ROOT / "locks" / "cuda13-ubuntu.txt"
TOOLCHAIN = Path(__file__).with_name("nvcc.txt")
PYTHON = "python3.12"
"""The Python of the row."""
NEEDS = 8 * 10**9
"""Bytes of disk, most of them NVIDIA's libraries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A Python with PyTorch, and a toolkit of CUDA, as hosts have them."""

    python: Path
    toolkit: Path


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    free = shutil.disk_usage(FOLDER).free
    assert free > NEEDS, f"{free / 1e9:.1f} GB are free, and {NEEDS / 1e9:.0f} GB are needed"
    try:
        yield Made(python=_with_pytorch(FOLDER / "host"), toolkit=_toolkit(FOLDER / "cuda"))
    finally:
        shutil.rmtree(FOLDER)


def _with_pytorch(folder: Path) -> Path:
    """Make the environment of a host, which what is compiled may not write to."""
    assert shutil.which(PYTHON), f"{PYTHON}, that of the row, is not on the PATH"
    subprocess.run([PYTHON, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    _install(python, "-r", LOCK)
    return python


def _toolkit(folder: Path) -> Path:
    """Lay NVIDIA's wheels out as a toolkit, as dockerfiles/ does it for rows of Debian."""
    _install(FOLDER / "host" / "bin" / "python", "--target", FOLDER / "nvcc", "-r", TOOLCHAIN)
    (top,) = (FOLDER / "nvcc" / "nvidia").glob("cu*")
    top.rename(folder)
    (folder / "lib64").symlink_to("lib")
    for library in (folder / "lib").glob("lib*.so.*"):
        (folder / "lib" / f"{library.name.partition('.so')[0]}.so").symlink_to(library.name)
    return folder


def _install(python: Path, *words: str | Path) -> None:
    options = (
        "--quiet",
        "--no-cache-dir",
        "--no-compile",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
    )
    subprocess.run([python, "-m", "pip", "install", *options, *words], check=True)


def start(made: Made, words: Sequence[str | Path], **environ: str) -> subprocess.CompletedProcess[str]:
    """Run it as make does, with variables that must not reach the compile."""
    return subprocess.run(
        [made.python, ROOT / "bench" / "gpu" / "start.py", "--out", FOLDER / "out", *words],
        capture_output=True, text=True, check=False,
        env={**os.environ, "CUDA_HOME": str(made.toolkit), "MAKEFLAGS": "n", **environ},
    )  # fmt: skip


def _times(folder: Path) -> dict[str, float]:
    return {str(path): path.lstat().st_mtime for path in folder.rglob("*") if "__pycache__" not in path.parts}


def test_horovod_is_compiled_against_the_hosts_pytorch_and_adds_up_on_the_cpu(made: Made) -> None:
    before = _times(made.python.parents[1] / "lib")
    done = start(made, ("--compile-only", "9.0"))
    log = FOLDER / "out" / "build.log"
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr}{log.read_text()[-3000:] if log.exists() else ''}"
    )
    checks = ("horovod.built", "nccl.one", "horovod.collective", "benchmark")
    assert [line for line in done.stdout.splitlines() if line.endswith(" passed")] == [
        f"make gpu: {check}: passed" for check in checks
    ]
    text = log.read_text()
    for patch in ("cxx17", "cuda-std17", "kvstore-auth", "task-key"):  # some follow from the host's gcc
        assert f"-{patch}.patch\n" in text
    assert "sm_90" in text
    assert _times(made.python.parents[1] / "lib") == before, "the host's own packages were written to"
    assert not list((FOLDER / "out").glob("record-*")), "what ran on the CPU is no record"


def test_another_source_ends_it_before_anything_is_compiled(made: Made) -> None:
    archive = FOLDER / "horovod-0.28.1.tar.gz"
    archive.write_bytes(b"another")
    done = start(made, ("--compile-only", "9.0", "--source", archive))
    assert done.returncode == UsageError.exit_code
    assert "it is not the released source of Horovod" in done.stderr


def test_without_a_compiler_of_cuda_that_is_the_one_line(made: Made) -> None:
    done = start(made, ("--compile-only", "9.0"), CUDA_HOME=str(FOLDER))
    assert (done.returncode, done.stderr.count("\n")) == (GpuError.exit_code, 1)
    assert done.stderr.startswith("not run: no nvcc: ")
