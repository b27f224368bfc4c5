"""Two images of one row by their facts: what of a difference is explained, and what is not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stackwright.core.model.target import CUDA

COMPARED = (
    "system/os", "system/machine", "system/python", "system/programs", "system/gcc", "system/g++",
    "system/mpirun", "system/nvcc", "system/distribution_packages", "system/python_packages",
    "system/fabric", "system/headers", "system/row", "system/driver_library",
    "system/environment/LANG", "system/environment/VIRTUAL_ENV",
    *(f"system/environment/{name}" for name in CUDA.variables),
    "files/private_keys", "files/host_keys", "files/leftovers", "files/authorities", "files/nvcc",
    "files/cuda_libraries", "files/driver_libraries", "link/modules", "link/libraries", "fabric", "built",
    "additions", "compiled",
)  # fmt: skip
"""What says what an image is. Left out: who runs it, the rest of the environment, times, sizes of folders."""

OWN_LABELS = ("org.opencontainers.", "org.stackwright.")
"""Heads of the names of labels that are to be the same; Apptainer adds some of its own."""

EXPLAINED = (
    (
        r"labels/org\.stackwright\.key",
        "the key of the Docker image; a definition file has one of its own, which cannot stand in it",
    ),
    (
        r"labels/org\.opencontainers\.image\.(vendor|url)",
        "a label of the site, added when a Docker image is built; a definition file has none of a site",
    ),
    (
        r"built/[^/]+/compiled_by/cmake",
        "each world compiles its own wheel, with the CMake of its distribution on that day",
    ),
)
"""Paths that may differ between a Docker image and a SIF of its definition file, and why."""

LENT = re.compile(r"/driver-\w{8}/")
"""The folder of the stub driver (probes/driver.py): it has another name each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """``path`` is where in the facts; ``one`` and ``other`` are JSON values. ``why`` "": unexplained."""

    path: str
    one: Any
    other: Any
    why: str = ""

    def __str__(self) -> str:
        told = f"{self.path}: {self.one!r} and {self.other!r}"
        return f"{told} ({self.why})" if self.why else told


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Every compared fact that is not the same in both, as ``gather`` lays facts out."""
    facts = (
        difference for path in COMPARED for difference in _between(path, _at(one, path), _at(other, path))
    )
    return (*facts, *_between("labels", _labels(one), _labels(other)))


def _labels(facts: Mapping[str, Any]) -> dict[str, str]:
    """Those of a SIF, or of the engine's description of an image."""
    found = _at(facts, "labels") or _at(facts, "image/Config/Labels") or {}
    return {name: value for name, value in found.items() if name.startswith(OWN_LABELS)}


def _at(facts: Any, path: str) -> Any:
    for name in path.split("/"):
        facts = facts.get(name) if isinstance(facts, Mapping) else None
    return facts


def _between(path: str, one: Any, other: Any) -> Iterator[Difference]:
    if _named(one) == _named(other):
        return
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted({*one, *other}):
            # a name may be a path itself, and a path in here is read by people only
            yield from _between(
                f"{path}/{str(name).strip('/').replace('/', ':')}", one.get(name), other.get(name)
            )
    else:
        why = next((why for pattern, why in EXPLAINED if re.fullmatch(pattern, path)), "")
        yield Difference(path=path, one=one, other=other, why=why)


def _named(value: Any) -> Any:
    """As it would be if a lent driver had always the same name."""
    if isinstance(value, list):
        return [_named(entry) for entry in value]
    return LENT.sub("/driver/", value) if isinstance(value, str) else value
