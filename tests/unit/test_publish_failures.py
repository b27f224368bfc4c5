"""Which troubles of TLS are worth another try, of servers that really behave so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import requests

from stackwright.publish.registry import failures

REFUSES = bytes([0x15, 3, 3, 0, 2, 2, 40])
"""The record of TLS by which a server ends a handshake: fatal, handshake_failure."""


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """``host:port`` of one that reads the client's hello, answers once and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(4096)
                answer(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def error_of(host: str) -> requests.RequestException:
    with pytest.raises(requests.RequestException) as caught:
        requests.get(f"https://{host}/v2/", timeout=10)
    return caught.value


def test_one_that_goes_away_in_the_handshake_is_tried_again() -> None:
    with server(lambda _: None) as host:
        assert failures.final(error_of(host), host, "team/images", login=False) is None


def test_one_that_refuses_tls_is_not_said_to_have_a_bad_certificate() -> None:
    with server(lambda client: client.sendall(REFUSES)) as host:
        ended = failures.final(error_of(host), host, "team/images", login=False)
    assert ended is not None
    assert "TLS fails" in str(ended) and "handshake" in str(ended).lower()
    assert "certificate" not in str(ended)
