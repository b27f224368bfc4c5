"""Rules that need only what a person wrote, and the search for the nearest row that they accept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from stackwright.model import Cell
from stackwright.rules import CellRule, Clash, covers, tables


def cuda_of(cell: Cell) -> str | None:
    """The CUDA compiler's release: as written, or the one that the distribution packages."""
    if cell.cuda or cell.provider != "debian":
        return cell.cuda
    known = tables.distribution(cell.os)
    return known.cuda if known else None


def gcc_of(cell: Cell) -> str | None:
    """The compiler's major release: as written, or the newest that both CUDA and the OS allow."""
    known = tables.distribution(cell.os)
    cuda = cuda_of(cell)
    if cell.gcc or known is None or cuda is None:
        return cell.gcc
    most = tables.highest_gcc(cuda)
    fitting = [gcc for gcc in known.gcc if most is None or int(gcc) <= most]
    return fitting[-1] if fitting else known.gcc[0]


def _os_known(cell: Cell) -> Clash | None:
    if cell.provider != "debian" or tables.distribution(cell.os):
        return None
    known = ", ".join(d.id for d in tables.DISTRIBUTIONS)
    return Clash(
        values=(("provider", cell.provider), ("os", cell.os)),
        reason=f"the debian provider makes its base from the distribution's own packages; it knows {known}",
    )


def _python_os(cell: Cell) -> Clash | None:
    known = tables.distribution(cell.os)
    if known is None or covers(cell.python, known.python):
        return None
    return Clash(
        values=(("python", cell.python), ("os", cell.os)),
        reason=f"{cell.os} has Python {known.python}, and the image takes its Python from the distribution",
    )


def _gcc_os(cell: Cell) -> Clash | None:
    known = tables.distribution(cell.os)
    if known is None or cell.gcc is None or cell.gcc.split(".")[0] in known.gcc:
        return None
    return Clash(
        values=(("gcc", cell.gcc), ("os", cell.os)),
        reason=f"{cell.os} has gcc {', '.join(known.gcc)}",
    )


def _cuda_os(cell: Cell) -> Clash | None:
    known = tables.distribution(cell.os)
    if cell.provider != "debian" or known is None or cell.cuda is None or known.cuda is None:
        return None
    if covers(cell.cuda, known.cuda) or covers(known.cuda, cell.cuda):
        return None
    return Clash(
        values=(("cuda", cell.cuda), ("os", cell.os)),
        reason=f"{cell.os} packages the compiler of CUDA {known.cuda}",
    )


def _mpi_os(cell: Cell) -> Clash | None:
    known = tables.distribution(cell.os)
    if known is None:
        return None
    offered = {"openmpi": known.openmpi, "mpich": known.mpich}[cell.mpi.flavour]
    if covers(cell.mpi.version, offered) or covers(offered, cell.mpi.version):
        return None
    return Clash(
        values=(("mpi", f"{cell.mpi.flavour} {cell.mpi.version}"), ("os", cell.os)),
        reason=f"{cell.os} has {cell.mpi.flavour} {offered}",
    )


def _cuda_gcc(cell: Cell) -> Clash | None:
    cuda, gcc = cuda_of(cell), gcc_of(cell)
    if cuda is None or gcc is None:
        return None
    most = tables.highest_gcc(cuda)
    if most is None or int(gcc.split(".")[0]) <= most:
        return None
    return Clash(
        values=(("cuda", cuda), ("gcc", gcc)),
        reason=f"nvcc of CUDA {cuda} accepts no gcc newer than {most}",
    )


def _cuda_arch(cell: Cell) -> Clash | None:
    cuda = cuda_of(cell)
    if cuda is None:
        return None
    release = tables.as_numbers(cuda)[:2]
    for arch in cell.gpu_arch:
        span = tables.cuda_range(arch)
        if span is None:
            known = ", ".join(name for name, _, _ in tables.CUDA_ARCH)
            return Clash(values=(("gpu_arch", arch),), reason=f"no such compute capability; known: {known}")
        first, last = span
        late = last is not None and release > tables.as_numbers(last)
        if late or release < tables.as_numbers(first):
            reason = f"CUDA makes code for {arch} from {first} {f'to {last}' if last else 'on'}"
            return Clash(values=(("cuda", cuda), ("gpu_arch", arch)), reason=reason)
    return None


def _has_extension(cell: Cell) -> Clash | None:
    if cell.torch or cell.tensorflow or cell.mxnet:
        return None
    return Clash(
        values=(("torch", "none"), ("tensorflow", "none"), ("mxnet", "none")),
        reason="Horovod needs at least one framework to be compiled against",
    )


def _provider_known(cell: Cell) -> Clash | None:
    if cell.provider == "debian":
        return None
    return Clash(
        values=(("provider", cell.provider),),
        reason="this release renders and builds the debian provider only",
    )


CELL_RULES = (
    CellRule(name="provider", source="stackwright/rules/cell.py", ask=_provider_known),
    CellRule(name="os", source=tables.DEBIAN, ask=_os_known),
    CellRule(name="frameworks", source=tables.HOROVOD_INSTALL, ask=_has_extension),
    CellRule(name="python-os", source=tables.DEBIAN, ask=_python_os),
    CellRule(name="gcc-os", source=tables.DEBIAN, ask=_gcc_os),
    CellRule(name="cuda-os", source=f"{tables.DEBIAN}: nvidia-cuda-toolkit, section non-free", ask=_cuda_os),
    CellRule(name="mpi-os", source=tables.DEBIAN, ask=_mpi_os),
    CellRule(name="cuda-gcc", source=tables.SPACK, ask=_cuda_gcc),
    CellRule(name="cuda-arch", source=tables.SPACK, ask=_cuda_arch),
)


def first_clash(cell: Cell) -> tuple[CellRule, Clash] | None:
    """The first rule that refuses the cell, in the order of the table."""
    for rule in CELL_RULES:
        clash = rule.ask(cell)
        if clash:
            return rule, clash
    return None


def nearest(cell: Cell) -> str:
    """The fewest changes after which every rule accepts the cell, in words; empty if three do not do."""
    fields = _alternatives(cell)
    for count in (1, 2, 3):
        for chosen in combinations(fields, count):
            for values in product(*(options for _, options in chosen)):
                changed = cell
                for value in values:
                    changed = replace(changed, **value)
                if first_clash(changed) is None:
                    return "; ".join(_changes(cell, changed))
    return ""


def _alternatives(cell: Cell) -> list[tuple[str, list[dict[str, Any]]]]:
    """By field, in the order in which people would rather give way, the values that it could take."""
    known = tables.distribution(cell.os)
    systems = sorted(tables.DISTRIBUTIONS, key=lambda d: d.id, reverse=True)
    compilers = sorted({gcc for d in systems for gcc in d.gcc}, key=int, reverse=True)
    arches = tuple(a for a in cell.gpu_arch if _cuda_arch(replace(cell, gpu_arch=(a,))) is None)
    options: list[tuple[str, list[dict[str, Any]]]] = [
        ("gcc", [{"gcc": gcc} for gcc in compilers]),
        ("gpu_arch", [{"gpu_arch": arches}] if arches else []),
        ("python", [{"python": d.python} for d in ([known] if known else systems)]),
        ("cuda", [{"cuda": d.cuda} for d in systems]),
    ]
    if known:
        offered = {"openmpi": known.openmpi, "mpich": known.mpich}[cell.mpi.flavour]
        options.append(("mpi", [{"mpi": replace(cell.mpi, version=offered)}]))
    options.append(("os", [{"os": d.id} for d in systems]))
    options.append(("provider", [{"provider": "debian"}]))
    return options


def _changes(old: Cell, new: Cell) -> Iterator[str]:
    for name in ("provider", "os", "python", "cuda", "gcc", "mpi", "gpu_arch"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name} {_shown(after)} instead of {_shown(before)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    version = getattr(value, "version", None)
    return str(version or value)
