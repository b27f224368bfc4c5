"""Whether a layer leaves all files of its parent to be seen. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from stackwright.core.ledger.entry import TAKES_AWAY, Entry, Kind, Tree

ALLOWED = frozenset({Kind.FILE, Kind.FOLDER, Kind.LINK})
WHERE = "/opt/stack"
"""The environment: what pip installs is nowhere else."""
SPECIAL = 0o7000
"""Bits of a mode that make a program run as another user, or keep files in a folder."""


def problems(layer: Iterable[Entry], parent: Tree) -> Iterator[str]:
    """Yield what a layer has that takes a file of the parent away, or that no layer may have."""
    for entry in layer:
        if wrong := _wrong(entry, parent):
            yield f"{_shown(entry.path)} {wrong}"


def _wrong(entry: Entry, parent: Tree) -> str:
    there = parent.entries.get(entry.path)
    if entry.kind in TAKES_AWAY:
        return "of the parent would be taken away"
    if entry.kind is Kind.FOLDER and there is not None and there.kind is Kind.FOLDER:
        return "" if entry.mode == there.mode else f"of the parent would get the mode {entry.mode:04o}"
    if there is not None:
        return "of the parent would be hidden"
    if (folder := _through(entry, parent)) is not None:
        return f"would be below {_shown(folder)}, which is no folder in the parent"
    if not entry.path.startswith(f"{WHERE}/"):
        return f"is outside {WHERE}"
    odd = entry.kind not in ALLOWED or entry.mode & SPECIAL
    return f"is a {entry.kind} with the mode {entry.mode:04o}, as no wheel has it" if odd else ""


def _through(entry: Entry, parent: Tree) -> str | None:
    """Return the link or file of the parent that a new name would be below: the folder would hide it."""
    path = entry.path
    while (path := posixpath.dirname(path)) != "/":
        there = parent.entries.get(path)
        if there is not None and there.kind is not Kind.FOLDER:
            return path
    return None


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)
