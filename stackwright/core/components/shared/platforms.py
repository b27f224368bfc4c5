"""Rules about the platform of a row: which wheels are there for it, and what this release builds for it."""

from __future__ import annotations

from stackwright.core.components.component import Place, Placed
from stackwright.core.components.shared.wheel_rules import rule
from stackwright.core.facts.wheels import INDEX, Wheels
from stackwright.core.model.row import Cell
from stackwright.core.model.target import AMD64, platform_of
from stackwright.core.rules.rule import Answer, Clash, Ruling


def wheels_for(table: Wheels) -> Placed:
    """The rule of a framework: its wheel for the row's platform is one with CUDA."""
    name = table.name

    def ask(cell: Cell) -> Answer:
        version, platform = cell.value(name), platform_of(cell.platform)
        if version is None or platform == AMD64 or "+" in version:
            return Ruling.SILENT
        there = table.on(platform.name)
        entry = there.of(version)
        if entry is not None and entry.cuda:
            return Ruling.FITS
        if entry is None and there.entries and table.of(version) is None:
            return Ruling.SILENT  # later than the tables: the rule on releases says so
        values = (("platform", platform.name), (name, version))
        why = f"the package index has no wheel of {name} {version} for {platform.name}"
        if entry is not None:
            why = f"the wheel of {name} {version} for {platform.name} is for the CPU alone"
        with_cuda = [wheel for wheel in there.entries if wheel.cuda]
        more = f"those with CUDA begin with {_first(there)}" if with_cuda else "none there has CUDA"
        return Clash(values=values, reason=f"{why}; {more}", fact=entry.fact if entry else INDEX)

    says = "the wheel for the row's platform has CUDA"
    return Placed(at=Place.INDEX, rule=rule(f"{name}-platform", ("platform", name), INDEX, ask, says))


def _first(there: Wheels) -> str:
    """Return the first release with CUDA; of a minor one all are alike, where the table has one entry."""
    return next(wheel.release for wheel in there.entries if wheel.cuda)
