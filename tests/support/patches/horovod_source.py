"""Horovod's released source archive, and what applies patches to it."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stackwright.core.facts.patches import Patch, Series
from stackwright.host.runner import Runner
from stackwright.host.site import settings

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "out" / "cache"

Imported = Callable[[str], Any]
"""Returns a module of Horovod by its name below `horovod.`"""


def archive(runner: Runner, series: Series) -> Path:
    """The archive, from wherever this host's pip gets packages; named by its hash, and checked by it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    found = CACHE / f"horovod-{series.sha256}.tar.gz"
    with (CACHE / "horovod.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            _download(runner, series, found)
    assert hashlib.sha256(found.read_bytes()).hexdigest() == series.sha256
    return found


def _download(runner: Runner, series: Series, target: Path) -> None:
    folder = CACHE / "horovod.part"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    wanted = folder / "source.txt"
    wanted.write_text(f"horovod=={series.release} --hash=sha256:{series.sha256}\n")
    options: list[str | Path] = [
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--require-hashes",
        "--dest",
        folder,
    ]
    done = runner([sys.executable, "-m", "pip", "download", *options, "-r", wanted], timeout=600)
    assert done.ok, done.stderr
    (found,) = folder.glob("horovod-*.tar.gz")
    found.replace(target)
    shutil.rmtree(folder)


def unpack(packed: Path, folder: Path) -> Path:
    """As `tar --strip-components=1` does it."""
    shutil.unpack_archive(packed, folder)
    (top,) = folder.iterdir()
    return top


def contents(patches: Sequence[Patch]) -> list[tuple[str, bytes]]:
    return [(patch.file, patch.content) for patch in patches]


def patch_program(runner: Runner, folder: Path) -> Path:
    """patch: the host's, or where it has none, that of its distribution, without installing it."""
    found = shutil.which("patch")
    return Path(found) if found else _from_the_distribution(runner, folder)


def _from_the_distribution(runner: Runner, folder: Path) -> Path:
    suite, mirror = platform.freedesktop_os_release()["VERSION_CODENAME"], settings.apt_mirror(runner)
    argv: list[str | Path] = [
        "mmdebstrap",
        "--quiet",
        "--variant=extract",
        "--include=patch",
        "--format=tar",
        suite,
    ]
    done = runner([*argv, folder / "package", *([f"deb {mirror} {suite} main"] if mirror else [])])
    assert done.ok, done.stderr
    with tarfile.open(folder / "package") as package:
        member = next(file for file in package if file.name.endswith("usr/bin/patch"))
        content = package.extractfile(member)
        assert content
        program = folder / "patch"
        program.write_bytes(content.read())
        program.chmod(0o755)
    return program


PYTHON = ("horovod/__init__.py", "horovod/common", "horovod/runner")
"""What Horovod's servers and launchers need of its source: no extension is imported."""


def without_extensions(whole: Path, folder: Path, *more: str) -> Path:
    """The Python of servers and launchers in a folder of its own, and ``more`` files that a patch touches."""
    for path in PYTHON:
        copy = shutil.copytree if (whole / path).is_dir() else shutil.copy2
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        copy(whole / path, folder / path)
    for path in more:
        if (whole / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(whole / path, folder / path)
    return folder
