"""Horovod, compiled against a host's own PyTorch by scripts/build-horovod.sh, in an environment of its own.

Nothing is written but below one folder: the environment sees what the host's Python sees, and adds to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import site
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.gpu.host import Host
from stackwright.core.errors import BuildError, GpuError, UsageError
from stackwright.core.facts.build_failures import BuildFailure, known_cause, last_lines, subject
from stackwright.core.model.target import AMD64

if TYPE_CHECKING:
    from stackwright.core.facts.patches import Series

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "build-horovod.sh"
LIMIT = 3600
"""Seconds of a compile."""
NOT_PASSED_ON = ("HOROVOD_", "MAKE", "MFLAGS", "GNUMAKEFLAGS", "CACHE", "WHEEL_KEY", "WORK", "LDFLAGS")
"""Beginnings of variables that would change what is compiled. make sets MAKEFLAGS for what it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Horovod:
    """``python`` is that of the environment that has it."""

    python: Path
    release: str
    patches: tuple[str, ...]
    seconds: float


def horovod(host: Host, *, source: Path | None, wheels: Path | None, out: Path) -> Horovod:
    """Compile it and install it. GpuError without its source, BuildError where the compile fails."""
    out.mkdir(parents=True, exist_ok=True)
    python, packages = environment(host, out / "venv", wheels)
    site.addsitedir(str(packages))  # of --wheels: what reads the series of patches may be there alone
    from stackwright.core.facts.patches import load_series  # noqa: PLC0415 (needs PyYAML)

    series = load_series(ROOT / "patches" / "horovod")
    archive = checked(source, series) if source else fetched(series, python, ROOT / "out" / "cache")
    patches = selected(series, host, out / "patches")
    shutil.rmtree(out / "wheels", ignore_errors=True)
    given = variables(host, python, archive, out, os.environ)
    print(f"make gpu: compiling Horovod {series.release} with {len(patches)} patches for "
          f"{given['CUDA_ARCHES']}, which takes minutes: {out / 'build.log'}", flush=True)  # fmt: skip
    began = time.monotonic()
    _logged(["bash", str(SCRIPT)], given, out / "build.log")
    seconds = time.monotonic() - began
    (wheel,) = (out / "wheels").glob("horovod-*.whl")
    _pip(python, str(wheel))
    return Horovod(python=python, release=series.release, patches=patches, seconds=seconds)


def environment(host: Host, folder: Path, wheels: Path | None) -> tuple[Path, Path]:
    """Return the Python of a fresh environment, and the folder of its packages.

    The host's Python may be one of an environment itself, whose packages `--system-site-packages` does not
    show: a file .pth names every folder of packages that it sees.
    """
    venv.EnvBuilder(system_site_packages=True, clear=True, symlinks=True, with_pip=False).create(folder)
    python = folder / "bin" / "python"
    packages = next(folder.glob("lib/python3*/site-packages"))
    seen = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = (f"import site; site.addsitedir({path!r})\n" for path in dict.fromkeys(seen))
    (packages / "host.pth").write_text("".join(lines))
    # The script looks for NCCL in the environment's own folder of packages, as the images have it.
    (packages / "nvidia").symlink_to(host.nvidia)
    if host.lacks and wheels:
        _pip(python, "--find-links", str(wheels), *host.lacks)
    return python, packages


def _pip(python: Path, *words: str) -> None:
    """Install and never uninstall: a Horovod that the host has stays as it is."""
    argv = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
            "--no-deps", "--ignore-installed", *words]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = last_lines((done.stdout + done.stderr).splitlines())
        raise BuildError("pip could not install into the environment", place=words[-1], details=lines)


# -- source and patches --------------------------------------------------------------------------


def checked(archive: Path, series: Series) -> Path:
    """Return an archive that was handed in, if it is the released one."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found == series.sha256:
        return archive
    raise UsageError(
        f"it is not the released source of Horovod {series.release}: its sha256 is {found}",
        place=str(archive), hint=f"the one that the patches are for has {series.sha256}",
    )  # fmt: skip


def fetched(series: Series, python: Path, cache: Path) -> Path:
    """Return the released archive: the one that the tests keep too, or what this host's pip gets."""
    kept = cache / f"horovod-{series.sha256}.tar.gz"
    if kept.is_file():
        return checked(kept, series)
    folder = cache / f"horovod.{os.getpid()}.part"
    folder.mkdir(parents=True)
    try:
        wanted = folder / "source.txt"
        wanted.write_text(f"horovod=={series.release} --hash=sha256:{series.sha256}\n")
        argv = [
            str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation",
            "--no-binary", ":all:", "--require-hashes", "--dest", str(folder), "-r", str(wanted),
        ]  # fmt: skip
        subprocess.run(argv, capture_output=True, check=False, timeout=600)
        for archive in folder.glob("horovod-*.tar.gz"):
            return checked(archive.rename(kept), series)
    finally:
        shutil.rmtree(folder)
    raise GpuError(f"no source of Horovod {series.release}: pip reaches no index that has it, and "
                   f"there is no --source FILE (horovod-{series.release}.tar.gz)")  # fmt: skip


def selected(series: Series, host: Host, folder: Path) -> tuple[str, ...]:
    """Write those patches that this host's versions ask for, numbered in their order; return their names."""
    chosen = series.select(values(host))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, patch in enumerate(chosen):
        (folder / f"{number:02d}-{patch.file}").write_bytes(patch.content)
    return tuple(patch.file for patch in chosen)


def values(host: Host) -> dict[str, str]:
    """Return what the conditions of patches ask about, as a row would have it."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"torch": host.torch.partition("+")[0], "cuda": host.nvcc, "gcc": host.gcc, "python": python}


def variables(
    host: Host, python: Path, archive: Path, out: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the script.

    Without MPI: the ranks of one host need none, and a host's own MPI would be one more thing that can be of
    another release. setup.py asks for cffi, which a PyTorch before 1.0 needed, unless the second variable of
    Horovod's is set to anything; CMake leaves PyTorch out for "1" alone.
    """
    passed = {name: text for name, text in environ.items() if not name.startswith(NOT_PASSED_ON)}
    return {
        **passed,
        "PYTHON": str(python), "SOURCE": str(archive), "PATCHES": str(out / "patches"),
        "OUT": str(out / "wheels"), "CUDA_HOME": str(host.toolkit),
        "CUDA_ARCHES": " ".join(host.driver.architectures), "HOST_CC": host.cc, "HOST_CXX": host.cxx,
        "FRAMEWORKS": "pytorch", "ARCH_FLAGS": " ".join(AMD64.cpu_flags),
        "HOROVOD_WITHOUT_MPI": "1", "HOROVOD_WITHOUT_PYTORCH": "0",
    }  # fmt: skip


def _logged(argv: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
    with log.open("w") as file:
        try:
            code = subprocess.run(
                argv, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environ,
                timeout=LIMIT, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = 124
    if code == 0:
        return
    lines = log.read_text(errors="replace").splitlines()
    cause = known_cause(lines)
    failure = BuildFailure(
        row="Horovod", step="compile", message=f"the compile ended with exit code {code}", cause=cause,
        tail=last_lines(lines), log=log, advice="read the log", subject=subject(cause, lines),
    )  # fmt: skip
    raise BuildError.of(failure)


# -- proof -----------------------------------------------------------------------------------------


def prove(made: Horovod, out: Path, *, count: int, device: str) -> dict[str, Any]:
    """Run prove.py by the environment's Python, and return what it found."""
    answer = out / "facts.json"
    answer.unlink(missing_ok=True)
    ranks, where = "1 rank" if count == 1 else f"{count} ranks", {"cuda": "GPU", "cpu": "CPU"}[device]
    print(f"make gpu: {ranks} on the {where}", flush=True)
    program = str(Path(__file__).with_name("prove.py"))
    argv = [str(made.python), "-B", program, str(answer), str(count), device]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if not answer.is_file():
        details = last_lines((done.stdout + done.stderr).splitlines())
        raise BuildError("the probes left no answer", place=program, details=details)
    facts: dict[str, Any] = json.loads(answer.read_text())
    return facts
