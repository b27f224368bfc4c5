"""Versions as the probes saw them, under the names that the row gives them: to stand side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.benchmarks import nccl_tests
from stackwright.core.checks.check import numbers
from stackwright.core.checks.tables.declared import normal
from stackwright.core.components.table import BY_NAME, built, of
from stackwright.core.model.added.distributions import Compiled
from stackwright.core.model.labels import ALLOWED, PROVIDER
from stackwright.core.model.row import Stack
from stackwright.core.model.target import PLATFORMS
from stackwright.core.ofi.plugin import NAME
from stackwright.core.render.configuration import ENTRYPOINT

Facts = Mapping[str, Any]


def found(stack: Stack, facts: Facts) -> tuple[tuple[str, str], ...]:
    """(field, version) for every field that was read back; a field that was not is left out."""
    return tuple((name, value) for name, value in _all(stack, facts) if value)


def _all(stack: Stack, facts: Facts) -> Iterator[tuple[str, str | None]]:
    name, release = dig(facts, "system", "os", "ID"), dig(facts, "system", "os", "VERSION_ID")
    yield "os", f"{name}-{release}" if name else None
    yield "platform", _platform(stack, facts)
    yield "python", text(dig(facts, "system", "python", "version"))
    yield "gcc", text(dig(facts, "system", "gcc"))
    yield from _mpi(text(dig(facts, "system", "mpirun")) or "")
    packages = dig(facts, "system", "python_packages")
    versions = {normal(name): version for name, version in packages.items()} if packages else {}
    for component in of((*stack.frameworks, *stack.communication)):
        yield component.name, text(versions.get(component.package))
    for added in stack.pip:
        yield f"pip.{added.name}", text(versions.get(added.name))
    for tool in stack.tools:
        yield f"tools.{tool.name}.version", text(versions.get(BY_NAME[tool.name].package))
    for compiled in stack.compiled:
        yield f"compile.{compiled.name}.version", text(versions.get(compiled.name))
        yield from _of_source(compiled, dig(facts, "compiled", compiled.name, "note"))
    yield from _fabric(stack, facts)
    yield from _benchmarks(stack, facts)
    yield from _own(stack, facts)
    yield from _libraries(stack, facts)
    yield "cuda", _first(stack, facts, "compiled_by", "nvcc")
    yield "patches", _first(stack, facts, "compiled_by", "patches")
    labels = dig(facts, "labels") or dig(facts, "image", "Config", "Labels")
    yield "provider", text(dig(labels, PROVIDER))
    yield "allowed", text(dig(labels, ALLOWED))
    yield "flavour", None if not packages else "devel" if dig(facts, "system", "nvcc") else "runtime"
    yield "gpu_arch", " ".join(_architectures(facts)) or None


def _platform(stack: Stack, facts: Facts) -> str | None:
    """Of a row that names it: what the image's configuration says, and in a SIF what the kernel says."""
    if not stack.platform.named:
        return None
    said = dig(facts, "image", "Os"), dig(facts, "image", "Architecture")
    if all(said):
        return "/".join(map(str, said))
    machine = dig(facts, "system", "machine")
    return next((platform.name for platform in PLATFORMS.values() if platform.machine == machine), None)


def _fabric(stack: Stack, facts: Facts) -> Iterator[tuple[str, str | None]]:
    """Of a row with libfabric: what loads, and the release that the plugin says it is."""
    if not stack.plugin:
        return
    asked = (("verbs", dig(facts, "fabric"), "verbs"), ("ofi", dig(facts, "ofi", "libfabric"), "error"))
    loads = [name for name, said, error in asked if isinstance(said, Mapping) and said.get(error, "") is None]
    yield "fabric", " ".join(loads) or None
    yield NAME, text(dig(facts, "ofi", "plugin", "release"))


def _benchmarks(stack: Stack, facts: Facts) -> Iterator[tuple[str, str | None]]:
    """Of a row with nccl-tests: the release that each of its programs has."""
    every = [dig(facts, "benchmarks", name, "releases") or () for name in nccl_tests.PROGRAMS]
    if stack.nccl_tests:
        yield nccl_tests.NAME, " ".join(sorted(set.intersection(*map(set, every)))) or None


def _of_source(compiled: Compiled, note: Any) -> Iterator[tuple[str, str | None]]:
    """What the build noted in the wheel."""
    yield f"compile.{compiled.name}.sha256", text(dig(note, "source", "sha256"))
    for variable, _ in compiled.environment:
        found = text(dig(note, "environment", variable))
        yield f"compile.{compiled.name}.environment.{variable}", found


def _own(stack: Stack, facts: Facts) -> Iterator[tuple[str, str | None]]:
    """What the row adds besides Python packages, as far as an image names it."""
    for variable in stack.build_env:
        notes = [dig(facts, "compiled", source.name, "note", "environment") for source in stack.compiled]
        values = {text(dig(note, variable.name)) for note in notes}
        yield f"build-env.{variable.name}", values.pop() if len(values) == 1 else None
    for package in stack.apt:
        yield f"apt.{package.name}", text(dig(facts, "system", "distribution_packages", package.name))
    for variable in stack.env:
        yield f"env.{variable.name}", text(dig(facts, "system", "environment", variable.name))
    config = dig(facts, "image", "Config")
    words = dig(config, "Entrypoint") if stack.entrypoint else None
    yield "entrypoint", text(words[len(ENTRYPOINT) :]) if isinstance(words, list) else None
    yield "user", text(dig(config, "User")) if stack.user else None
    ports = dig(config, "ExposedPorts")
    ports = ports if isinstance(ports, Mapping) else {}
    yield "ports", " ".join(port for port in stack.ports if port in ports) or None
    for tool in stack.tools:
        yield f"tools.{tool.name}.port", str(tool.port) if tool.exposed in ports else None


def dig(facts: Any, *path: str) -> Any:
    """What lies at a path, or None: a probe that failed leaves less, or something else."""
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def text(value: Any) -> str | None:
    """A version, or several as one string; None for whatever else an image answered."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else None


def _first(stack: Stack, facts: Facts, *path: str) -> str | None:
    """The answer of the first that has one; that all agree is a check's to say."""
    answers = (text(dig(facts, "built", name, *path)) for name in built(stack))
    return next((answer for answer in answers if answer), None)


def _mpi(said: str) -> Iterator[tuple[str, str | None]]:
    version = re.search(r"(?:\(Open MPI\)|Version:)\s+(\d+(?:\.\d+)*)", said)
    flavours = {"Open MPI": "openmpi", "HYDRA": "mpich"}
    yield "mpi.flavour", next((name for mark, name in flavours.items() if mark in said), None)
    yield "mpi.version", version[1] if version else None


def _libraries(stack: Stack, facts: Facts) -> Iterator[tuple[str, str | None]]:
    """The package that owns the library which was really loaded names its version."""
    for field, library in (("cuda_runtime", "cudart"), ("cudnn", "cudnn"), ("nccl", "nccl")):
        owner = _first(stack, facts, "libraries", library, "owner") or ""
        yield field, owner.rpartition(" ")[2] or None


def _architectures(facts: Facts) -> list[str]:
    libraries = dig(facts, "link", "libraries")
    kernels = (dig(library, "kernels", "sm") for library in libraries.values()) if libraries else ()
    seen = {arch for archs in kernels if isinstance(archs, list) for arch in archs}
    return sorted(seen, key=numbers)
