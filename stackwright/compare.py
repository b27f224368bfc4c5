"""Two images of one row by their facts: what of a difference is explained, and what is not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COMPARED = (
    "system/os", "system/machine", "system/python", "system/programs", "system/gcc", "system/g++",
    "system/mpirun", "system/nvcc", "system/distribution_packages", "system/python_packages",
    "system/fabric", "system/headers", "system/row", "system/driver_library",
    "files/private_keys", "files/host_keys", "files/leftovers", "files/authorities", "files/nvcc",
    "files/cuda_libraries", "files/driver_libraries", "link/modules", "link/libraries", "built",
)  # fmt: skip
"""What says what an image is. Left out: who runs it and with which environment, times, sizes of folders."""

EXPLAINED = (
    (
        r"built/[^/]+/compiled_by/cmake",
        "each world compiles its own wheel, with the CMake of its distribution on that day",
    ),
    (
        r"link/libraries/[^/]+/(kernels|defined|undefined|old_abi|new_abi)\b.*",
        "each world compiles its own wheel; what it must be is judged by the checks of link",
    ),
)
"""Paths that may differ between a Docker image and a SIF of its definition file, and why."""


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
    found = (
        difference for path in COMPARED for difference in _between(path, _at(one, path), _at(other, path))
    )
    return tuple(found)


def _at(facts: Any, path: str) -> Any:
    for name in path.split("/"):
        facts = facts.get(name) if isinstance(facts, Mapping) else None
    return facts


def _between(path: str, one: Any, other: Any) -> Iterator[Difference]:
    if one == other:
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
