"""Checks of JAX: its parts are of one release, its plugin is for the row's CUDA, and knows of GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stackwright.core.checks.check import Facts, Finding, NotAsked, Rule, finding, listed, numbers, take
from stackwright.core.components.jax.facts import LAUNCHERS, WITHOUT_GPU
from stackwright.core.model.row import Stack, Tier

NAME = "jax"
NVCC = re.compile(r"nvidia-cuda-nvcc(-cu\d+)?")
"""The wheel that has ptxas."""
RUNS = tuple(f"{NAME}/{launcher}" for launcher in LAUNCHERS)


def _built(facts: Facts, *path: str) -> Any:
    return take(facts, "built", NAME, *path)


def parts(stack: Stack, facts: Facts) -> Finding:
    """JAX leaves a plugin of another release out, warns, and trains on the CPU."""
    version = dict(stack.communication)[NAME]
    major = stack.cuda_runtime.split(".")[0]
    found: Mapping[str, str | None] = _built(facts, "parts")
    wanted = ("jax", "jaxlib", f"jax-cuda{major}-plugin", f"jax-cuda{major}-pjrt")
    problems = [
        f"{name} is {found.get(name) or 'absent'}, and the row's JAX is {version}"
        for name in wanted
        if found.get(name) != version
    ]
    problems += [f"{name} {found[name]} is of another CUDA" for name in found if name not in wanted]
    return finding(problems, f"{listed(wanted)} are {version}")


def libraries(stack: Stack, facts: Facts) -> Finding:
    """By its own answers: where a library is too old, JAX leaves its plugin out and trains on the CPU."""
    found: Mapping[str, Mapping[str, Any]] = _built(facts, "asks")
    problems = [
        f"JAX asks for {name}: {library['error']}" for name, library in found.items() if library["error"]
    ]
    if problems:
        return finding(problems)
    cuda, cudnn = found["CUDA runtime"], found["cuDNN"]
    made, loads = cuda["built"] // 1000, cuda["loads"] // 1000  # CUDART_VERSION
    if made != loads:
        problems.append(f"JAX's plugin was built with CUDA {made}, and loads CUDA {loads}")
    if cudnn["loads"] < cudnn["built"]:
        problems.append(f"JAX's plugin was built with cuDNN {cudnn['built']}, and loads {cudnn['loads']}")
    return finding(problems, ", ".join(f"{name} {library['loads']}" for name, library in found.items()))


def compiler(stack: Stack, facts: Facts) -> Finding:
    """Its release is that of the wheel that the lock names; JAX also finds a compiler of the host."""
    if not stack.lock.packages:
        raise NotAsked("the lock of the row is not known, which names the wheel")
    found = _built(facts, "compiler")
    wheel = next((package.version for package in stack.lock.packages if NVCC.fullmatch(package.name)), "")
    problems = [f"JAX starts no ptxas: {found['error']}"] if found["error"] else []
    if not problems and numbers(str(found["release"])) != numbers(wheel)[:2]:
        problems.append(
            f"JAX compiles with ptxas of CUDA {found['release']}, and the lock has {wheel or 'none'}"
        )
    problems += [] if found["libdevice"] else ["JAX finds no libdevice.10.bc, which XLA links"]
    return finding(problems, f"{found['path']}: CUDA {found['release']}")


def backend(stack: Stack, facts: Facts) -> Finding:
    """Without a GPU the plugin has to refuse for that reason: any other says that it is not there."""
    said = _built(facts, "cuda_without_gpu")
    if said is None:
        return finding(["its plugin for CUDA started without a GPU"])
    refused = any(words in str(said) for words in WITHOUT_GPU)
    return finding([] if refused else [f"its plugin for CUDA says: {said}"], str(said))


IMPORTED = ("link.import", "link.origin")
RULES = (
    Rule(id="jax.parts", tier=Tier.BUILT, judge=parts, needs=IMPORTED,
         why="JAX, its library and its plugin for the row's CUDA are of one release, or it takes the CPU."),
    Rule(id="jax.libraries", tier=Tier.BUILT, judge=libraries, needs=(*IMPORTED, "jax.parts"),
         why="JAX finds CUDA's libraries, of the CUDA and with the cuDNN that its plugin was built for."),
    Rule(id="jax.cuda-backend", tier=Tier.BUILT, judge=backend, needs=(*IMPORTED, "jax.parts"),
         why="The plugin for CUDA starts: without a GPU it refuses, and says that this is the reason."),
    Rule(id="jax.compiler", tier=Tier.BUILT, judge=compiler, needs=IMPORTED,
         why="XLA compiles for each GPU that it runs on, with the ptxas that the lock names."),
)  # fmt: skip
