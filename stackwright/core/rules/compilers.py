"""Rules about the compilers: nvcc, the host's gcc, and what they make code for."""

from __future__ import annotations

from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell
from stackwright.core.rules.derived import CUDA_FIELDS, GCC_FIELDS, cuda_of, gcc_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling


def _cuda_gcc(cell: Cell) -> Answer:
    cuda, gcc = cuda_of(cell), gcc_of(cell)
    entry = distributions.CUDA_GCC.get(distributions.cuda_release(cuda)) if cuda else None
    if cuda is None or gcc is None or entry is None:
        return Ruling.SILENT
    if as_numbers(gcc)[0] <= entry.value:
        return Ruling.FITS
    reason = f"nvcc of CUDA {cuda} accepts no gcc newer than {entry.value}"
    return Clash(values=(("cuda", cuda), ("gcc", gcc)), reason=reason, fact=entry.fact)


def cuda_arch(cell: Cell) -> Answer:
    cuda = cuda_of(cell)
    entry = distributions.CUDA_ARCH.get(distributions.cuda_release(cuda)) if cuda else None
    if cuda is None or entry is None or not cell.gpu_arch:
        return Ruling.SILENT
    arch = next((arch for arch in cell.gpu_arch if arch not in entry.value), None)
    if arch is None:
        return Ruling.FITS
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


RULES = (
    CellRule(
        name="cuda-gcc",
        about=About.STACK,
        fields=GCC_FIELDS,
        fact=read("crt/host_config.h of each compiler", "2026-11-22"),
        ask=_cuda_gcc,
        says="nvcc accepts no host compiler newer than it knows",
    ),
    CellRule(
        name="cuda-arch",
        about=About.STACK,
        fields=(*CUDA_FIELDS, "gpu_arch"),
        fact=read(
            "ptxas of each compiler; for linux/arm64 those of 13.0 to 13.3, in an emulator, list the same",
            "2026-11-23",
        ),
        ask=cuda_arch,
        says="each release of nvcc makes code for some architectures",
    ),
)
