"""A row with both tools, and the program that serves them."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from rows import LOCK, ROOT, SERIES, cell

from stackwright.core.model.row import Cell, Package, Stack
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.resolve import resolve

VERSIONS = {"tensorboard": "2.21.0", "jupyterlab": "4.6.6"}


def tools_cell(**values: Any) -> Cell:
    return cell(**VERSIONS, **values)


def tools_stack(**values: Any) -> Stack:
    """The row with a lock that has the tools, as additions."""
    asked = tools_cell(**values)
    added = tuple(Package(name=name, version=version) for name, version in VERSIONS.items())
    lock = replace(LOCK, request=request(asked), packages=(*LOCK.packages, *added), added=added)
    found = resolve(asked, lock, SERIES)
    assert isinstance(found, Stack), found
    return found


def server() -> ModuleType:
    """The program as a module; no byte code is left next to what is put into images."""
    path = ROOT / "image" / "serve_tool.py"
    module = ModuleType("serve_tool")
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module
