"""Apache MXNet: which wheels the package index has, what they were built for, and the rules about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackwright.core.components.component import Component, Document, Field, Kind, Limit, Place, Placed
from stackwright.core.components.shared.platforms import wheels_for
from stackwright.core.components.shared.wheel_rules import named, release, rule, same_cuda
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import documented
from stackwright.core.facts.wheels import INDEX, Wheels
from stackwright.core.model.row import Cell
from stackwright.core.rules.derived import CUDA_FIELDS, cuda_of
from stackwright.core.rules.rule import Answer, Clash, Ruling

NUMPY = Limit(
    package="numpy", releases="", below="1.24", why="mxnet uses numpy.bool, which numpy 1.24 dropped",
    source="apache/mxnet: numpy.bool",
)  # fmt: skip
"""The last numpy before it has wheels up to Python 3.11."""
NUMPY_FACT = documented("apache/mxnet: numpy.bool; the package index: numpy 1.23.5", "2026-11-20")

WITHOUT_HEADERS = ("1.5.1", "1.6.0", "1.7.0", "1.7.0.post1")
"""These wheels lack the MKLDNN headers that Horovod's extension includes."""

PACKAGE = "mxnet-cu112"
"""The last build that the index has, and what a lock asks for."""
INDEXED = tuple(f"mxnet-cu{cuda}" for cuda in ("90", "92", "100", "101", "102", "110", "112"))


def _describe(minor: str, value: Mapping[str, Any]) -> dict[str, Any]:
    builds = tuple(value["builds"])
    return {"python": value["python"], "builds": builds, "cuda": builds[-1]}


WHEELS = Wheels.load("mxnet", _describe)


def _cuda(cell: Cell) -> Answer:
    found, cuda = named(cell, WHEELS), cuda_of(cell)
    if found is None or cuda is None:
        return Ruling.SILENT
    version, entry = found
    if any(same_cuda(build, cuda) for build in entry.builds):
        return Ruling.FITS
    reason = (
        f"mxnet {version} has wheels for CUDA {', '.join(entry.builds)}; none was ever made for 12 or later"
    )
    return Clash(values=(("mxnet", version), ("cuda", cuda)), reason=reason, fact=entry.fact)


def _python(cell: Cell) -> Answer:
    """Its wheels are for every Python; its numpy is not."""
    found = named(cell, WHEELS)
    if found is None:
        return Ruling.SILENT
    version, entry = found
    first, last = entry.python
    if as_numbers(first) <= as_numbers(cell.python) <= as_numbers(last):
        return Ruling.FITS
    reason = f"mxnet {version} has wheels for Python {first} to {last}"
    if as_numbers(cell.python) > as_numbers(last):
        reason = f"mxnet needs numpy before {NUMPY.below}, which has wheels up to Python {last}"
    values = (("mxnet", version), ("python", cell.python))
    return Clash(values=values, reason=reason, fact=NUMPY_FACT)


def _headers(cell: Cell) -> Answer:
    version = cell.value("mxnet")
    if version is None:
        return Ruling.SILENT
    if version not in WITHOUT_HEADERS:
        return Ruling.FITS
    reason = "this wheel lacks the MKLDNN headers that Horovod includes; the .post0 of the release has them"
    return Clash(values=(("mxnet", version),), reason=reason)


MXNET = Component(
    name="mxnet",
    title="MXNet",
    kind=Kind.FRAMEWORK,
    package=PACKAGE,
    license="Apache-2.0",
    field=Field(
        description="Apache MXNet.", example="1.9.1", prefix="mxnet", cost=3.3, releases=WHEELS.newest
    ),
    indexed=tuple((package, "1.4") for package in INDEXED),
    called=(("horovod", "mxnet"),),
    requires=lambda cell: (f"{PACKAGE}=={cell.value('mxnet')}",),
    leaves_cuda="",
    limits=(NUMPY,),
    wheels=WHEELS,
    documents=(
        Document(
            title="MXNet's wheels", file="mxnet",
            headings=("release", "CUDA", "Python of its numpy", "numpy"),
            cells=lambda value: (" ".join(value["builds"]), value["python"], value["numpy"]),
        ),
    ),
    rules=(
        wheels_for(WHEELS),
        Placed(
            at=Place.INDEX + 10,
            rule=rule("mxnet-cuda", (*CUDA_FIELDS, "mxnet"), INDEX, _cuda, "MXNet's wheels end with CUDA 11"),
        ),
        Placed(
            at=Place.INDEX + 20,
            rule=rule("mxnet-python", ("platform", "mxnet", "python"), NUMPY_FACT, _python,
                      "MXNet's numpy is for some releases of Python"),
        ),
        Placed(
            at=Place.COMPILED + 30,
            rule=rule("mxnet-headers", ("mxnet",),
                      documented("horovod 0.28.1, docs/install.rst", "2026-11-20"), _headers,
                      "the wheel holds the headers that Horovod includes"),
        ),
        release(Place.RELEASED + 10, "mxnet", INDEXED, fields=CUDA_FIELDS, for_cuda={11: (PACKAGE,)}),
    ),
)  # fmt: skip
