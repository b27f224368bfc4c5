"""Where the program begins. An interrupt while its modules are imported ends it with one line."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""As EXIT_INTERRUPTED of core/errors.py, which imports more than the first moments need."""

NOTHING_YET = b"error: interrupted\n"


def leave(_signal: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """End the process at once. Only while nothing is under way that has to be finished or undone."""
    os.write(2, NOTHING_YET)
    os._exit(INTERRUPTED)


def start() -> None:
    """Run a command. Only its own work is interrupted by an exception, which ``main`` turns into a message.

    Where interrupts are ignored, as in a job of ``nohup``, they stay so. The front door of a checkout blocks
    them until here: one that came before is delivered now.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    from stackwright.cli.main import main

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:
        leave()
    finally:
        if ours:
            signal.signal(signal.SIGINT, leave)
