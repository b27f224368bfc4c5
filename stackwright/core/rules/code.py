"""Which GPUs the wheels hold code for, and the rules about it.

An entry ``sm_80`` is machine code: it runs on a GPU of its own major capability, from its own minor one on.
``compute_80`` is PTX, from which the driver makes machine code for any later GPU when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import Provenance, read
from stackwright.core.facts.wheels import TENSORFLOW, TORCH, Wheel, wheel
from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Said

TORCH_WHEELS = read(
    "the package index: the architectures that libtorch_python.so names, as torch.cuda.get_arch_list() "
    "gives them",
    "2026-11-22",
)
TENSORFLOW_WHEELS = read(
    "the package index: cuda_compute_capabilities in tensorflow/python/platform/build_info.py", "2026-11-22"
)

ON_CHIP = ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")
"""GPUs of Tegra chips: only code that was made for one of them runs there (CUDA C++ Programming Guide)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What a wheel holds: (8, 0) among ``machine`` is sm_80, and among ``ptx`` it is compute_80."""

    machine: tuple[tuple[int, ...], ...]
    ptx: tuple[tuple[int, ...], ...]

    def runs(self, arch: str) -> Said:
        """FITS with machine code, WARNS with PTX alone, REFUSES with neither."""
        wanted = as_numbers(arch)
        if any(_same_chip(one, wanted) and one[0] == wanted[0] and one <= wanted for one in self.machine):
            return Said.FITS
        return Said.WARNS if any(one <= wanted for one in self.ptx) else Said.REFUSES


def _same_chip(made_for: tuple[int, ...], gpu: tuple[int, ...]) -> bool:
    on_chip = {as_numbers(arch) for arch in ON_CHIP}
    return made_for == gpu or not {made_for, gpu} & on_chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``ptx_is_both``: an entry compute_80 stands for machine code too (tensorflow, configure.py)."""

    wheels: tuple[Wheel, ...]
    ptx_is_both: bool
    fact: Provenance

    def entries(self, version: str) -> str | None:
        """What the wheel of a release names; None for a wheel that was not read, or names nothing."""
        found = wheel(self.wheels, version) if "+" not in version else None
        return (found.code or None) if found else None

    def code(self, version: str) -> Code | None:
        entries = self.entries(version)
        if entries is None:
            return None
        ptx = tuple(_numbers(entry) for entry in entries.split() if entry.startswith("compute_"))
        machine = tuple(_numbers(entry) for entry in entries.split() if entry.startswith("sm_"))
        return Code(machine=(*machine, *ptx) if self.ptx_is_both else machine, ptx=ptx)


def _numbers(entry: str) -> tuple[int, ...]:
    """sm_120 is 12.0: the last digit is the minor number."""
    digits = entry.partition("_")[2]
    return int(digits[:-1]), int(digits[-1])


TABLES = {
    "torch": Table(wheels=TORCH, ptx_is_both=False, fact=TORCH_WHEELS),
    "tensorflow": Table(wheels=TENSORFLOW, ptx_is_both=True, fact=TENSORFLOW_WHEELS),
}


def _runs(name: str) -> Callable[[Cell], Answer]:
    table = TABLES[name]

    def ask(cell: Cell) -> Answer:
        version = getattr(cell, name)
        code = table.code(version) if version else None
        if code is None or not cell.gpu_arch:
            return Said.SILENT
        clashes = list(_clashes(name, version, code, cell.gpu_arch))
        if not clashes:
            return Said.FITS
        return min(clashes, key=lambda clash: clash.said is not Said.REFUSES)

    return ask


def _clashes(name: str, version: str, code: Code, arches: tuple[str, ...]) -> Iterator[Clash]:
    entries = TABLES[name].entries(version)
    for arch in arches:
        said = code.runs(arch)
        if said is Said.FITS:
            continue
        reason = f"the wheel of {name} {version} holds {entries}: no code that runs on a GPU of {arch}"
        if said is Said.WARNS:
            newest = ".".join(map(str, max(code.ptx)))
            reason = (
                f"the wheel of {name} {version} holds {entries}: on {arch} it runs from PTX for {newest}, "
                "which the driver compiles when it is first used (minutes; kept in ~/.nv/ComputeCache)"
            )
        yield Clash(values=((name, version), ("gpu_arch", arch)), reason=reason, said=said)


RULES: tuple[CellRule, ...] = tuple(
    CellRule(
        name=f"{name}-arch",
        about=About.STACK,
        fields=(name, "gpu_arch"),
        fact=table.fact,
        ask=_runs(name),
        says="the framework's wheel holds code for the row's GPUs",
    )
    for name, table in TABLES.items()
)
