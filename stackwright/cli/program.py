"""How commands are named in what is printed: by this program, with the options that it was started with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from stackwright.host.shipped import PROGRAM, called

__all__ = ["PROGRAM", "named", "started_with"]

_options = ""


def started_with(options: Mapping[str, Path | None]) -> None:
    """Keep the options before the command that were given: a line that is pasted needs them too."""
    global _options  # noqa: PLW0603 (of the process, as its arguments are)
    _options = "".join(f" {name} {shlex.quote(str(value))}" for name, value in options.items() if value)


def named(text: str) -> str:
    """Return a text in which each command begins with the words that work here."""
    return called(text, options=_options)
