"""PyTorch: which wheels the package index has, what they were built for, and the rules about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    compiler,
    gpu_code,
    named,
    python,
    release,
    rule,
)
from stackwright.core.facts import distributions, wheels
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.gpu_code import Table
from stackwright.core.facts.provenance import documented, read, unchecked
from stackwright.core.facts.wheels import INDEX, Wheels
from stackwright.core.model.row import Cell
from stackwright.core.model.target import AMD64, ARM64
from stackwright.core.rules.derived import CUDA_FIELDS
from stackwright.core.rules.rule import About, Answer, Clash, ExtraRule, Ruling

PREVIOUS = documented(
    "PyTorch, get-started/previous-versions (pytorch.github.io); for 1.3: horovod v0.18.2, Dockerfile.gpu",
    "2026-11-20",
)
LATER_BUILDS = unchecked("the builds of PyTorch 2.1 and later on PyTorch's own index", "2026-11-20")

BUILDS = (
    # releases, the CUDA releases of its builds with a suffix, how that is known
    ("1.0", "8.0 10.0", PREVIOUS),
    ("1.1", "10.0", PREVIOUS),
    ("1.2", "9.2", PREVIOUS),
    ("1.3", "9.2 10.0", PREVIOUS),
    ("1.4", "9.2", PREVIOUS),
    ("1.5", "9.2 10.1", PREVIOUS),
    ("1.6", "9.2 10.1", PREVIOUS),
    ("1.7", "9.2 10.1 11.0", PREVIOUS),
    ("1.8", "10.1 11.1", PREVIOUS),
    ("1.9", "11.1", PREVIOUS),
    ("1.10", "11.1 11.3", PREVIOUS),
    ("1.11", "11.3 11.5", unchecked("the build of PyTorch 1.11 for CUDA 11.5", "2026-11-20")),
    ("1.12", "11.3 11.6", PREVIOUS),
    ("1.13", "11.6", PREVIOUS),
    ("2.0", "11.8", PREVIOUS),
    ("2.1", "11.8", LATER_BUILDS),
    ("2.2", "11.8", LATER_BUILDS),
    ("2.3", "11.8", LATER_BUILDS),
    ("2.4", "11.8 12.4", LATER_BUILDS),
    ("2.5", "11.8 12.1", LATER_BUILDS),
    ("2.6", "11.8 12.6", LATER_BUILDS),
    ("2.7", "11.8 12.8", LATER_BUILDS),
    ("2.8", "12.6 12.9", LATER_BUILDS),
    ("2.9", "12.6 13.0", LATER_BUILDS),
)
BUILD_FACTS = {minor: fact for minor, _, fact in BUILDS}

NEW_ABI = "2.7"
"""The first PyTorch whose wheels on the index use the C++11 ABI."""

SETUPTOOLS = Limit(
    package="setuptools", releases="<2.1", below="70",
    why="torch before 2.1 imports pkg_resources.packaging, which setuptools 70 dropped: Horovod's build then "
    "reads torch as one without CUDA",
    source="horovod #4051",
)  # fmt: skip
NUMPY = Limit(
    package="numpy", releases="<2.3", below="2",
    why='the wheel was compiled against numpy 1: it says "Numpy is not available"',
    source="the wheels, installed and imported with numpy 2",
)  # fmt: skip


def _describe(minor: str, value: Mapping[str, Any]) -> dict[str, Any]:
    builds = next((builds for release, builds, _ in BUILDS if release == minor), "")
    cudnn, nccl = value["cudnn"], value["nccl"]
    return {
        **value,
        "builds": tuple(builds.split()),
        "cuda_needs": f"=={value['cuda']}" if cudnn else "",
        "nccl_needs": f"=={nccl}" if nccl else "",
    }


WHEELS = Wheels.load("torch", _describe, others=(ARM64,))
GPU_CODE = Table(
    wheels=WHEELS,
    ptx_is_both=False,
    fact=read(
        "the package index: the architectures that libtorch_python.so names, as torch.cuda.get_arch_list() "
        "gives them",
        "2026-11-22",
    ),
)


def _build(cell: Cell) -> Answer:
    found = named(cell, WHEELS)
    suffix = wheels.build(found[0]) if found else None
    if found is None or suffix is None or not found[1].builds:
        return Ruling.SILENT
    version, entry = found
    if suffix in (entry.cuda, *entry.builds):
        return Ruling.FITS
    reason = f"torch {version.split('+')[0]} was built for CUDA {', '.join((entry.cuda, *entry.builds))}"
    fact = BUILD_FACTS[wheels.minor(version)]
    return Clash(values=(("torch", version),), reason=reason, fact=fact)


def _own_cuda(cell: Cell) -> Answer:
    version = cell.value("torch")
    if version is None:
        return Ruling.SILENT
    entry = WHEELS.on(cell.platform).of(version)
    if entry is None or not entry.own_cuda:
        return Ruling.FITS if entry else Ruling.SILENT
    reason = (
        f"the wheel of torch {version} holds a CUDA runtime or an NCCL of its own, "
        "in addition to those that Horovod is linked against"
    )
    return Clash(values=(("torch", version),), reason=reason, fact=entry.fact)


def _elsewhere(written: str) -> str:
    """PyTorch has an index of its own, with a folder for each suffix."""
    public, _, suffix = written.partition("+")
    cuda, own = wheels.build(written), WHEELS.of(public)
    same = [entry.newest for entry in WHEELS.entries if entry.cuda == cuda]
    instead = f"the package index has {public} for CUDA {own.cuda if own else 'an unknown release'}"
    if same:
        instead = f"on the package index torch {same[-1]} is for CUDA {cuda}"
    return (
        f"the build +{suffix} is not on the package index but on PyTorch's own, in "
        f"its folder whl/{suffix}: a site that names it as extra-index-url can lock the row; {instead}"
    )


def _setuptools(cell: Cell, setuptools: str) -> Answer:
    version = cell.value("torch")
    if version is None:
        return Ruling.SILENT
    if SETUPTOOLS.holds(version) and as_numbers(setuptools) >= as_numbers(SETUPTOOLS.below):
        values = (("torch", version), ("setuptools", setuptools))
        return Clash(values=values, reason=SETUPTOOLS.why)
    return Ruling.FITS


HOST_RULE = ExtraRule(
    name="torch-setuptools",
    subject="setuptools",
    fields=("torch",),
    instead="setuptools before 70, which is what a lock of this row takes",
    fact=documented("horovod #4051", "2026-11-20"),
    ask=_setuptools,
    says="PyTorch's build helpers import what later setuptools dropped",
)

TORCH = Component(
    name="torch",
    title="PyTorch",
    kind=Kind.FRAMEWORK,
    package="torch",
    companions=("triton",),
    license="BSD-3-Clause",
    field=Field(
        description="PyTorch.", example="2.6.0", prefix="torch", cost=3.1, releases=WHEELS.newest
    ),
    aliases=(("pytorch", "2.8.0"),),
    indexed=(("torch", "1.0"),),
    called=(("horovod", "pytorch"),),
    requires=lambda cell: (f"torch=={cell.value('torch')}",),
    leaves_cuda="<2.0",
    limits=(NUMPY, SETUPTOOLS),
    wheels=WHEELS,
    gpu_code=GPU_CODE,
    compiles="torch.compile",
    headers=(
        Headers(
            since="1.5", standard=14,
            fact=documented("horovod 0.28.1, horovod/torch/CMakeLists.txt", "2026-11-20"),
        ),
        Headers(since="2.1", standard=17, fact=documented("horovod master 3a31d933 (#3998)", "2026-11-20")),
        Headers(since="2.14", standard=20, fact=documented("pytorch #178150", "2026-11-20")),
    ),
    oldest_gcc=(
        ("2.2", 9,
         read("c10/util/C++17.h of the wheels of 2.2 to 2.11: #error below gcc 9", "2026-11-22")),
    ),
    rules=(
        wheels_for(WHEELS),
        Placed(
            at=Place.INDEX + 20,
            rule=rule("torch-python", ("platform", "torch", "python"), INDEX, python(WHEELS),
                      "a wheel is for some releases of Python"),
        ),
        gpu_code(GPU_CODE),
        Placed(
            at=Place.COMPILED,
            rule=rule("torch-build", ("platform", "torch"), PREVIOUS, _build,
                      "PyTorch was built for some releases of CUDA"),
        ),
        Placed(
            at=Place.COMPILED + 1,
            rule=rule(
                "torch-cuda", (*CUDA_FIELDS, "torch"),
                documented(f"{distributions.NVIDIA_COMPAT.source}; {INDEX.source}", "2026-11-20"),
                compiler(WHEELS), "nvcc is of the CUDA that PyTorch loads",
            ),
        ),
        Placed(
            at=Place.RELEASE + 30,
            rule=rule("torch-own-cuda", ("platform", "torch"), INDEX, _own_cuda,
                      "one CUDA runtime and one NCCL are in the image", about=About.RELEASE),
        ),
        release(Place.RELEASED, "torch", ("torch",), elsewhere=_elsewhere),
    ),
    host_rules=(HOST_RULE,),
    documents=(
        *(
            Document(
                title=f"PyTorch's wheels{for_platform}", file=f"torch{platform.suffix}",
                headings=(
                    "release", "Python", "CUDA", "cuDNN", "NCCL", "manylinux", "holds CUDA", "GPU code",
                ),
                cells=columns("python", "cuda", "cudnn", "nccl", "glibc", "own_cuda", "code"),
            )
            for platform, for_platform in ((AMD64, ""), (ARM64, f" for {ARM64.name}"))
        ),
        Document(headings=("releases", "builds for other releases of CUDA", "source"), rows=BUILDS),
    ),
    facts=tuple(fact for _, _, fact in BUILDS),
)  # fmt: skip
