"""Rules about what is in no table: a release that the package index did not have is not known to work.

Such a row is neither accepted nor refused. A lock settles it: the index then answered for these very values.
"""

from __future__ import annotations

from collections.abc import Callable

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import read
from stackwright.core.facts.releases import RELEASES, RELEASES_READ
from stackwright.core.facts.wheels import TENSORFLOW, TORCH, build, wheel
from stackwright.core.model.row import Cell
from stackwright.core.rules.compilers import CUDA, cuda_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Said, covers

KNOWN = {
    field: tuple(one for name, _, releases in RELEASES if name == field for one in releases.split())
    for field, _, _ in RELEASES
}
VERSIONS = {field: frozenset(map(Version, releases)) for field, releases in KNOWN.items()}
MXNET = frozenset(
    Version(one) for _, package, releases in RELEASES if package == "mxnet-cu112" for one in releases.split()
)
"""What a lock can ask for: it takes MXNet's build for CUDA 11.2."""
PACKAGES = {package: tuple(releases.split()) for _, package, releases in RELEASES}


def _unknown(field: str, version: str, reason: str) -> Clash:
    return Clash(values=((field, version),), reason=reason, said=Said.UNKNOWN)


def _framework(name: str) -> Callable[[Cell], Answer]:
    def ask(cell: Cell) -> Answer:
        written = getattr(cell, name)
        if written is None:
            return Said.SILENT
        version, known = Version(written), VERSIONS[name]
        if name == "mxnet" and as_numbers(cuda_of(cell) or "0") >= (11,):
            known = MXNET
        if version in known:
            return Said.FITS
        return _absent(name, written, version, known)

    return ask


def _absent(name: str, written: str, version: Version, known: frozenset[Version]) -> Clash:
    """Why the package index does not have a release, and where it is."""
    newest, suffix = max(known), version.local or ""
    if suffix.startswith(("rocm", "cpu", "xpu")):
        reason = f"the build +{suffix} has no code for NVIDIA's GPUs; the images are for these alone"
        return Clash(values=((name, written),), reason=reason)
    if version.is_prerelease:
        reason = (
            f"{name} {written} is a nightly or a test build: its index keeps it for some weeks, so that no "
            f"lock of it lasts; the last release is {newest}"
        )
    elif suffix and Version(version.public) in known:
        reason = (
            f"the build +{suffix} is not on the package index but on PyTorch's own, in "
            f"its folder whl/{suffix}: a site that names it as extra-index-url can lock the row; "
            f"{_of_the_index(written)}"
        )
    else:
        when = RELEASES_READ.when
        reason = f"the package index had no {name} {written} on {when}; its newest is {newest}"
    return _unknown(name, written, reason)


def _of_the_index(written: str) -> str:
    """The release whose wheel on the package index is for the same CUDA as a +cuNNN build."""
    cuda, public = build(written), written.partition("+")[0]
    same = [entry.newest for entry in TORCH if entry.cuda == cuda]
    own = wheel(TORCH, public)
    if same:
        return f"on the package index torch {same[-1]} is for CUDA {cuda}"
    return f"the package index has {public} for CUDA {own.cuda if own else 'an unknown release'}"


def _library(name: str) -> Callable[[Cell], Answer]:
    def ask(cell: Cell) -> Answer:
        declared, cuda = getattr(cell, name), cuda_of(cell)
        major = cuda.split(".")[0] if cuda else ""
        package = f"nvidia-{name}-cu{major}"
        if declared is None or package not in PACKAGES:
            return Said.SILENT
        if any(covers(declared, one) for one in PACKAGES[package]):
            return Said.FITS
        last = PACKAGES[package][-1]
        when = RELEASES_READ.when
        if any(covers(declared, one) for one in KNOWN[name]):
            reason = (
                f"the package index has {name} {declared} for another CUDA; the newest for {major} is {last}"
            )
            return Clash(values=((name, declared), ("cuda", str(cuda))), reason=reason)
        reason = (
            f"the package index had no {name} {declared} on {when}; its newest for CUDA {major} is {last}"
        )
        return _unknown(name, declared, reason)

    return ask


def _exact_gcc(cell: Cell) -> Answer:
    if cell.gcc is None:
        return Said.SILENT
    release = distributions.gcc_release(cell.gcc)
    if release == cell.gcc:
        return Said.FITS
    reason = (
        f"the tables know gcc {release} of {cell.os}, and not which release of it; write gcc: {release!r}"
    )
    return _unknown("gcc", cell.gcc, reason)


def _exact_cuda(cell: Cell) -> Answer:
    if cell.cuda is None or cell.provider != "debian":
        return Said.SILENT
    release = ".".join(cell.cuda.split(".")[:2])
    if release == cell.cuda:
        return Said.FITS
    reason = f"the tables know the compiler of CUDA {release}, and not which release of it; write {release!r}"
    return _unknown("cuda", cell.cuda, reason)


def _nccl_floor(cell: Cell) -> Answer:
    """NCCL keeps its ABI forward: a library has what an older one had, and lacks what came later."""
    if cell.nccl is None:
        return Said.SILENT
    asked = False
    for name, pinned in _nccl_of_wheels(cell):
        asked = True
        parts = len(as_numbers(cell.nccl))
        if as_numbers(cell.nccl) >= as_numbers(pinned)[:parts]:
            continue
        version = str(getattr(cell, name))
        reason = (
            f"the wheel of {name} {version} was built for NCCL {pinned}, and calls what older ones lack "
            "(torch 2.2.2 with 2.16.5: undefined symbol ncclCommRegister)"
        )
        return Clash(values=(("nccl", cell.nccl), (name, version)), reason=reason)
    return Said.FITS if asked else Said.SILENT


def _nccl_of_wheels(cell: Cell) -> list[tuple[str, str]]:
    found = []
    for name, table in (("torch", TORCH), ("tensorflow", TENSORFLOW)):
        version = getattr(cell, name)
        entry = wheel(table, version) if version and "+" not in version else None
        needs = SpecifierSet(entry.nccl_needs) if entry else ()
        found += [(name, spec.version) for spec in needs if spec.operator in ("==", ">=")]
    return found


def _rule(name: str, fields: tuple[str, ...], ask: Callable[[Cell], Answer], says: str) -> CellRule:
    return CellRule(name=name, about=About.RELEASE, fields=fields, fact=RELEASES_READ, ask=ask, says=says)


RULES: tuple[CellRule, ...] = (
    *(
        _rule(f"{name}-release", (name,), _framework(name), "the package index has the release")
        for name in ("torch", "tensorflow", "keras")
    ),
    _rule("mxnet-release", (*CUDA, "mxnet"), _framework("mxnet"), "the package index has the release"),
    *(
        _rule(f"{name}-release", (*CUDA, name), _library(name), "the package index has it for the row's CUDA")
        for name in ("nccl", "cudnn")
    ),
    CellRule(
        name="gcc-exact",
        about=About.RELEASE,
        fields=("gcc", "os"),
        fact=read("the tables of the distributions: releases of gcc", "2026-11-22"),
        ask=_exact_gcc,
        says="what exactly the distribution has is in the lock",
    ),
    CellRule(
        name="cuda-exact",
        about=About.RELEASE,
        fields=("provider", "cuda"),
        fact=read("the tables of the distributions: releases of CUDA", "2026-11-22"),
        ask=_exact_cuda,
        says="what exactly the distribution, or the wheel, has is in the lock",
    ),
)

NCCL_FLOOR = CellRule(
    name="nccl-floor",
    about=About.STACK,
    fields=("nccl", "torch", "tensorflow"),
    fact=read(
        "the package index: requirements of the wheels; seen with torch 2.2.2 and NCCL 2.16.5", "2026-11-22"
    ),
    ask=_nccl_floor,
    says="a row's NCCL is not older than the one that a wheel pins",
)
