"""Rules that read a lock: what the wheels of the frameworks brought along."""

from __future__ import annotations

from stackwright.core.compiled import rules as compiled
from stackwright.core.components.table import COMPONENTS
from stackwright.core.facts import distributions
from stackwright.core.facts.provenance import documented, read
from stackwright.core.model.row import Cell, Lock
from stackwright.core.model.target import platform_of
from stackwright.core.ofi import rules as ofi
from stackwright.core.rules import additions
from stackwright.core.rules.derived import brought, cuda_majors
from stackwright.core.rules.rule import Clash, LockRule
from stackwright.core.versions import covers, upstream

ONE_CUDA = documented("one CUDA per image; pytorch #186591 shows a lock with two", "2026-11-20")


def _one_cuda(cell: Cell, lock: Lock) -> Clash | None:
    majors = cuda_majors(lock)
    if len(majors) < 2:
        return None
    values = tuple((f"CUDA {major}", ", ".join(names[:3])) for major, names in sorted(majors.items()))
    return Clash(values=values, reason="the frameworks of this row bring more than one major CUDA release")


def _platform(cell: Cell, lock: Lock) -> Clash | None:
    wanted = platform_of(cell.platform)
    if lock.platform is wanted:
        return None
    values = (("platform", wanted.name), ("locks", lock.platform.name))
    return Clash(values=values, reason="the lock has wheels for another platform")


def _one_of_each(cell: Cell, lock: Lock) -> Clash | None:
    for component in ("nccl", "cudnn", "cuda-runtime"):
        packages = brought(lock, component)
        if len(packages) > 1:
            return Clash(values=tuple(packages), reason=f"more than one {component} would be in the image")
    return None


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
    """Refuse other versions than those of the distribution, NVIDIA's image or wheels, which would compile."""
    packages = {package.name: package.version for package in (*lock.base.packages, *lock.toolchain)}
    gcc = f"gcc-{distributions.gcc_release(cell.gcc)}" if cell.gcc else ""
    for field, declared, names in (
        ("gcc", cell.gcc, (gcc,)),
        ("cuda", cell.cuda, ("nvidia-cuda-nvcc", "nvidia-cuda-toolkit", "nvidia-cuda-image")),
        ("mpi", cell.mpi.version, (cell.mpi.flavour.package,)),
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


LOCK_RULES = (
    *additions.lock_rules(ONE_CUDA),
    *compiled.LOCK_RULES,
    LockRule(
        name="lock-platform",
        says="the lock has wheels for the row's platform",
        fact=read("matrix.yaml and the lock", "2026-11-23"),
        ask=_platform,
    ),
    LockRule(name="one-cuda", says="one major release of CUDA is in the image", fact=ONE_CUDA, ask=_one_cuda),
    LockRule(
        name="one-nccl",
        says="one NCCL, one cuDNN and one CUDA runtime are in the image",
        fact=ONE_CUDA,
        ask=_one_of_each,
    ),
    *(rule for component in COMPONENTS for rule in component.lock_rules),
    *ofi.LOCK_RULES,
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
