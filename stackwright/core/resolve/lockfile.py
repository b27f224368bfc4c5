"""Exact versions of a row: asked for once by ``build.py lock``, read from ``locks/`` ever after.

A lock is a requirements file with hashes that pip reads as it is. Its second line is a JSON comment
with what the row asked for (a digest, to notice a lock that is out of date) and the state of the
distribution. A CUDA compiler that comes in wheels is a second list below the first. What uv refuses is kept
in its words, so that ``plan`` can say why without a network.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from packaging.version import Version

from stackwright.core.errors import LockError, SiteError
from stackwright.core.facts import distributions
from stackwright.core.facts.wheels import numpy_limit
from stackwright.core.model.row import FRAMEWORKS, Base, Cell, Lock, Package
from stackwright.core.rules.compilers import cuda_of, gcc_of, nvcc_in_wheels
from stackwright.engines.bases.table import PROVIDERS
from stackwright.host.runner import Completed, Runner
from stackwright.host.upstream.mirror import Mirror

HEAD = "# Stackwright lock, format 1: written by `build.py lock`, not by hand."
TOOLCHAIN = "# toolchain: compiles, and is not shipped"
NVCC = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-nvvm")
"""The wheels that a whole CUDA compiler is made of."""
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
PIN = re.compile(r"([a-z0-9-]+)==([A-Za-z0-9.+!_-]+)( \\)?", re.ASCII)
IMAGE = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,90}", re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?", re.ASCII)
NEWEST_MANYLINUX = (2, 40)  # the newest platform that uv knows by name


def requirements(cell: Cell) -> tuple[str, ...]:
    """What the row asks of the package index, as requirement lines."""
    asked = []
    if cell.torch:
        asked.append(f"torch=={cell.torch}")
    if cell.tensorflow:
        extra = "[and-cuda]" if Version(cell.tensorflow) >= Version("2.14") else ""
        asked.append(f"tensorflow{extra}=={cell.tensorflow}")
    if cell.mxnet:
        asked.append(f"mxnet-cu112=={cell.mxnet}")  # the last build that the index has
    asked += _numpy(cell)
    if cell.keras:
        asked.append(f"keras=={cell.keras}")
    if _leaves_cuda_to_others(cell):
        asked += distributions.CUDA11_LIBRARIES
    known = distributions.distribution(cell.os)
    if known and known.old_pip:
        asked.append("pip")
    old_torch = cell.torch is not None and Version(cell.torch) < Version("2.1")
    # horovod #4051: later setuptools lack pkg_resources.packaging, which reads as "no CUDA support"
    asked.append("setuptools<70" if old_torch else "setuptools")
    return (*asked, *distributions.HOROVOD_NEEDS)


def _numpy(cell: Cell) -> list[str]:
    """Most wheels do not state the newest numpy that they work with, so that the lock has to."""
    named = {name: version for name in FRAMEWORKS if (version := getattr(cell, name))}
    limit = numpy_limit(named)
    return [f"numpy<{limit[1]}"] if limit else []


def _leaves_cuda_to_others(cell: Cell) -> bool:
    before = (("tensorflow", "2.14"), ("torch", "2.0"))
    return cell.mxnet is not None or any(
        (version := getattr(cell, name)) and Version(version) < Version(limit) for name, limit in before
    )


def overrides(cell: Cell) -> tuple[str, ...]:
    """What the row says against the wheels' own pins: NCCL keeps its ABI, so a newer one can replace it."""
    cuda = cuda_of(cell)
    if cell.nccl is None or cuda is None:
        return ()
    return (f"nvidia-nccl-cu{cuda.split('.')[0]}=={_pin(cell.nccl, parts=3)}",)


def constraints(cell: Cell) -> tuple[str, ...]:
    """The row's cuDNN, which replaces none that a wheel pins: uv refuses where the two differ."""
    cuda = cuda_of(cell)
    if cell.cudnn is None or cuda is None:
        return ()
    return (f"nvidia-cudnn-cu{cuda.split('.')[0]}=={_pin(cell.cudnn, parts=4)}",)


def _pin(version: str, *, parts: int) -> str:
    """A version that leaves parts out names all releases that begin with it."""
    return version if version.count(".") >= parts - 1 else f"{version}.*"


def toolchain(cell: Cell) -> tuple[str, ...]:
    """Requirement lines of a CUDA compiler in wheels; empty where the base brings one."""
    release = nvcc_in_wheels(cell)
    return tuple(f"{name}=={release}.*" for name in NVCC) if release else ()


def platform(os: str) -> str:
    known = distributions.distribution(os)
    if known is None:
        raise LockError(f"no distribution {os!r} in the tables")
    major, minor = min(distributions.as_numbers(known.glibc), NEWEST_MANYLINUX)
    return f"x86_64-manylinux_{major}_{minor}"


def request(cell: Cell) -> str:
    """Digest of everything that the lock depends on; a lock with another one is out of date."""
    asked = [
        *requirements(cell), *overrides(cell), *constraints(cell), *toolchain(cell), cell.python,
        platform(cell.os), *distribution_packages(cell),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def distribution_packages(cell: Cell) -> tuple[str, ...]:
    """The distribution's packages whose versions are values of the row."""
    compiler = gcc_of(cell)
    mpi = {"openmpi": "openmpi-bin", "mpich": "mpich"}[cell.mpi.flavour]
    names = ["libc6", mpi, f"python{cell.python}"]
    if compiler:
        names.append(f"gcc-{distributions.gcc_release(compiler)}")
    if cuda_of(cell) and not nvcc_in_wheels(cell):
        names.append(PROVIDERS[cell.provider].nvcc)
    return tuple(sorted(names))


def make(
    cell: Cell, *, state: Callable[[Cell], Base], ask: Callable[[Cell, tuple[str, ...]], Completed]
) -> str:
    """The text of the lock. What uv refuses becomes part of it.

    ``state`` asks the mirror for the distribution's state, ``ask`` the index: as ``compile_pins`` does.
    """
    base = state(cell)
    pins = ""
    for wanted, head in ((requirements(cell), ""), (toolchain(cell), f"{TOOLCHAIN}\n")):
        if not wanted:
            continue
        answer = ask(cell, wanted)
        if not answer.ok:
            return write(cell.id, request(cell), base, refused=" ".join(answer.stderr.split()))
        pins += head + answer.stdout
    return write(cell.id, request(cell), base, pins=pins)


def question(cell: Cell, wanted: tuple[str, ...]) -> tuple[object, ...]:
    """What the answer of the index depends on: rows with the same question have the same answer."""
    return wanted, overrides(cell), constraints(cell), cell.python, platform(cell.os)


def state(cell: Cell, mirror: Mirror | None) -> Base:
    """The distribution as its mirror has it now."""
    return PROVIDERS[cell.provider].state(cell, distribution_packages(cell), mirror)


def compile_pins(
    cell: Cell,
    wanted: tuple[str, ...],
    *,
    uv: Path,
    runner: Runner,
    environment: Mapping[str, str],
    options: tuple[str | Path, ...] = ("--no-config",),
) -> Completed:
    """uv's answer, or its refusal. SiteError when the index did not answer."""
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        files = [
            *_file(folder, "overrides", overrides(cell)),
            *_file(folder, "constraints", constraints(cell)),
        ]
        answer = runner(
            [
                uv, "pip", "compile", "-", "--quiet", "--python-version", cell.python,
                "--python-platform", platform(cell.os), "--generate-hashes", "--only-binary", ":all:",
                "--no-header", "--no-annotate", "--no-emit-index-url",
                # else uv fetches a Python of the row's version, which nothing here would run
                "--no-python-downloads", "--python", sys.executable,
                *options,
                *files,
            ],
            stdin="\n".join(wanted) + "\n",
            env=environment,
            timeout=600,
        )  # fmt: skip
    if not answer.ok and "No solution found" not in answer.stderr:
        raise SiteError(f"uv could not ask the package index: {answer.stderr.strip()[-600:]}", place=cell.id)
    return answer


def _file(folder: str, option: str, lines: tuple[str, ...]) -> list[str]:
    """The option of uv that names a file with these lines; nothing without lines."""
    if not lines:
        return []
    path = Path(folder) / f"{option}.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return [f"--{option}", str(path)]


def write(row: str, request: str, base: Base, *, pins: str = "", refused: str = "") -> str:
    known = asdict(base)
    if not base.images:  # a lock of a base that no registry has is written as it always was
        del known["images"]
    meta = {"row": row, "request": request, "base": known} | ({"refused": refused} if refused else {})
    return f"{HEAD}\n# {json.dumps(meta, sort_keys=True)}\n{pins}"


def read(path: Path) -> Lock:
    """Parse a lock; LockError when it is missing or is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"cannot be read: {error}", place=str(path), hint="run build.py lock") from error
    return parse(text, str(path))


def parse(text: str, place: str) -> Lock:
    """Every line is matched in full. LockError names the place."""
    head, _, rest = text.partition("\n")
    comment, _, pins = rest.partition("\n")
    shipped, _, compiles = pins.partition(f"{TOOLCHAIN}\n")
    try:
        if head != HEAD or not comment.startswith("# "):
            raise ValueError("the first two lines are not those of a lock")
        meta = json.loads(comment[2:])
        base = _base(meta["base"])
        return Lock(
            row=str(meta["row"]), request=str(meta["request"]), base=base, text=text,
            sha256=hashlib.sha256(text.encode()).hexdigest(), refused=str(meta.get("refused", "")),
            packages=tuple(_packages(shipped)), toolchain=tuple(_packages(compiles)),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise LockError(f"not a lock: {error}", place=place, hint="run build.py lock") from error


def pins(lock: Lock) -> str:
    """The requirement lines alone: equal for two rows that ask for the same environment."""
    return lock.text.split("\n", 2)[2].partition(f"{TOOLCHAIN}\n")[0]


def toolchain_pins(lock: Lock) -> str:
    """Those of the CUDA compiler; empty where the base brings it."""
    return lock.text.partition(f"{TOOLCHAIN}\n")[2]


def _base(data: dict[str, Any]) -> Base:
    packages = tuple(Package(name=p["name"], version=p["version"]) for p in data["packages"])
    plain = {key: str(data[key]) for key in ("os", "suite", "release", "date", "digest")}
    for value in (*plain.values(), *(p.name + p.version for p in packages)):
        if not re.fullmatch(r"[A-Za-z0-9.:+~_-]*", value, re.ASCII):
            raise ValueError(f"{value!r} is not a version, a name or a digest")
    return Base(packages=packages, images=tuple(map(_image, data.get("images", ()))), **plain)


def _image(pair: list[str]) -> tuple[str, str]:
    name, digest = pair
    if not (IMAGE.fullmatch(name) and DIGEST.fullmatch(digest)):
        raise ValueError(f"{pair!r} is not an image's name and its digest")
    return name, digest


def _packages(pins: str) -> list[Package]:
    packages = []
    for number, line in enumerate(pins.splitlines(), start=3):
        pin = PIN.fullmatch(line)
        if pin and NAME.fullmatch(pin[1]):
            packages.append(Package(name=pin[1], version=pin[2]))
        elif not HASH.fullmatch(line):
            raise ValueError(f"line {number} is neither a pin nor a hash: {line[:60]!r}")
    return packages
