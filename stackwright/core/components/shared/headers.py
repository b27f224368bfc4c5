"""Rules about the headers of the frameworks: which C++ they are, and which compilers take them."""

from __future__ import annotations

from stackwright.core.components.component import Component, Headers
from stackwright.core.components.table import COMPONENTS
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import documented, read, unchecked
from stackwright.core.model.row import Cell
from stackwright.core.rules.derived import CUDA_FIELDS, GCC_FIELDS, cuda_of, gcc_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling

INSTALL = documented("horovod 0.28.1, docs/install.rst", "2026-11-20")

COMPILERS = (
    # C++ standard, lowest gcc, its source, lowest nvcc, its source
    (14, 5, INSTALL, "9.0", unchecked("CUDA, release notes", "2026-11-20")),
    (17, 8, INSTALL, "11.0", documented("CMake 95700be5", "2026-11-20")),
    (20, 11, read("headers of torch 2.14.1 and 2.15.0, compiled by gcc 10 and 11: __cplusplus", "2026-11-22"),
     "12.0", documented("nlohmann/json #5248", "2026-11-20")),
)  # fmt: skip

UNTRIED = {
    (17, 7): unchecked(
        "Horovod, compiled by gcc 7 as C++17: not tried; all frameworks' headers compile", "2026-11-23"
    )
}
"""By C++ standard and gcc: what only documents rule out. It warns and does not refuse."""

COMPILED = tuple(component for component in COMPONENTS if component.headers)
PICKY = tuple(component for component in COMPONENTS if component.oldest_gcc)


def _standard(cell: Cell) -> tuple[Component, str, Headers] | None:
    """The component of the row whose headers ask for the newest C++, its version, and that standard."""
    asked = [
        (component, version, headers)
        for component in COMPILED
        for headers in component.headers
        if (version := cell.value(component.name)) and as_numbers(version) >= as_numbers(headers.since)
    ]
    return max(asked, key=lambda entry: entry[2].standard) if asked else None


def _cxx_gcc(cell: Cell) -> Answer:
    asked, gcc = _standard(cell), gcc_of(cell)
    if asked is None or gcc is None:
        return Ruling.SILENT
    component, version, headers = asked
    name, standard, major = component.name, headers.standard, as_numbers(gcc)[0]
    least, fact = next((gcc, fact) for number, gcc, fact, _, _ in COMPILERS if number == standard)
    if major >= least:
        return Ruling.FITS
    reason = f"the headers of {name} {version} are C++{standard}, for which gcc {least} or later is asked"
    fact = UNTRIED.get((standard, major), fact)
    return Clash(values=((name, version), ("gcc", gcc)), reason=reason, fact=fact)


def _headers_gcc(cell: Cell) -> Answer:
    gcc, asked = gcc_of(cell), False
    for component in PICKY:
        for since, least, fact in component.oldest_gcc:
            name, version = component.name, cell.value(component.name)
            if gcc is None or version is None or as_numbers(version) < as_numbers(since):
                continue
            asked = True
            if as_numbers(gcc)[0] < least:
                reason = f"the headers of {name} {version} refuse a gcc before {least}"
                return Clash(values=((name, version), ("gcc", gcc)), reason=reason, fact=fact)
    return Ruling.FITS if asked else Ruling.SILENT


def _cxx_cuda(cell: Cell) -> Answer:
    asked, cuda = _standard(cell), cuda_of(cell)
    if asked is None or cuda is None:
        return Ruling.SILENT
    component, version, headers = asked
    name, standard = component.name, headers.standard
    least, fact = next((cuda, fact) for number, _, _, cuda, fact in COMPILERS if number == standard)
    if as_numbers(cuda) >= as_numbers(least):
        return Ruling.FITS
    reason = f"the headers of {name} {version} are C++{standard}, which nvcc compiles from CUDA {least} on"
    return Clash(values=((name, version), ("cuda", cuda)), reason=reason, fact=fact)


RULES = (
    CellRule(
        name="cxx-gcc",
        about=About.STACK,
        fields=(*GCC_FIELDS, *(component.name for component in COMPILED)),
        ask=_cxx_gcc,
        fact=INSTALL,
        says="the frameworks' headers ask for a C++ standard, and gcc must know it",
    ),
    CellRule(
        name="headers-gcc",
        about=About.STACK,
        fields=(*GCC_FIELDS, *(component.name for component in PICKY)),
        ask=_headers_gcc,
        fact=PICKY[0].oldest_gcc[0][2],
        says="a framework's headers accept a gcc from some release on",
    ),
    CellRule(
        name="cxx-cuda",
        about=About.STACK,
        fields=(*CUDA_FIELDS, *(component.name for component in COMPILED)),
        ask=_cxx_cuda,
        fact=INSTALL,
        says="the frameworks' headers ask for a C++ standard, and nvcc must know it",
    ),
)
