"""What a row asks the package index and the mirror for."""

from __future__ import annotations

import hashlib
import json

from packaging.version import Version

from stackwright.core.errors import LockError
from stackwright.core.facts import distributions
from stackwright.core.facts.wheels import numpy_limit
from stackwright.core.model.row import FRAMEWORKS, Cell
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.core.rules.compilers import cuda_of, gcc_of, nvcc_in_wheels

NVCC = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-nvvm")
"""The wheels that a whole CUDA compiler is made of."""


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


def question(cell: Cell, wanted: tuple[str, ...]) -> tuple[object, ...]:
    """What the answer of the index depends on: rows with the same question have the same answer."""
    return wanted, overrides(cell), constraints(cell), cell.python, platform(cell.os)
