"""Versions as the probes saw them, under the names that the row gives them: to stand side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.checks.declared import normal
from stackwright.checks.static import PROVIDER_LABEL
from stackwright.model import Stack
from stackwright.resolve import PACKAGE_OF

Facts = Mapping[str, Any]


def found(stack: Stack, facts: Facts) -> tuple[tuple[str, str], ...]:
    """(field, version) for every field that was read back; a field that was not is left out."""
    return tuple((name, value) for name, value in _all(stack, facts) if value)


def _all(stack: Stack, facts: Facts) -> Iterator[tuple[str, str | None]]:
    system = facts.get("system", {})
    release = system.get("os", {})
    yield "os", f"{release.get('ID')}-{release.get('VERSION_ID')}" if release else None
    yield "python", system.get("python", {}).get("version")
    yield "gcc", system.get("gcc")
    yield from _mpi(system.get("mpirun") or "")
    packages = {normal(name): version for name, version in system.get("python_packages", {}).items()}
    for module in (*stack.modules, "horovod"):
        yield module, packages.get(PACKAGE_OF.get(module, module))
    yield from _libraries(facts)
    yield from _compiled_by(facts)
    labels = facts.get("labels") or facts.get("image", {}).get("Config", {}).get("Labels") or {}
    yield "provider", labels.get(PROVIDER_LABEL)
    yield "flavour", None if not system else "devel" if system.get("nvcc") else "runtime"
    yield "gpu_arch", " ".join(_architectures(facts)) or None


def _compiled_by(facts: Facts) -> Iterator[tuple[str, str | None]]:
    for extension in facts.get("built", {}).values():
        noted = extension.get("compiled_by") or {}
        yield "cuda", noted.get("nvcc")
        yield "patches", " ".join(noted.get("patches", ())) or None
        return


def _mpi(text: str) -> Iterator[tuple[str, str | None]]:
    version = re.search(r"(?:\(Open MPI\)|Version:)\s+(\d+(?:\.\d+)*)", text)
    flavours = {"Open MPI": "openmpi", "HYDRA": "mpich"}
    yield "mpi.flavour", next((name for mark, name in flavours.items() if mark in text), None)
    yield "mpi.version", version[1] if version else None


def _libraries(facts: Facts) -> Iterator[tuple[str, str | None]]:
    """The package that owns the library which the extension really loaded names its version."""
    for extension in facts.get("built", {}).values():
        for field, library in (("cuda_runtime", "cudart"), ("cudnn", "cudnn"), ("nccl", "nccl")):
            owner = extension.get("libraries", {}).get(library, {}).get("owner") or ""
            yield field, owner.split()[-1] if owner else None
        return


def _architectures(facts: Facts) -> list[str]:
    libraries = facts.get("link", {}).get("libraries", {}).values()
    seen = {arch for library in libraries for arch in library.get("kernels", {}).get("sm", ())}
    return sorted(seen, key=float)
