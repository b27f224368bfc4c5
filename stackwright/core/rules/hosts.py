"""Rules about what is no field of a row: the host's driver, and packages that the lock chooses."""

from __future__ import annotations

from stackwright.core.facts import distributions, wheels
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import documented
from stackwright.core.model.row import FRAMEWORKS, Cell
from stackwright.core.rules.compilers import CUDA, cuda_of
from stackwright.core.rules.rule import Answer, Clash, ExtraRule, Said


def _setuptools(cell: Cell, setuptools: str) -> Answer:
    if cell.torch is None:
        return Said.SILENT
    for before, limit in wheels.SETUPTOOLS:
        if as_numbers(cell.torch) < as_numbers(before) and as_numbers(setuptools) >= as_numbers(limit):
            return Clash(
                values=(("torch", cell.torch), ("setuptools", setuptools)),
                reason=f"torch before {before} imports pkg_resources.packaging, which setuptools {limit} "
                "dropped: Horovod's build then reads torch as one without CUDA",
            )
    return Said.FITS


def _numpy(cell: Cell, numpy: str) -> Answer:
    named = {name: version for name in FRAMEWORKS if (version := getattr(cell, name))}
    limit = wheels.numpy_limit(named)
    if limit is None:
        return Said.FITS if named else Said.SILENT
    name, least, reason = limit
    if as_numbers(numpy) < as_numbers(least):
        return Said.FITS
    return Clash(values=((name, named[name]), ("numpy", numpy)), reason=reason)


def _driver(cell: Cell, driver: str) -> Answer:
    cuda = cuda_of(cell)
    least = dict(distributions.DRIVER_FLOOR).get(cuda.split(".")[0]) if cuda else None
    if cuda is None or least is None:
        return Said.SILENT
    if as_numbers(driver)[0] >= least:
        return Said.FITS
    reason = f"CUDA {cuda.split('.')[0]} needs a driver of release {least} or later"
    return Clash(values=(("driver", driver), ("cuda", cuda)), reason=reason)


EXTRA_RULES = (
    ExtraRule(
        name="torch-setuptools",
        subject="setuptools",
        fields=("torch",),
        instead="setuptools before 70, which is what a lock of this row takes",
        fact=documented("horovod #4051", "2026-11-20"),
        ask=_setuptools,
        says="PyTorch's build helpers import what later setuptools dropped",
    ),
    ExtraRule(
        name="framework-numpy",
        subject="numpy",
        fields=FRAMEWORKS,
        instead="an older numpy, which is what a lock of this row takes",
        fact=wheels.NUMPY_READ,
        ask=_numpy,
        says="MXNet uses what later numpy dropped; older wheels were compiled against numpy 1",
    ),
    ExtraRule(
        name="cuda-driver",
        subject="driver",
        fields=CUDA,
        instead="a host with a later driver, or an earlier CUDA",
        fact=distributions.NVIDIA_COMPAT,
        ask=_driver,
        says="each major release of CUDA has a lowest driver",
    ),
)
