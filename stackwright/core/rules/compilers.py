"""Rules about the compilers: nvcc, the host's gcc, and what they make code for."""

from __future__ import annotations

from stackwright.core.facts import distributions, horovod
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Said, covers

CUDA = ("provider", "os", "cuda")
"""What cuda_of reads."""
GCC = (*CUDA, "gcc")


def cuda_of(cell: Cell) -> str | None:
    """The CUDA compiler's release: as written, or the one that the distribution packages."""
    if cell.cuda or cell.provider != "debian":
        return cell.cuda
    known = distributions.distribution(cell.os)
    return known.cuda if known else None


def nvcc_in_wheels(cell: Cell) -> str | None:
    """The release of nvcc to take from the package index, where the distribution does not package it."""
    cuda, known = cuda_of(cell), distributions.distribution(cell.os)
    if cell.provider != "debian" or cuda is None or known is None:
        return None
    release = ".".join(cuda.split(".")[:2])
    packaged = known.cuda is not None and covers(release, known.cuda)
    return release if release in distributions.NVCC_WHEELS and not packaged else None


def gcc_of(cell: Cell) -> str | None:
    """The compiler's release: as written, or the newest that both CUDA and the OS allow."""
    known = distributions.distribution(cell.os)
    cuda = cuda_of(cell)
    if cell.gcc or known is None or cuda is None:
        return cell.gcc
    most = distributions.highest_gcc(cuda)
    fitting = [gcc for gcc in known.gcc if most is None or as_numbers(gcc)[0] <= most]
    return fitting[-1] if fitting else known.gcc[0]


def _cuda_gcc(cell: Cell) -> Answer:
    cuda, gcc = cuda_of(cell), gcc_of(cell)
    entry = distributions.CUDA_GCC.get(distributions.cuda_release(cuda)) if cuda else None
    if cuda is None or gcc is None or entry is None:
        return Said.SILENT
    if as_numbers(gcc)[0] <= entry.value:
        return Said.FITS
    reason = f"nvcc of CUDA {cuda} accepts no gcc newer than {entry.value}"
    return Clash(values=(("cuda", cuda), ("gcc", gcc)), reason=reason, fact=entry.fact)


def cuda_arch(cell: Cell) -> Answer:
    cuda = cuda_of(cell)
    entry = distributions.CUDA_ARCH.get(distributions.cuda_release(cuda)) if cuda else None
    if cuda is None or entry is None or not cell.gpu_arch:
        return Said.SILENT
    arch = next((arch for arch in cell.gpu_arch if arch not in entry.value), None)
    if arch is None:
        return Said.FITS
    span = distributions.cuda_range(arch)
    if span is None:
        known = ", ".join(distributions.architectures())
        reason = f"no release of CUDA makes code for {arch}; known: {known}"
        return Clash(values=(("gpu_arch", arch),), reason=reason, fact=entry.fact)
    first, last = span
    reason = f"CUDA makes code for {arch} {f'from {first} to {last}' if last else f'from {first} on'}"
    if last is not None and first == last:
        reason = f"CUDA makes code for {arch} in {first} alone"
    return Clash(values=(("cuda", cuda), ("gpu_arch", arch)), reason=reason, fact=entry.fact)


def _standard(cell: Cell) -> tuple[str, str, int] | None:
    """The framework of the row whose headers ask for the newest C++, its version, and that standard."""
    asked = [
        (name, version, standard)
        for name, since, standard, _ in horovod.STANDARDS
        if (version := getattr(cell, name)) and as_numbers(version) >= as_numbers(since)
    ]
    return max(asked, key=lambda one: (one[2], one[0] == "torch")) if asked else None


def _cxx_gcc(cell: Cell) -> Answer:
    asked, gcc = _standard(cell), gcc_of(cell)
    if asked is None or gcc is None:
        return Said.SILENT
    name, version, standard = asked
    least, fact = next((gcc, fact) for number, gcc, fact, _, _ in horovod.COMPILERS if number == standard)
    if as_numbers(gcc)[0] >= least:
        return Said.FITS
    if name == "tensorflow" and as_numbers(version) < as_numbers("2.13") and as_numbers(gcc)[0] == 7:
        fact = horovod.GCC_7
    reason = f"the headers of {name} {version} are C++{standard}, which gcc compiles from {least} on"
    return Clash(values=((name, version), ("gcc", gcc)), reason=reason, fact=fact)


def _headers_gcc(cell: Cell) -> Answer:
    gcc, asked = gcc_of(cell), False
    for name, since, least, fact in horovod.OLDEST_GCC:
        version = getattr(cell, name)
        if gcc is None or version is None or as_numbers(version) < as_numbers(since):
            continue
        asked = True
        if as_numbers(gcc)[0] < least:
            reason = f"the headers of {name} {version} refuse a gcc before {least}"
            return Clash(values=((name, version), ("gcc", gcc)), reason=reason, fact=fact)
    return Said.FITS if asked else Said.SILENT


def _cxx_cuda(cell: Cell) -> Answer:
    asked, cuda = _standard(cell), cuda_of(cell)
    if asked is None or cuda is None:
        return Said.SILENT
    name, version, standard = asked
    least, fact = next((cuda, fact) for number, _, _, cuda, fact in horovod.COMPILERS if number == standard)
    if as_numbers(cuda) >= as_numbers(least):
        return Said.FITS
    reason = f"the headers of {name} {version} are C++{standard}, which nvcc compiles from CUDA {least} on"
    return Clash(values=((name, version), ("cuda", cuda)), reason=reason, fact=fact)


RULES = (
    CellRule(
        name="cuda-gcc",
        about=About.STACK,
        fields=GCC,
        fact=read("crt/host_config.h of each compiler", "2026-11-22"),
        ask=_cuda_gcc,
        says="nvcc accepts no host compiler newer than it knows",
    ),
    CellRule(
        name="cuda-arch",
        about=About.STACK,
        fields=(*CUDA, "gpu_arch"),
        fact=read("ptxas of each compiler", "2026-11-22"),
        ask=cuda_arch,
        says="each release of nvcc makes code for some architectures",
    ),
    CellRule(
        name="cxx-gcc",
        about=About.STACK,
        fields=(*GCC, "torch", "tensorflow"),
        ask=_cxx_gcc,
        fact=horovod.INSTALL,
        says="the frameworks' headers ask for a C++ standard, and gcc must know it",
    ),
    CellRule(
        name="headers-gcc",
        about=About.STACK,
        fields=(*GCC, "torch"),
        ask=_headers_gcc,
        fact=horovod.OLDEST_GCC[0][3],
        says="a framework's headers accept a gcc from some release on",
    ),
    CellRule(
        name="cxx-cuda",
        about=About.STACK,
        fields=(*CUDA, "torch", "tensorflow"),
        ask=_cxx_cuda,
        fact=horovod.INSTALL,
        says="the frameworks' headers ask for a C++ standard, and nvcc must know it",
    ),
)
