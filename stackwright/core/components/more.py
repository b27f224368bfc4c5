"""Components that a program adds to the table: the test of how one is added does, and nothing else."""

from __future__ import annotations

import sys

from stackwright.core.components.component import Component
from stackwright.core.errors import UsageError

_ADDED: list[Component] = []


def extend(*components: Component) -> None:
    """Add components to the table. Everything else is made from it once, so this comes before any of it."""
    if "stackwright.core.components.table" in sys.modules:
        raise UsageError(
            "the table of components was read before", hint="extend it before anything else is imported"
        )
    _ADDED.extend(components)


def added() -> tuple[Component, ...]:
    return tuple(_ADDED)
