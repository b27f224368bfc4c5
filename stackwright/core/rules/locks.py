"""Rules that read a lock: what the wheels of the frameworks brought along."""

from __future__ import annotations

import re

from stackwright.core.facts import distributions
from stackwright.core.facts.provenance import documented, read
from stackwright.core.model.row import Cell, Lock
from stackwright.core.rules.compilers import cuda_of
from stackwright.core.rules.rule import Clash, LockRule, covers
from stackwright.core.versions import upstream

ONE_CUDA = documented("one CUDA per image; pytorch #186591 shows a lock with two", "2026-11-20")


def cuda_majors(lock: Lock) -> dict[str, list[str]]:
    """CUDA major version -> the packages that bring it, as the -cuNN suffix and the runtime say."""
    found: dict[str, list[str]] = {}
    for package in lock.packages:
        suffix = re.fullmatch(r"nvidia-.+-cu(\d+)", package.name)
        major = suffix[1] if suffix else None
        if package.name in ("nvidia-cuda-runtime", "cuda-toolkit"):
            major = package.version.split(".")[0]
        if major:
            found.setdefault(major, []).append(f"{package.name} {package.version}")
    return found


def brought(lock: Lock, component: str) -> list[tuple[str, str]]:
    """Packages that bring a component ("cuda-runtime", "cudnn", "nccl"), with their versions."""
    pattern = re.compile(rf"nvidia-{re.escape(component)}(-cu\d+)?")
    return [(p.name, p.version) for p in lock.packages if pattern.fullmatch(p.name)]


def _one_cuda(cell: Cell, lock: Lock) -> Clash | None:
    majors = cuda_majors(lock)
    if len(majors) < 2:
        return None
    values = tuple((f"CUDA {major}", ", ".join(names[:3])) for major, names in sorted(majors.items()))
    return Clash(values=values, reason="the frameworks of this row bring more than one major CUDA release")


def _one_of_each(cell: Cell, lock: Lock) -> Clash | None:
    for component in ("nccl", "cudnn", "cuda-runtime"):
        packages = brought(lock, component)
        if len(packages) > 1:
            return Clash(values=tuple(packages), reason=f"more than one {component} would be in the image")
    return None


def _compiler_matches(cell: Cell, lock: Lock) -> Clash | None:
    cuda, majors = cuda_of(cell), cuda_majors(lock)
    if cuda is None or len(majors) != 1:
        return None
    (major,) = majors
    if cuda.split(".")[0] == major:
        return None
    return Clash(
        values=(("cuda", cuda), ("the frameworks' CUDA", major)),
        reason="Horovod's kernels must be compiled by the CUDA major release that the frameworks load",
    )


def _declared(cell: Cell, lock: Lock) -> Clash | None:
    for field, declared in (("nccl", cell.nccl), ("cudnn", cell.cudnn)):
        packages = brought(lock, field)
        if declared and not packages:
            reason = f"no package of the lock brings {field}, so that the row's has no effect"
            return Clash(values=((field, declared),), reason=reason)
        for name, version in packages:
            if not covers(declared, version):
                return Clash(
                    values=((field, str(declared)), (name, version)),
                    reason=f"the frameworks pin another {field} than the row names",
                )
    return None


def _base_declared(cell: Cell, lock: Lock) -> Clash | None:
    """What the distribution, NVIDIA's image or its wheels have is what would compile: never another one."""
    packages = {package.name: package.version for package in (*lock.base.packages, *lock.toolchain)}
    gcc = f"gcc-{distributions.gcc_release(cell.gcc)}" if cell.gcc else ""
    for field, declared, names in (
        ("gcc", cell.gcc, (gcc,)),
        ("cuda", cell.cuda, ("nvidia-cuda-nvcc", "nvidia-cuda-toolkit", "nvidia-cuda-image")),
        ("mpi", cell.mpi.version, ({"openmpi": "openmpi-bin", "mpich": "mpich"}[cell.mpi.flavour],)),
    ):
        name = next((name for name in names if name in packages), None)
        if name is None or any(covers(declared, version) for version in _versions(packages[name])):
            continue
        version = packages[name]
        return Clash(
            values=((field, str(declared)), (name, version)),
            reason=f"the row would be built with the {field} of the package {name} {version}, "
            "which is not what it names",
        )
    return None


def _versions(package: str) -> tuple[str, ...]:
    """Debian gives two releases of CUDA's compiler: 12.4.131~12.4.1-2 is nvcc 12.4.131 of CUDA 12.4.1."""
    return tuple(upstream(part) for part in package.split("~") if part[:1].isdigit())


def _nccl_present(cell: Cell, lock: Lock) -> Clash | None:
    if brought(lock, "nccl"):
        return None
    return Clash(
        values=(("nccl", "none in the lock"),),
        reason="the frameworks' wheels bring no NCCL, and Horovod is linked against the one that they load",
    )


LOCK_RULES = (
    LockRule(name="one-cuda", says="one major release of CUDA is in the image", fact=ONE_CUDA, ask=_one_cuda),
    LockRule(
        name="one-nccl",
        says="one NCCL, one cuDNN and one CUDA runtime are in the image",
        fact=ONE_CUDA,
        ask=_one_of_each,
    ),
    LockRule(
        name="nccl-present",
        says="the wheels bring an NCCL",
        fact=read("horovod 0.28.1, cmake/Modules/FindNCCL.cmake", "2026-11-20"),
        ask=_nccl_present,
    ),
    LockRule(
        name="compiler-cuda",
        says="nvcc is of the CUDA that the frameworks load",
        fact=documented("NVIDIA, CUDA Compatibility", "2026-11-20"),
        ask=_compiler_matches,
    ),
    LockRule(
        name="declared-base",
        says="the row's gcc, CUDA and MPI are those that the base and the wheels have",
        fact=read("matrix.yaml and the lock", "2026-11-20"),
        ask=_base_declared,
    ),
    LockRule(
        name="declared",
        says="the row's cuDNN and NCCL are the locked ones",
        fact=read("matrix.yaml and the lock", "2026-11-20"),
        ask=_declared,
    ),
)
