"""JAX: a framework with collectives of its own, as a layer of a row, and its plugin for CUDA."""

from __future__ import annotations

from stackwright.core.components.component import Advice, Component, Document, Field, Kind
from stackwright.core.components.jax import checks, facts, rules
from stackwright.core.model.row import Cell, Stack, Tier
from stackwright.core.model.target import AMD64, ARM64
from stackwright.core.rules.derived import nvcc_in_wheels

COMPILER = ("nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-nvvm")
"""What its plugin compiles with at run time, in wheels: of the row's CUDA, where the index has that."""
MAJORS = ("12", "13")
"""Of CUDA."""


def requires(cell: Cell) -> tuple[str, ...]:
    release = nvcc_in_wheels(cell)
    compiler = tuple(f"{name}=={release}.*" for name in COMPILER) if release else ()
    return (f"jax[cuda{facts.major_of(cell) or MAJORS[-1]}]=={cell.value('jax')}", *compiler)


def words(stack: Stack, gpus: int) -> dict[Tier, tuple[str, ...]]:
    return {
        Tier.BUILT: (f"built={checks.NAME}",),
        Tier.COLLECTIVE: tuple(f"collective={run}" for run in checks.RUNS),
        Tier.GPU: (f"gpu={checks.NAME}/{gpus}",) if gpus else (),
    }


def _of_plugins(value: dict[str, dict[str, dict[str, str]]]) -> tuple[object, ...]:
    """Two columns of all, and four of each plugin."""
    plugins = (value["plugins"].get(major, {}) for major in MAJORS)
    names = ("cuda", "cudnn", "nccl", "code")
    return (value["python"], value["glibc"], *(plugin.get(name, "") for plugin in plugins for name in names))


ADVICE = (
    Advice(
        when=(("jax", ">=0"),),
        then="set JAX_PLATFORMS=cpu where there is no driver, and before JAX 0.10 also "
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1: before JAX takes its plugin it asks CUPTI for "
        "its release, and that of CUDA 13.2 ends the process",
        fact=facts.WITHOUT_DRIVER,
    ),
    Advice(
        when=(("jax", ">=0"), ("torch", ">=0")),
        then="set XLA_PYTHON_CLIENT_PREALLOCATE=false where one process uses both: JAX takes three quarters "
        "of the memory of each GPU when it first uses it",
        fact=facts.SHARED_GPU,
    ),
)

JAX = Component(
    name=checks.NAME,
    title="JAX",
    kind=Kind.COMMUNICATION,
    package="jax",
    companions=(
        "jaxlib", *(f"jax-cuda{major}-{part}" for major in MAJORS for part in ("plugin", "pjrt"))
    ),
    license="Apache-2.0",
    source="https://github.com/jax-ml/jax",
    field=Field(
        description="JAX, with its plugin for the row's CUDA.", example="0.12.0.1", prefix="jax", cost=2.1,
        releases=facts.WHEELS.newest,
    ),
    aliases=(("jaxlib", "0.12.0.1"),),
    indexed=(("jax", "0.7"),),
    requires=requires,
    wheels=facts.WHEELS,
    imports=lambda stack: ("jax",),
    words=words,
    runs=lambda stack: checks.RUNS,
    joins=lambda stack: "jax",
    examples=lambda stack: (checks.NAME,),
    checks=checks.RULES,
    rules=rules.RULES,
    lock_rules=rules.LOCK_RULES,
    advice=ADVICE,
    documents=tuple(
        Document(
            title=f"JAX's plugins for CUDA{for_platform}", file=f"jax{platform.suffix}",
            headings=(
                "release", "Python", "manylinux",
                *(f"{name} (CUDA {major})" for major in MAJORS
                  for name in ("takes CUDA", "takes cuDNN", "takes NCCL", "GPU code")),
            ),
            cells=_of_plugins,
        )
        for platform, for_platform in ((AMD64, ""), (ARM64, f" on {ARM64.name}"))
    ),
    facts=(facts.PARTS, facts.LOADS),
)  # fmt: skip
