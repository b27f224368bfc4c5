"""Retries of what fails for a moment: which failures are transient, and one loop with growing pauses."""

from __future__ import annotations

import itertools
import math
import random
import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import TypeVar
from urllib.error import HTTPError, URLError

T = TypeVar("T")

TRANSIENT_BELOW_500 = frozenset({408, 425, 429})
FINAL_FROM_500 = frozenset({501, 505, 507, 508, 510, 511})
"""Not implemented, wrong version, disk full, loop, an extension or a login is missing (RFC 9110, IANA)."""

NO_SUCH_NAME = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})
"""Errors of a name server that knows the answer. Any other is of one that could not tell just now."""


def transient_status(code: int) -> bool:
    """Return whether a server, or a proxy before it, may answer otherwise on a retry."""
    return code in TRANSIENT_BELOW_500 or (500 <= code <= 599 and code not in FINAL_FROM_500)


TRANSIENT_MESSAGE = re.compile(
    r"connection (refused|reset|timed out)|broken pipe|\bEOF\b|i/o timeout|TLS handshake timeout"
    r"|deadline exceeded|no route to host|network is unreachable|server misbehaving"
    r"|temporary failure in name resolution|server closed idle connection"
    rf"|response status code ({'|'.join(str(code) for code in range(400, 600) if transient_status(code))})",
    re.IGNORECASE,
)
"""Go's words for a registry, a network or a name server that may be back: of oras and of Docker's engine."""


def transient_answer(error: Exception) -> bool:
    """Return whether a request of urllib's may succeed on a retry."""
    if isinstance(error, HTTPError):
        return transient_status(error.code)
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, socket.gaierror):
        return reason.errno not in NO_SUCH_NAME
    return isinstance(error, OSError | HTTPException) and not isinstance(reason, ssl.SSLCertVerificationError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """When to give up. ``seconds`` are counted from the first failure, ``fewest`` and ``most`` are tries.

    ``first`` is the pause before the second try; each one after it is ``factor`` times as long, up to
    ``longest``, less a random part, so that many clients do not come back at once.
    """

    seconds: float = math.inf
    fewest: int = 1
    most: float = math.inf
    first: float = 1.0
    factor: float = 2.0
    longest: float = 30.0

    def ends(self, tries: int, seconds: float) -> bool:
        return tries >= self.most or (seconds > self.seconds and tries >= self.fewest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A transient failure. ``wait``: seconds that the server asked for."""

    why: str = ""
    wait: float = 0.0


def retried(
    act: Callable[[], T],
    transient: Callable[[Exception], Again | None],
    patience: Patience,
    *,
    say: Callable[[str], None] = lambda text: None,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call ``act`` until it succeeds. Raise its error where that is final, or where the patience ends."""
    pause, failed_first = patience.first, 0.0
    for tries in itertools.count(1):
        try:
            return act()
        except Exception as error:
            again = transient(error)
            if again is None:
                raise
            now = time.monotonic()
            failed_first = failed_first or now
            wait = max(again.wait, pause * random.uniform(0.75, 1.0))  # noqa: S311
            if patience.ends(tries, now + wait - failed_first):
                raise
        say(f"{again.why}; again in {wait:.0f} s")
        sleep(wait)
        pause = min(pause * patience.factor, patience.longest)
    raise AssertionError("there is no end to counting")
