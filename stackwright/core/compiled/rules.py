"""Rules on what a row compiles from source."""

from __future__ import annotations

from stackwright.core.compiled import variables
from stackwright.core.components.shared import sources
from stackwright.core.components.table import COMPONENTS, compiled
from stackwright.core.config.additions import accepts, name
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell, Lock
from stackwright.core.model.target import AMD64, platform_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, LockRule, Ruling

SCRIPT = read("scripts/build-distribution.sh", "2026-11-22")
INDEX = read("the package index: metadata of sources", "2026-11-22")
LOCKED = read("matrix.yaml and the lock", "2026-11-22")


def _once(cell: Cell) -> Answer:
    """Refuse what pip would install again over the wheel that was compiled."""
    wheels = {name(addition): addition for addition in cell.pip}
    for addition in cell.compile:
        if other := wheels.get(name(addition)):
            return Clash(
                values=(("compile", addition.requirement), ("pip", other.requirement)),
                reason=f"{name(addition)} is compiled from source or a wheel of the index, and not both",
            )
    return Ruling.FITS if cell.compile else Ruling.SILENT


def _known(cell: Cell) -> Answer:
    for addition in cell.compile:
        found = sources.of(name(addition))
        if found.other:
            return Clash(values=(("compile", addition.requirement),), reason=found.other, fact=found.fact)
    return Ruling.FITS if cell.compile else Ruling.SILENT


def _variables(cell: Cell) -> Answer:
    """Refuse what would make a wheel for another row than this one."""
    for addition in cell.compile:
        for variable, value in addition.environment:
            if sources.SET_BY_US.fullmatch(variable):
                return Clash(
                    values=(("compile", addition.requirement), (variable, value)),
                    reason=f"{variable} follows from the row's own fields, and is set for every build",
                )
    return Ruling.FITS if cell.compile else Ruling.SILENT


def _platform(cell: Cell) -> Answer:
    wanted, platform = compiled(cell), platform_of(cell.platform)
    if platform == AMD64 or not wanted:
        return Ruling.FITS if wanted else Ruling.SILENT
    values = (("platform", platform.name), ("compile", wanted[0].requirement))
    reason = f"the script that compiles sources gives them the compilers and flags of {AMD64.title} alone"
    return Clash(values=values, reason=reason)


def _as_named(cell: Cell, lock: Lock) -> Clash | None:
    locked = {package.name: package.version for package in lock.compiled}
    for addition in compiled(cell):
        version = locked.get(name(addition))
        if version is None or not accepts(addition, version):
            values = (("compile", addition.requirement), (name(addition), version or "not locked"))
            return Clash(values=values, reason="the lock has no such source")
    return None


RULES = (
    CellRule(
        name="compile-known",
        about=About.STACK,
        fields=("compile",),
        says="the index has the project that people mean under the name of what is compiled",
        fact=INDEX,
        ask=_known,
    ),
    CellRule(
        name="compile-once",
        about=About.STACK,
        fields=("compile", "pip"),
        says="nothing is both compiled and added by pip",
        fact=LOCKED,
        ask=_once,
    ),
    CellRule(
        name="compile-variables",
        about=About.STACK,
        fields=("compile",),
        says="a build is given no variable that follows from the row (compilers, architectures, folders)",
        fact=SCRIPT,
        ask=_variables,
    ),
    CellRule(
        name="compile-platform",
        about=About.RELEASE,
        fields=("platform", "compile", *(component.name for component in COMPONENTS)),
        says="sources besides the row's own layers are compiled for one platform",
        fact=SCRIPT,
        ask=_platform,
    ),
    *variables.RULES,
)
LOCK_RULES = (
    LockRule(
        name="compile-named",
        says="the lock has a source of each distribution that is compiled, in a version that the row allows",
        fact=LOCKED,
        ask=_as_named,
    ),
)
