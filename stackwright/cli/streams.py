"""What the output is written to: a terminal, a file, or a program that may end first, as `head` does."""

from __future__ import annotations

import errno
import os
import select
import sys
from typing import TextIO

FULL = (errno.ENOSPC, errno.EDQUOT)


def complete() -> None:
    """Write to nowhere what has nowhere to go: a stream that was closed before the program began."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 (until the end)


def unwritable(error: OSError) -> bool:
    """Return whether an error is about the output: what reads it has ended, or there is no room for it."""
    if isinstance(error, BrokenPipeError):
        return any(_ended(stream) for stream in (sys.stdout, sys.stderr))
    return error.errno in FULL and error.filename is None


def _ended(stream: TextIO) -> bool:
    try:
        number = stream.fileno()
    except (AttributeError, OSError, ValueError):  # of a test
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def drop() -> None:
    """Write what is left to nowhere: Python flushes when it ends, and would print a traceback."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
