"""TensorFlow: which wheels the package index has, what they were built for, and the rules about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from stackwright.core.components import torch
from stackwright.core.components.component import (
    Component,
    Document,
    Field,
    Headers,
    Kind,
    Limit,
    Place,
    Placed,
    columns,
)
from stackwright.core.components.shared.platforms import wheels_for
from stackwright.core.components.shared.wheel_rules import (
    built_for,
    compiler,
    gpu_code,
    named,
    python,
    release,
    rule,
    same_cuda,
)
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.gpu_code import Table
from stackwright.core.facts.provenance import documented, read, weakest
from stackwright.core.facts.wheels import INDEX, REQUIREMENTS, Wheels
from stackwright.core.model.row import Cell
from stackwright.core.model.target import ARM64
from stackwright.core.rules.derived import CUDA_FIELDS, GCC_FIELDS, gcc_of
from stackwright.core.rules.rule import About, Answer, Clash, Ruling

TESTED = documented(
    "TensorFlow, install/source: tested build configurations (tensorflow/docs 7c365021)", "2026-11-20"
)
TESTED_WITH = (
    # releases whose wheel says less of itself: the CUDA and the cuDNN that they were tested with (TESTED)
    ("1.12", "9.0", "7"),
    ("1.13", "10.0", "7.4"),
    ("1.15", "10.0", "7.4"),
    ("2.0", "10.0", "7.4"),
    ("2.2", "10.1", "7.6"),
)
SOURCE_ONLY = (
    # its releases, what they require: its wheels, if any, are for some releases of Python
    (">=2.4,<2.7", "termcolor~=1.1.0"),
    (">=2.6,<2.7", "clang~=5.0"),
    (">=2.12,<2.13", "jax>=0.3.15"),
    (">=2.14,<2.15", "tensorrt==8.5.3.1"),
)

NEW_ABI = "2.9"
"""The first TensorFlow whose wheels use the C++11 ABI (deepmodeling/deepmd-kit #1791)."""

OLD_COMPILER = "1.15"
"""TensorFlow before it was built by gcc 4.8; an extension needs a gcc before 5 (horovod #1483)."""

NUMPY = Limit(
    package="numpy", releases="<2.18", below="2",
    why="the wheel was compiled against numpy 1: import tensorflow raises an error",
    source="the wheels, installed and imported with numpy 2",
)  # fmt: skip
"""TensorFlow 2.12 to 2.17 state theirs; the others leave it to the resolver."""


def _describe(minor: str, value: Mapping[str, Any]) -> dict[str, Any]:
    tested = next(((cuda, cudnn) for release, cuda, cudnn in TESTED_WITH if release == minor), None)
    rest = {name: entry for name, entry in value.items() if name != "keras"}
    keras = {"takes": (("keras", value["keras"]),) if value.get("keras") else ()}
    return {**rest, **keras, **({"cuda": tested[0], "cudnn": tested[1]} if tested else {})}


WHEELS = Wheels.load("tensorflow", _describe, others=(ARM64,))
"""From 2.14 on ``tensorflow[and-cuda]`` requires CUDA's libraries; before 2.1 it is tensorflow-gpu."""
GPU_CODE = Table(
    wheels=WHEELS,
    ptx_is_both=True,  # tensorflow, configure.py
    fact=read(
        "the package index: cuda_compute_capabilities in tensorflow/python/platform/build_info.py",
        "2026-11-22",
    ),
)


def _requires(cell: Cell) -> tuple[str, ...]:
    version = str(cell.value("tensorflow"))
    extra = "[and-cuda]" if Version(version) >= Version("2.14") else ""
    return (f"tensorflow{extra}=={version}",)


# -- with PyTorch -----------------------------------------------------------------------------------


def _one_cuda(cell: Cell) -> Answer:
    of_torch, own = built_for(cell, torch.WHEELS), built_for(cell, WHEELS)
    if of_torch is None or own is None:
        return Ruling.SILENT
    if same_cuda(of_torch, own):
        return Ruling.FITS
    return Clash(
        values=(("tensorflow", str(cell.value("tensorflow"))), ("torch", str(cell.value("torch")))),
        reason="the wheels bring two CUDA releases into one image: "
        f"{own} for tensorflow, {of_torch} for torch",
    )


def _pins(cell: Cell) -> Answer:
    beside, own = named(cell, torch.WHEELS), named(cell, WHEELS)
    if beside is None or own is None or not beside[1].nccl or not own[1].cuda_needs:
        return Ruling.SILENT
    if "+" in beside[0]:  # another index than the one that the tables were read from
        return Ruling.SILENT
    brought, needs = beside[1], own[1]
    values = (("tensorflow", own[0]), ("torch", beside[0]))
    for what, version, allowed in (
        ("CUDA", brought.cuda, needs.cuda_needs),
        ("NCCL", brought.nccl, needs.nccl_needs),
    ):
        if not SpecifierSet(allowed).contains(version):
            reason = f"torch {beside[0]} pins {what} {version}, and tensorflow {own[0]} takes {allowed}"
            return Clash(values=values, reason=reason, fact=weakest(brought.fact, needs.fact))
    return Ruling.FITS


def _abi(cell: Cell) -> Answer:
    beside, own = named(cell, torch.WHEELS), named(cell, WHEELS)
    if beside is None or own is None:
        return Ruling.SILENT
    # before 2.1 the two extensions differ in their C++ standard, and each gets a Gloo of its own
    old = as_numbers("2.1") <= as_numbers(beside[0]) < as_numbers(torch.NEW_ABI)
    if not old or as_numbers(own[0]) < as_numbers(NEW_ABI):
        return Ruling.FITS
    return Clash(
        values=(("tensorflow", own[0]), ("torch", beside[0])),
        reason="torch's wheel has the old C++ ABI and tensorflow's the new one, "
        "and one Gloo is linked into both",
    )


# -- alone ------------------------------------------------------------------------------------------


def _gcc(cell: Cell) -> Answer:
    gcc, version = gcc_of(cell), cell.value("tensorflow")
    if version is None or gcc is None:
        return Ruling.SILENT
    if as_numbers(version) >= as_numbers(OLD_COMPILER) or as_numbers(gcc)[0] < 5:
        return Ruling.FITS
    reason = f"the wheel of tensorflow {version} was built by gcc 4.8, whose C++ ABI gcc 5 left"
    return Clash(values=(("tensorflow", version), ("gcc", gcc)), reason=reason)


def _source_only(cell: Cell) -> Answer:
    version = cell.value("tensorflow")
    if version is None:
        return Ruling.SILENT
    for releases, requirement in SOURCE_ONLY:
        entry = REQUIREMENTS[requirement]
        minor = ".".join(cell.python.split(".")[:2])
        if minor in entry.value or not SpecifierSet(releases).contains(version):
            continue
        also = (("python", cell.python),) if entry.value else ()
        here = f" for Python {minor}" if entry.value else ""
        reason = f"the package index has no wheel{here} of {requirement}, which it requires"
        return Clash(values=(("tensorflow", version), *also), reason=reason, fact=entry.fact)
    return Ruling.FITS


BOTH = ("platform", "torch", "tensorflow")

TENSORFLOW = Component(
    name="tensorflow",
    title="TensorFlow",
    kind=Kind.FRAMEWORK,
    package="tensorflow",
    license="Apache-2.0",
    field=Field(
        description="TensorFlow.", example="2.20.0", prefix="tf", cost=3.2, releases=WHEELS.newest
    ),
    aliases=(("tf", "2.20.0"),),
    indexed=(("tensorflow", "1.12"), ("tensorflow-gpu", "1.12")),
    called=(("horovod", "tensorflow"),),
    requires=_requires,
    leaves_cuda="<2.14",
    limits=(NUMPY,),
    wheels=WHEELS,
    gpu_code=GPU_CODE,
    hands_on_cuda="libtensorflow_",
    headers=(
        Headers(
            since="2.10", standard=17,
            fact=documented("horovod 0.28.1, docs/install.rst", "2026-11-20"),
        ),
    ),
    rules=(
        wheels_for(WHEELS),
        Placed(
            at=Place.INDEX + 20,
            rule=rule("tensorflow-python", ("platform", "tensorflow", "python"), INDEX, python(WHEELS),
                      "a wheel is for some releases of Python"),
        ),
        Placed(
            at=Place.INDEX + 30,
            rule=rule("one-cuda-wheels", BOTH,
                      documented(f"pytorch #186591; {INDEX.source}", "2026-11-20"), _one_cuda,
                      "the wheels bring one CUDA into the image"),
        ),
        Placed(
            at=Place.INDEX + 31,
            rule=rule("framework-pins", BOTH, INDEX, _pins, "what one wheel pins, the other takes"),
        ),
        gpu_code(GPU_CODE),
        Placed(
            at=Place.COMPILED + 2,
            rule=rule("tensorflow-cuda", (*CUDA_FIELDS, "tensorflow"), TESTED, compiler(WHEELS),
                      "nvcc is of the CUDA that TensorFlow loads"),
        ),
        Placed(
            at=Place.COMPILED + 20,
            rule=rule("abi-gloo", BOTH,
                      documented("horovod 0.28.1, third_party/compatible17_gloo", "2026-11-20"), _abi,
                      "extensions that share a Gloo share a C++ ABI"),
        ),
        Placed(
            at=Place.COMPILED + 21,
            rule=rule("tensorflow-gcc", (*GCC_FIELDS, "tensorflow"),
                      documented(f"horovod #1483; {TESTED.source}", "2026-11-20"), _gcc,
                      "an extension is compiled by a gcc of the wheel's C++ ABI"),
        ),
        Placed(
            at=Place.RELEASE + 50,
            rule=rule("tensorflow-wheels", ("tensorflow", "python"), INDEX, _source_only,
                      "a lock takes wheels alone, and so does what TensorFlow requires", about=About.RELEASE),
        ),
        release(Place.RELEASED, "tensorflow", ("tensorflow", "tensorflow-gpu")),
    ),
    documents=(
        Document(
            title="TensorFlow's wheels", file="tensorflow",
            headings=(
                "release", "Python", "CUDA", "cuDNN", "takes CUDA", "takes NCCL", "Keras", "manylinux",
                "GPU code",
            ),
            cells=columns("python", "cuda", "cudnn", "cuda_needs", "nccl_needs", "keras", "glibc", "code"),
            note=f"Source: {TESTED}.",
        ),
        Document(
            title=f"TensorFlow's wheels for {ARM64.name}", file=f"tensorflow{ARM64.suffix}",
            headings=("release", "Python", "CUDA", "manylinux"),
            cells=columns("python", "cuda", "glibc"),
        ),
        Document(headings=("releases", "tested with CUDA", "with cuDNN"), rows=TESTED_WITH),
        Document(headings=("releases", "require"), rows=SOURCE_ONLY),
    ),
    tested=(TESTED,),
)  # fmt: skip
