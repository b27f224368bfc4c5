"""Which of a row's Python packages are in a layer of the image's own. Pure.

A node pulls the layers that it does not have. What is large and changes by itself is therefore in a layer by
itself: a new NCCL sends neither a framework nor the other libraries of CUDA again.
"""

from __future__ import annotations

import re

from stackwright.core.components.component import Kind
from stackwright.core.components.table import of
from stackwright.core.model.row import Stack

LIBRARIES = (("nccl", re.compile(r"nvidia-nccl(-cu\d+)?")), ("nvidia", re.compile(r"nvidia-[a-z0-9-]+")))
"""The first that fits a package. A file that several of NVIDIA's packages have is of "nvidia"."""

REST = "rest"
"""The layer of all other packages and of the environment itself; image/layers.py knows its name."""


def groups(stack: Stack) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the layers, lowest first, each with its packages. All others are of ``REST``, without a list."""
    names = [package.name for package in stack.lock.packages if package not in stack.lock.added]
    found: dict[str, list[str]] = {"nvidia": []}
    for name in names:
        if library := next((layer for layer, pattern in LIBRARIES if pattern.fullmatch(name)), None):
            found.setdefault(library, []).append(name)
    for component in of((*stack.frameworks, *stack.communication)):
        large = component.kind is Kind.FRAMEWORK or component.companions
        if large and (own := [name for name in names if name in (component.package, *component.companions)]):
            found[component.name] = own
    return tuple((layer, tuple(packages)) for layer, packages in found.items() if packages)
