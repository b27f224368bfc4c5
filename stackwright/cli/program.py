"""How commands are named in what is printed: by this program, with the options that it was started with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from stackwright.host.shipped import IN_CHECKOUT

PROGRAM = "./build.py" if IN_CHECKOUT else "stackwright"
NAMED = re.compile(r"(?<![\w/.-])(?:\./)?build\.py(?= (?:--matrix|--help|[a-z]))")
"""A command in a sentence; not the file, and not a path of another program."""

_options = ""


def started_with(options: Mapping[str, Path | None]) -> None:
    """Keep the options before the command that were given: a line that is pasted needs them too."""
    global _options  # noqa: PLW0603 (of the process, as its arguments are)
    _options = "".join(f" {name} {shlex.quote(str(value))}" for name, value in options.items() if value)


def named(text: str) -> str:
    """Return a text in which each command begins with the words that work here."""
    return NAMED.sub(lambda found: f"{PROGRAM}{_options}", text)
