"""Rules on the variables of a row's builds: none makes a wheel for another row than this one."""

from __future__ import annotations

import re

from stackwright.core.compiled.needs import environment
from stackwright.core.components.shared import sources
from stackwright.core.components.table import COMMUNICATION, COMPONENTS, compiled
from stackwright.core.config.additions import name
from stackwright.core.facts.provenance import read
from stackwright.core.model.added.image import Variable
from stackwright.core.model.row import Cell
from stackwright.core.rules.own import LAYERS, OF_A_SITE, Refused, refused
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling

FIELD = "build-env"
SCRIPTS = read("scripts/build-*.sh, gcc(1), nvcc --help, cmake-env-variables(7), ld(1)", "2026-11-22")

OF_THE_ROW = "follows from the row's own fields, and is set for every build"
OF_THE_LINKER = "takes headers, libraries or a linker from elsewhere, past what the row's lock has"

REFUSED = (
    OF_A_SITE,
    Refused(pattern=f"_?({LAYERS})_.*", why=f"says what a layer is compiled with, which {OF_THE_ROW}"),
    Refused(pattern=rf"{sources.SET_BY_US.pattern}|FRAMEWORKS|PATCHES|BASHOPTS|E?UID|PPID|POSIXLY_CORRECT",
            why=OF_THE_ROW),
    Refused(pattern=r"(CUDA|CUDNN|NCCL|NVCC|MPI)(_?[A-Z].*)?|.*_(NVCC_FLAGS|ARCH_LIST)|CPP|FC|F77|F90|HOSTC(C|XX)"
            r"|CMAKE_.*(COMPILER|LAUNCHER|LINKER|ARCHITECTURES|TOOLCHAIN).*",
            why=f"names a compiler, or what it compiles for, which {OF_THE_ROW}"),
    Refused(pattern=r"(.*_)?LDFLAGS|LIBS|LDADD|(BLD)?LD(CXX)?SHARED|LD|AR|AS|NM|RANLIB|STRIP|OBJCOPY|LPATH|LIBPATH"
            r"|COMPILER_PATH|(C|CPLUS|OBJC|OBJCPLUS)_INCLUDE_PATH|GCC_.*|COLLECT_.*|CONFIG_SITE|PKG_CONFIG.*"
            r"|CMAKE_.*(PATH|ROOT|PREFIX).*|.*RPATH.*|MAKEFILES|MAKE",
            why=OF_THE_LINKER),
)  # fmt: skip
"""Variables by their whole name."""

BEGIN = r"(^|[ ,=:])"
FLAGS = (
    Refused(pattern=rf"{BEGIN}-m[a-z0-9]", why="says for which CPU it is compiled, and all images have one "
            "baseline"),
    Refused(pattern=rf"{BEGIN}-(gencode|arch|code|-gpu-|-cuda-|ccbin|-compiler-bindir)|\b(sm|compute)_[0-9]",
            why=f"says for which GPU it is compiled, which {OF_THE_ROW}"),
    Refused(pattern=rf"{BEGIN}-+(Ofast|f[a-z-]*(fast|unsafe|associative|reciprocal|finite)-math|use_fast_math)",
            why="lets the wheel compute other numbers, in all of a process that loads it"),
    Refused(pattern=rf"{BEGIN}-([LBIl]|W[lap],|X(linker|assembler|preprocessor)|-?rpath|isystem|i[a-z]+|fuse-ld"
            r"|fplugin|specs|-sysroot|-param|static|shared|nost|nodef|x ?[a-z])"
            r"|CMAKE_\w*(COMPILER|LAUNCHER|LINKER|ARCHITECTURES|RPATH|TOOLCHAIN|PREFIX|PATH|ROOT|FLAGS)"
            r"|(^|[ ,=])@",
            why=OF_THE_LINKER),
)  # fmt: skip
"""What no value has in it, of any variable."""

SHAPES = {"MAKEFLAGS": re.compile(r"-j ?[0-9]{1,3}( -k)?", re.ASCII)}
"""Values of variables that could say more: make reads definitions and rules in its own."""


def _why(variable: Variable) -> str:
    """Return why a variable is refused; empty where it is not. A value is not shown: it may be anything."""
    if why := refused(variable.name, REFUSED):
        return f"{variable.name} {why}"
    for flag in FLAGS:
        if re.search(flag.pattern, variable.value, re.ASCII):
            return f"the value of {variable.name} {flag.why}"
    shape = SHAPES.get(variable.name)
    if shape and not shape.fullmatch(variable.value):
        return f"{variable.name} may say how many compilers run, as in -j4, and no more"
    return ""


def _given(cell: Cell) -> tuple[Variable, ...]:
    return tuple(cell.value(FIELD) or ())


def _names(cell: Cell) -> Answer:
    for variable in _given(cell):
        if why := _why(variable):
            return Clash(values=((FIELD, variable.name),), reason=why)
    return Ruling.FITS if _given(cell) else Ruling.SILENT


def _once(cell: Cell) -> Answer:
    """Refuse a variable that one source has a value of its own for: a build has one value of it."""
    wanted = compiled(cell)
    for which in dict.fromkeys(map(name, wanted)):
        known = dict(environment(which, wanted))
        for variable in _given(cell):
            if variable.name in known:
                reason = f"{which} is compiled with {variable.name}={known[variable.name]}, by its own env"
                return Clash(values=((FIELD, variable.name), ("compile", which)), reason=reason)
    return Ruling.FITS if _given(cell) and wanted else Ruling.SILENT


def _read(cell: Cell) -> Answer:
    if not _given(cell):
        return Ruling.SILENT
    if compiled(cell) or any(
        layer.build and layer.build.stage for layer in COMMUNICATION if cell.value(layer.name)
    ):
        return Ruling.FITS
    values = ((FIELD, _given(cell)[0].name), ("compile", "nothing"))
    return Clash(
        values=values, reason="nothing of the row is compiled from source, so that no build reads it"
    )


SOURCES = (FIELD, "compile", *(component.name for component in COMPONENTS))
"""Fields that say what is compiled."""

RULES = (
    CellRule(
        name="build-env-names", about=About.STACK, fields=(FIELD,), fact=SCRIPTS, ask=_names,
        says="a build is given no variable that decides on compilers, CPUs, GPUs, libraries or the index",
    ),
    CellRule(
        name="build-env-once", about=About.STACK, fields=SOURCES, fact=SCRIPTS, ask=_once,
        says="no variable of a row's builds has another value for one of its sources",
    ),
    CellRule(
        name="build-env-read", about=About.STACK, fields=SOURCES, fact=SCRIPTS, ask=_read,
        says="a row that gives its builds variables compiles something",
    ),
)  # fmt: skip
