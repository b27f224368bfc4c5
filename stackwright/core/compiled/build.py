"""How distributions are compiled for an image: files of the context, keys of wheels, values of templates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from stackwright.core.model.added.distributions import Compiled
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.row import Stack
from stackwright.core.render.sources import Sources
from stackwright.core.resolve.lockfile import added_pins, blocks, builder_pins, compiled_pins

SCRIPT = "scripts/build-distribution.sh"
FOLDER = "compile"
"""In the context: the script, and a folder for each distribution."""
TOOLS = ("ninja-build",)
"""Packages of the distribution with which sources are compiled, besides those that compile everything."""


def context(stack: Stack, sources: Sources) -> dict[str, bytes]:
    """Return what a Dockerfile and a definition file take from their folder to compile."""
    if not stack.compiled:
        return {}
    of_source = blocks(compiled_pins(stack.lock))
    return {
        f"{FOLDER}/build-distribution.sh": dict(sources.files)[SCRIPT],
        **{
            f"{FOLDER}/{package.name}/source.txt": of_source[package.name].encode()
            for package in stack.compiled
        },
        **{
            f"{FOLDER}/{package.name}/needs.txt": "".join(_needs(package, stack)).encode()
            for package in stack.compiled
        },
        **{f"{FOLDER}/{package.name}/env.txt": _environment(package).encode() for package in stack.compiled},
    }


def _needs(compiled: Compiled, stack: Stack) -> Iterator[str]:
    """Yield pins with hashes of what it is compiled with and the frameworks' environment does not have."""
    pins = blocks(added_pins(stack.lock)) | blocks(builder_pins(stack.lock))
    yield from (pins[name] for name in compiled.needs if name in pins)


def _environment(compiled: Compiled) -> str:
    return "".join(f"{name}={value}\n" for name, value in compiled.environment)


def values(stack: Stack, sources: Sources) -> dict[str, Any]:
    """Return what the templates name."""
    return {
        "compiled": tuple((package, key(package, stack, sources)) for package in stack.compiled),
        "compile_tools": TOOLS,
        "arch_list": ";".join(sorted(stack.gpu_arch, key=lambda arch: tuple(map(int, arch.split("."))))),
    }


def key(compiled: Compiled, stack: Stack, sources: Sources) -> str:
    """Return the digest of all that the wheel depends on: 64 hexadecimal digits.

    Two images with other packages around the same frameworks share one wheel.
    """
    versions = {package.name: package.version for package in (*stack.lock.packages, *stack.lock.builders)}
    parts = {
        "source": [compiled.name, compiled.version, compiled.sha256],
        "environment": compiled.environment,
        "needs": {name: versions[name] for name in compiled.needs},
        "script": hashlib.sha256(dict(sources.files)[SCRIPT]).hexdigest(),
        "frameworks": stack.frameworks,
        "cuda": [stack.cuda, stack.cuda_runtime, [asdict(package) for package in stack.lock.toolchain]],
        "nccl": stack.nccl,
        "cudnn": stack.cudnn,
        "mpi": asdict(stack.mpi),
        "gcc": stack.gcc,
        "python": stack.python,
        "os": stack.os,
        "gpu_arch": stack.gpu_arch,
        "cpu_flags": stack.platform.cpu_flags,
        "source_date_epoch": EPOCH,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
