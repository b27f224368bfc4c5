"""A TLS connection that breaks does not take others of its thread with it. Dask serves all in one thread.

Since OpenSSL 3.4 a failed write leaves its errno in OpenSSL's queue of errors, of which a thread has
one. Python raises it as an OSError and leaves it in the queue. There, the next connection that only has
nothing to read yet finds it, and fails as the first did. Seen with Python 3.13.5 and OpenSSL 3.5.7, not with
Python 3.11.7 and OpenSSL 3.0.19. Sources: python/cpython#127361 (raises it, from 3.13.2 on),
python/cpython#148594 (open: the queue is not cleared before a read or a write).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def dask_setup(_: object = None) -> None:
    """Of all connections that this process makes from now on. The name is that of Dask's preloads."""
    ssl.SSLContext.sslsocket_class = _Socket


class _Socket(ssl.SSLSocket):
    """All that Tornado does with a connection goes through these three."""

    def read(self, *arguments: Any) -> Any:
        with _cleared():
            return super().read(*arguments)

    def send(self, *arguments: Any) -> int:
        with _cleared():
            return super().send(*arguments)

    def do_handshake(self, *arguments: Any) -> None:
        with _cleared():
            super().do_handshake(*arguments)


@contextmanager
def _cleared() -> Iterator[None]:
    try:
        yield
    except ssl.SSLError:  # Python has cleared the queue
        raise
    except OSError:
        with suppress(ssl.SSLError):  # refusing this, Python clears the queue of whatever it has
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers("none")
        raise
