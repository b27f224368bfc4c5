"""Checks of the CUDA runtime, cuDNN and NCCL that the row's layers load: the row's, of its wheels.

Of every extension that is compiled for a layer, and of every layer that says itself what it loads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, numbers, take
from stackwright.core.components.table import built, title
from stackwright.core.model.row import Stack, Tier

LAZY = {"cudnn": ("tensorflow",)}
"""Library -> frameworks that load it when they first use a GPU (tsl/cuda/cudnn_stub.cc)."""


def per_layer(stack: Stack, facts: Facts, *path: str) -> dict[str, Any]:
    """A fact of the probe ``built``, by what was asked."""
    return {name: take(facts, "built", name, *path) for name in built(stack)}


def loads(stack: Stack) -> bool:
    return bool(built(stack))


def _library(
    what: str, name: str, decode: Callable[[int], tuple[int, ...]], wanted: Callable[[Stack], str]
) -> Callable[[Stack, Facts], Finding]:
    """A library's own answer against the row's, and the wheel that brought it against both.

    It has to be the file that the wheel brought: what states the right version can still be another. One that
    does not say its version without a driver is known by its wheel.
    """

    def judge(stack: Stack, facts: Facts) -> Finding:
        problems, seen = [], set()
        for layer, found in per_layer(stack, facts, "libraries", name).items():
            if found is None and layer in LAZY.get(name, ()):
                seen.add(f"{title(stack, layer)} loads {what} with the first use of a GPU")
                continue
            if found is None:
                problems.append(f"{title(stack, layer)} loads no {what}")
                continue
            if not found["owner"]:
                problems.append(f"{title(stack, layer)} loads {found['path']}, which no wheel brought")
                continue
            if not found["intact"]:
                problems.append(f"{found['path']} is not as {found['owner']} brought it")
                continue
            wheel = found["owner"].rpartition(" ")[2]
            row = numbers(wanted(stack))
            version = numbers(wheel) if found["version"] is None else decode(found["version"])
            shown = ".".join(str(part) for part in version)
            seen.add(shown)
            if version[: len(row)] != row[: len(version)]:
                problems.append(
                    f"the row declares {what} {wanted(stack)}, {title(stack, layer)} loads {shown}"
                )
            if numbers(wheel)[: len(row)] != row:
                problems.append(f"the row declares {what} {wanted(stack)}, the file is of {found['owner']}")
        return finding(problems, listed(sorted(seen)))

    return judge


def cuda_version(code: int) -> tuple[int, ...]:
    """CUDART_VERSION: 12040 is 12.4."""
    return code // 1000, code % 1000 // 10


def cudnn_version(code: int) -> tuple[int, ...]:
    """CUDNN_VERSION: 90100 is 9.1.0; before cuDNN 9 the major counts thousands, 8902 is 8.9.2."""
    if code >= 90000:
        return code // 10000, code % 10000 // 100, code % 100
    return code // 1000, code % 1000 // 100, code % 100


def nccl_version(code: int) -> tuple[int, ...]:
    """NCCL_VERSION_CODE: 22105 is 2.21.5; before 2.9 the major counts thousands, 2708 is 2.7.8."""
    if code >= 10000:
        return code // 10000, code % 10000 // 100, code % 100
    return code // 1000, code % 1000 // 100, code % 100


B = Tier.BUILT
IMPORTED = ("link.import", "link.origin")
RULES = (
    Rule(id="declared.cuda-runtime", tier=B, needs=IMPORTED, applies=loads,
         judge=_library("CUDA runtime", "cudart", cuda_version, lambda stack: stack.cuda_runtime),
         why="The CUDA runtime that each layer loads is the row's."),
    Rule(id="declared.cudnn", tier=B, needs=IMPORTED, applies=loads,
         judge=_library("cuDNN", "cudnn", cudnn_version, lambda stack: stack.cudnn),
         why="The cuDNN that the framework loads is the row's."),
    Rule(id="declared.nccl", tier=B, needs=IMPORTED, applies=loads,
         judge=_library("NCCL", "nccl", nccl_version, lambda stack: stack.nccl),
         why="The NCCL that each layer loads is the row's."),
)  # fmt: skip
