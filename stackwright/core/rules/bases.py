"""Rules about the base: what the distribution packages, and which images NVIDIA made."""

from __future__ import annotations

from collections.abc import Callable

from stackwright.core.components.table import COMPONENTS
from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import Provenance, read, weakest
from stackwright.core.facts.wheels import INDEX
from stackwright.core.model.row import Cell, MpiFlavour, ProviderName
from stackwright.core.model.target import AMD64, platform_of
from stackwright.core.rules.derived import CUDA_FIELDS, nvcc_in_wheels
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling
from stackwright.core.versions import covers

WHEELS = tuple(component.wheels for component in COMPONENTS if component.wheels)


def _os(cell: Cell) -> Answer:
    known = [d.id for d in distributions.DISTRIBUTIONS if d.provider == cell.provider]
    if cell.os in known:
        return Ruling.FITS
    return Clash(
        values=(("provider", cell.provider), ("os", cell.os)),
        reason=f"the {cell.provider} provider makes its base of {', '.join(known)}",
    )


def _platform(cell: Cell) -> Answer:
    platform = platform_of(cell.platform)
    if platform == AMD64 or cell.provider is ProviderName.DEBIAN:
        return Ruling.FITS
    values = (("platform", platform.name), ("provider", cell.provider))
    reason = f"the base for {platform.name} is made from Debian's mirror; no other was tried"
    return Clash(values=values, reason=reason)


def _nvidia_image(cell: Cell) -> Answer:
    made = distributions.nvidia_tags(cell.os)
    if cell.provider is not ProviderName.NVIDIA or not made:
        return Ruling.SILENT
    tag = distributions.nvidia_tag(cell.os, cell.cuda) if cell.cuda else None
    unlisted = as_numbers(tag or cell.cuda or "0") > as_numbers(distributions.LISTED_TO)
    if tag and not unlisted:
        return Ruling.FITS
    values = (("cuda", cell.cuda or "none"), ("os", cell.os))
    if unlisted and distributions.nvidia_tag(cell.os, distributions.LISTED_TO):
        reason = f"it is not checked that NVIDIA made a devel image of CUDA {tag or cell.cuda} on {cell.os}"
        return Clash(values=values, reason=reason, fact=distributions.NVIDIA_TAGS_LATER)
    reason = f"NVIDIA made devel images on {cell.os} for CUDA {', '.join(made)}"
    if cell.cuda is None:
        reason = f"the row names no release of CUDA to take nvcc from; {reason}"
    return Clash(values=values, reason=reason, fact=distributions.NVIDIA_TAGS)


def _python_os(cell: Cell) -> Answer:
    known = distributions.distribution(cell.os)
    if known is None:
        return Ruling.SILENT
    if any(covers(cell.python, python) for python in (known.python, *known.pythons)):
        return Ruling.FITS
    packaged = " and ".join((known.python, *known.pythons))
    return Clash(
        values=(("python", cell.python), ("os", cell.os)),
        reason=f"{cell.os} has Python {packaged}, and the image takes its Python from the distribution",
        fact=known.fact,
    )


def _gcc_os(cell: Cell) -> Answer:
    known = distributions.distribution(cell.os)
    if known is None or cell.gcc is None:
        return Ruling.SILENT
    if distributions.gcc_release(cell.gcc) in known.gcc:
        return Ruling.FITS
    reason = f"{cell.os} has gcc {', '.join(known.gcc)}"
    return Clash(values=(("gcc", cell.gcc), ("os", cell.os)), reason=reason, fact=known.fact)


def _cuda_os(cell: Cell) -> Answer:
    known = distributions.distribution(cell.os)
    if cell.provider is not ProviderName.DEBIAN or known is None or cell.cuda is None or known.cuda is None:
        return Ruling.SILENT
    if covers(cell.cuda, known.cuda) or covers(known.cuda, cell.cuda) or nvcc_in_wheels(cell):
        return Ruling.FITS
    found = distributions.nvcc_wheels(cell.platform)
    wheels = f"{found[0]} to {found[-1]}"
    reason = f"{cell.os} packages the compiler of CUDA {known.cuda}; the package index has that of {wheels}"
    return Clash(values=(("cuda", cell.cuda), ("os", cell.os)), reason=reason)


def _mpi_os(cell: Cell) -> Answer:
    known = distributions.distribution(cell.os)
    if known is None:
        return Ruling.SILENT
    offered = {MpiFlavour.OPENMPI: known.openmpi, MpiFlavour.MPICH: known.mpich}[cell.mpi.flavour]
    if covers(cell.mpi.version, offered) or covers(offered, cell.mpi.version):
        return Ruling.FITS
    return Clash(
        values=(("mpi", f"{cell.mpi.flavour} {cell.mpi.version}"), ("os", cell.os)),
        reason=f"{cell.os} has {cell.mpi.flavour} {offered}",
        fact=known.fact,
    )


def _glibc(cell: Cell) -> Answer:
    known = distributions.distribution(cell.os)
    asked = [
        (table.name, version, found)
        for table in WHEELS
        if (version := cell.value(table.name)) and (found := table.on(cell.platform).of(version))
    ]
    if known is None or not asked:
        return Ruling.SILENT
    for name, version, found in asked:
        if found.glibc and as_numbers(found.glibc) > as_numbers(known.glibc):
            needed = found.glibc.replace(".", "_")
            reason = f"the wheel is tagged manylinux_{needed}, and {cell.os} has glibc {known.glibc}"
            fact = weakest(found.fact, known.fact)
            return Clash(values=((name, version), ("os", cell.os)), reason=reason, fact=fact)
    return Ruling.FITS


def _rule(
    name: str,
    fields: tuple[str, ...],
    fact: Provenance,
    ask: Callable[[Cell], Answer],
    says: str,
) -> CellRule:
    return CellRule(name=name, about=About.BASE, fields=fields, fact=fact, ask=ask, says=says)


PACKAGED = distributions.PACKAGED
PROVIDERS = read("stackwright/engines/bases: each makes its base of these", "2026-11-20")

RULES = (
    _rule(
        "glibc",
        ("platform", "os", *(table.name for table in WHEELS)),
        INDEX,
        _glibc,
        "a wheel's tag names the oldest glibc that it runs on",
    ),
    _rule(
        "platform-base",
        ("platform", "provider"),
        read("stackwright/engines/bases/debian.py", "2026-11-23"),
        _platform,
        "the base for another platform is made from the distribution's mirror",
    ),
    _rule("os", ("provider", "os"), PROVIDERS, _os, "a provider makes its base of some distributions"),
    _rule(
        "nvidia-image",
        CUDA_FIELDS,
        distributions.NVIDIA_TAGS,
        _nvidia_image,
        "NVIDIA makes an image of a CUDA release for some releases of Ubuntu",
    ),
    _rule(
        "python-os",
        ("python", "os"),
        PACKAGED,
        _python_os,
        "the image takes its Python from the distribution",
    ),
    _rule(
        "gcc-os",
        ("gcc", "os"),
        PACKAGED,
        _gcc_os,
        "the image takes its gcc from the distribution",
    ),
    _rule(
        "cuda-os",
        CUDA_FIELDS,
        read(
            f"{distributions.DEBIAN.source}: nvidia-cuda-toolkit, section non-free; "
            "the package index: nvidia-cuda-nvcc",
            "2026-11-20",
        ),
        _cuda_os,
        "the debian provider takes nvcc from the distribution, or from NVIDIA's wheels",
    ),
    _rule(
        "mpi-os",
        ("mpi", "os"),
        PACKAGED,
        _mpi_os,
        "the image takes its MPI from the distribution",
    ),
)
