"""Which GPUs the wheels hold code for.

An entry ``sm_80`` is machine code: it runs on a GPU of its own major capability, from its own minor one on.
``compute_80`` is PTX, from which the driver makes machine code for any later GPU when it is first used.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import Provenance
from stackwright.core.facts.wheels import Wheels

ON_CHIP = ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")
"""GPUs of Tegra chips: only code that was made for one of them runs there (CUDA C++ Programming Guide)."""


class Runs(StrEnum):
    """AS_IS: there is machine code for the GPU. FROM_PTX: the driver makes it."""

    AS_IS = "as it is"
    FROM_PTX = "from PTX"
    NOT = "not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What a wheel holds: (8, 0) among ``machine`` is sm_80, and among ``ptx`` it is compute_80."""

    machine: tuple[tuple[int, ...], ...]
    ptx: tuple[tuple[int, ...], ...]

    def runs(self, arch: str) -> Runs:
        """Return how the wheel's code runs on a GPU of this compute capability."""
        wanted = as_numbers(arch)
        if any(_same_chip(code, wanted) and code[0] == wanted[0] and code <= wanted for code in self.machine):
            return Runs.AS_IS
        return Runs.FROM_PTX if any(code <= wanted for code in self.ptx) else Runs.NOT


def _same_chip(made_for: tuple[int, ...], gpu: tuple[int, ...]) -> bool:
    on_chip = {as_numbers(arch) for arch in ON_CHIP}
    return made_for == gpu or not {made_for, gpu} & on_chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``ptx_is_both``: an entry compute_80 means machine code too."""

    wheels: Wheels
    ptx_is_both: bool
    fact: Provenance

    def entries(self, version: str, platform: str | None = None) -> str | None:
        """Return what the wheel of a release names; None for a wheel that was not read, or names nothing."""
        found = self.wheels.on(platform).of(version) if "+" not in version else None
        return (found.code or None) if found else None

    def code(self, version: str, platform: str | None = None) -> Code | None:
        entries = self.entries(version, platform)
        return code_of(entries, ptx_is_both=self.ptx_is_both) if entries else None


def code_of(entries: str, *, ptx_is_both: bool = False) -> Code:
    """Return what entries as in "sm_80 compute_90" mean."""
    ptx = tuple(_numbers(entry) for entry in entries.split() if entry.startswith("compute_"))
    machine = tuple(_numbers(entry) for entry in entries.split() if entry.startswith("sm_"))
    return Code(machine=(*machine, *ptx) if ptx_is_both else machine, ptx=ptx)


def _numbers(entry: str) -> tuple[int, ...]:
    """sm_120 is 12.0: the last digit is the minor number."""
    digits = entry.partition("_")[2]
    return int(digits[:-1]), int(digits[-1])
