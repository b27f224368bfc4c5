"""Rules about libfabric and NCCL's plugin for it."""

from __future__ import annotations

from packaging.version import Version

from stackwright.core.archive import known
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import documented, read
from stackwright.core.model.row import VERBS, Cell, Lock, MpiFlavour
from stackwright.core.ofi.plugin import (
    BY_VERSION,
    NAME,
    OFI,
    PACKAGE,
    REPOSITORY,
    asked,
    names,
)
from stackwright.core.rules.derived import brought, cuda_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, LockRule, Ruling
from stackwright.core.versions import upstream

FIELD = "fabric"

IMAGE = read("the packages of every image: libibverbs1, ibverbs-providers", "2026-11-23")
TABLE = read(f"{REPOSITORY}: sources of its releases", "2026-11-23")
NOTES = documented(f"{REPOSITORY}: RELEASENOTES.md of the release", "2026-11-23")
DEADLOCK = documented(
    f"{REPOSITORY}/issues/1055; RELEASENOTES.md: 1.20.0 is the first that names NCCL 2.28.9", "2026-11-23"
)
ENTRY_POINT = documented(
    f"{REPOSITORY}: m4/check_pkg_cuda.m4 asks for cudaGetDriverEntryPoint, which CUDA has from 11.3 on",
    "2026-11-23",
)
MPICH = read("mpichversion of Debian's MPICH: ch4:ucx", "2026-11-20")

DEADLOCKS, MENDED = "2.28.9", "1.20.0"
OLDEST_CUDA = (11, 3)


def _fabrics(cell: Cell) -> Answer:
    said = names(cell.fabric)
    if said.count(*VERBS) == 1 and said.count(OFI) <= 1:
        return Ruling.FITS
    reason = (
        "every image has the libraries of verbs; libfabric comes besides them, in one release of its plugin"
    )
    return Clash(values=((FIELD, ", ".join(cell.fabric)),), reason=f"{reason}: [verbs, ofi]")


def _known(cell: Cell) -> Answer:
    return known(asked(cell.fabric), BY_VERSION, FIELD)


def _with(release: str, nccl: str) -> Clash | None:
    """Return what a release of the plugin and one of NCCL do to each other."""
    its = BY_VERSION.get(release)
    values = ((FIELD, f"{NAME} {release}"), ("nccl", nccl))
    if its and Version(nccl) < Version(its.nccl):
        return Clash(values=values, reason=f"the plugin works with NCCL {its.nccl} and later")
    if nccl == DEADLOCKS and Version(release) < Version(MENDED):
        reason = f"ranks wait for each other without end; {NAME} {MENDED} was tested with it"
        return Clash(values=values, reason=reason, fact=DEADLOCK)
    return None


def _nccl(cell: Cell) -> Answer:
    release = asked(cell.fabric)
    if not release or not cell.nccl:
        return Ruling.SILENT
    return _with(release, cell.nccl) or Ruling.FITS


def _nccl_of_lock(cell: Cell, lock: Lock) -> Clash | None:
    release = asked(cell.fabric)
    if not release:
        return None
    found = (_with(release, version) for _, version in brought(lock, "nccl"))
    return next(filter(None, found), None)


def _cuda(cell: Cell) -> Answer:
    cuda = cuda_of(cell)
    if not asked(cell.fabric) or not cuda:
        return Ruling.SILENT
    if as_numbers(cuda) >= OLDEST_CUDA:
        return Ruling.FITS
    reason = "the plugin asks the CUDA runtime for functions of the driver, as it can since 11.3"
    return Clash(values=((FIELD, OFI), ("cuda", cuda)), reason=reason)


def _libfabric(cell: Cell, lock: Lock) -> Clash | None:
    its = BY_VERSION.get(asked(cell.fabric))
    there = [upstream(package.version) for package in lock.base.packages if package.name == PACKAGE]
    for version in there if its else ():
        if its and Version(version) < Version(its.libfabric):
            values = ((FIELD, f"{NAME} {its.version}"), (PACKAGE, version))
            return Clash(values=values, reason=f"the plugin needs libfabric {its.libfabric} or later")
    return None


def _mpi(cell: Cell) -> Answer:
    if not asked(cell.fabric):
        return Ruling.SILENT
    if cell.mpi.flavour is MpiFlavour.OPENMPI:
        return Ruling.FITS
    reason = (
        "the distribution's MPICH is built without libfabric, so that NCCL alone goes by it; "
        "the cluster's own MPI is bound in: launch --host-mpi"
    )
    return Clash(values=((FIELD, OFI), ("mpi", cell.mpi.flavour)), reason=reason, said=Ruling.WARNS)


RULES = (
    CellRule(
        name="fabric-names", about=About.STACK, fields=(FIELD,), fact=IMAGE, ask=_fabrics,
        says="a row's fabrics are verbs, or verbs and ofi",
    ),
    CellRule(
        name="ofi-release", about=About.RELEASE, fields=(FIELD,), fact=TABLE, ask=_known,
        says="the source of the row's release of NCCL's plugin for libfabric is known by its hash",
    ),
    CellRule(
        name="ofi-nccl", about=About.STACK, fields=(FIELD, "nccl"), fact=NOTES, ask=_nccl,
        says="NCCL and its plugin for libfabric work together",
    ),
    CellRule(
        name="ofi-cuda", about=About.STACK, fields=("cuda", "os", "provider", FIELD), fact=ENTRY_POINT,
        ask=_cuda, says="NCCL's plugin for libfabric is compiled with a CUDA that has what it asks for",
    ),
    CellRule(
        name="ofi-mpi", about=About.BASE, fields=(FIELD, "mpi"), fact=MPICH, ask=_mpi,
        says="the row's MPI reaches libfabric as well",
    ),
)  # fmt: skip
LOCK_RULES = (
    LockRule(
        name="ofi-nccl-locked", fact=NOTES, ask=_nccl_of_lock,
        says="the NCCL that the lock found works with the row's plugin for libfabric",
    ),
    LockRule(
        name="ofi-libfabric", fact=NOTES, ask=_libfabric,
        says="the distribution's libfabric is new enough for the row's plugin",
    ),
)  # fmt: skip
