"""Tells a row's own image from one that was built FROM it, which inherits its labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stackwright.core.model.labels import ROW
from stackwright.core.render.configuration import FOLDER, USER

LAST = ("USER", "WORKDIR", "ENTRYPOINT", "CMD")
"""The instructions of dockerfiles/final.j2 that follow its labels."""

PORTS = 2
"""How many of them are before the row's ports, of which each has a line."""
SETTINGS = (
    "ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD", "SHELL",
    "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
)  # fmt: skip
"""Instructions that change what a container is started with."""
REPLACED = frozenset({"CMD", "ENTRYPOINT", "HEALTHCHECK", "SHELL", "STOPSIGNAL", "USER", "WORKDIR"})
"""Of which an image has one at a time."""
WITHOUT_LAYER = frozenset(SETTINGS) - {"WORKDIR"}

_SHELL = re.compile(r"/bin/sh -c #\(nop\) +")
"""What engines without BuildKit put before an instruction."""


def is_derived(history: Iterable[str]) -> bool:
    """Return whether instructions follow those of the row. ``history``: "created by", the oldest first.

    A history without a row's labels says nothing, and is of no image that was built FROM one.
    """
    return bool(added(history))


def is_of_row(history: Iterable[str]) -> bool:
    """Return whether a row's instructions are in the history: every user can write labels."""
    return any(map(_labels_row, (_SHELL.sub("", line) for line in history)))


def added(history: Iterable[str]) -> tuple[str, ...]:
    """Return the instructions that were added to a row's image."""
    lines = [_SHELL.sub("", line) for line in history]
    labelled = [number for number, line in enumerate(lines) if _labels_row(line)]
    if not labelled:
        return ()
    rest = lines[labelled[0] + 1 :]
    heads = tuple(map(_head, rest))
    ports = 0
    while heads[PORTS + ports : PORTS + ports + 1] == ("EXPOSE",):
        ports += 1
    own = heads[:PORTS] + heads[PORTS + ports : len(LAST) + ports]
    return tuple(rest[len(LAST) + ports :]) if own == LAST else tuple(rest)


def settings(instructions: Iterable[str], user: str = USER) -> tuple[str, ...]:
    """Return the instructions that change settings; of those that replace each other, the last one.

    What begins and ends as the row's ``user`` has that user again.
    """
    as_rendered = (f"USER {user}", f"WORKDIR {FOLDER}")
    lines = [line for line in instructions if _head(line) in SETTINGS]
    last = {_head(line): number for number, line in enumerate(lines)}
    return tuple(
        line
        for number, line in enumerate(lines)
        if line not in as_rendered and (_head(line) not in REPLACED or last[_head(line)] == number)
    )


def most_layers(instructions: Iterable[str]) -> int:
    """Return how many layers they made at most: one that wrote nothing made none."""
    return sum(_head(_SHELL.sub("", line)) not in WITHOUT_LAYER for line in instructions)


def _head(line: str) -> str:
    return line.partition(" ")[0]


def _labels_row(line: str) -> bool:
    return line.startswith("LABEL ") and f"{ROW}=" in line
