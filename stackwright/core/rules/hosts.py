"""Rules about what is no field of a row: the host's driver, and packages that the lock chooses."""

from __future__ import annotations

from stackwright.core.components.table import COMPONENTS, MODULES, lowest_limit, versions
from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell
from stackwright.core.rules.derived import CUDA_FIELDS, cuda_of
from stackwright.core.rules.rule import Answer, Clash, ExtraRule, Ruling


def _numpy(cell: Cell, numpy: str) -> Answer:
    found = lowest_limit(cell, "numpy")
    if found is None:
        return Ruling.FITS if versions(cell) else Ruling.SILENT
    name, limit = found
    if as_numbers(numpy) < as_numbers(limit.below):
        return Ruling.FITS
    return Clash(values=((name, str(cell.value(name))), ("numpy", numpy)), reason=limit.why)


def _driver(cell: Cell, driver: str) -> Answer:
    cuda = cuda_of(cell)
    least = dict(distributions.DRIVER_FLOOR).get(cuda.split(".")[0]) if cuda else None
    if cuda is None or least is None:
        return Ruling.SILENT
    if as_numbers(driver)[0] >= least:
        return Ruling.FITS
    reason = f"CUDA {cuda.split('.')[0]} needs a driver of release {least} or later"
    return Clash(values=(("driver", driver), ("cuda", cuda)), reason=reason)


SOURCES = dict.fromkeys(
    limit.source for component in COMPONENTS for limit in component.limits if limit.package == "numpy"
)

EXTRA_RULES = (
    *(rule for component in COMPONENTS for rule in component.host_rules),
    ExtraRule(
        name="framework-numpy",
        subject="numpy",
        fields=tuple(module.name for module in MODULES),
        instead="an older numpy, which is what a lock of this row takes",
        fact=read("; ".join(SOURCES), "2026-11-22"),
        ask=_numpy,
        says="older wheels were compiled against numpy 1, or use what later numpy dropped",
    ),
    ExtraRule(
        name="cuda-driver",
        subject="driver",
        fields=CUDA_FIELDS,
        instead="a host with a later driver, or an earlier CUDA",
        fact=distributions.NVIDIA_COMPAT,
        ask=_driver,
        says="each major release of CUDA has a lowest driver",
    ),
)
