"""Rules about what is no field of a row: the host's driver, and packages that the lock chooses."""

from __future__ import annotations

from stackwright.model import Cell
from stackwright.rules import Answer, Clash, ExtraRule, Said, tables, wheels
from stackwright.rules.compiler import CUDA, cuda_of
from stackwright.rules.frameworks import NUMPY
from stackwright.rules.provenance import documented
from stackwright.rules.tables import as_numbers


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
    if cell.mxnet is None:
        return Said.SILENT
    if as_numbers(numpy) < as_numbers(wheels.MXNET_NUMPY):
        return Said.FITS
    reason = f"mxnet uses numpy.bool, which numpy {wheels.MXNET_NUMPY} dropped"
    return Clash(values=(("mxnet", cell.mxnet), ("numpy", numpy)), reason=reason)


def _driver(cell: Cell, driver: str) -> Answer:
    cuda = cuda_of(cell)
    least = dict(tables.DRIVER_FLOOR).get(cuda.split(".")[0]) if cuda else None
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
        name="mxnet-numpy",
        subject="numpy",
        fields=("mxnet",),
        instead=f"numpy before {wheels.MXNET_NUMPY}, which is what a lock of this row takes",
        fact=NUMPY,
        ask=_numpy,
        says="MXNet uses what later numpy dropped",
    ),
    ExtraRule(
        name="cuda-driver",
        subject="driver",
        fields=CUDA,
        instead="a host with a later driver, or an earlier CUDA",
        fact=tables.NVIDIA_COMPAT,
        ask=_driver,
        says="each major release of CUDA has a lowest driver",
    ),
)
