"""Stands between a client and a real registry, and now and then does what networks and proxies do."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Given instead of the registry's."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


RESET = "reset"
"""Cut the connection, as a firewall does."""

Fault = Answer | str | None
Decide = Callable[[str, str], Fault]
"""From method and path; None hands the request on. It may also wait."""


def reset(connection: socket.socket) -> None:
    """Without the farewell of TCP."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class FaultyProxy:
    """``requests`` are those that were asked for, in order."""

    def __init__(self, target: str, decide: Decide, tls: Path | None = None) -> None:
        """``tls``: a folder with server.pem and server.key, where it speaks https to its clients."""
        self.decide = decide
        self.requests: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, target))
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls / "server.pem", tls / "server.key")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.address = f"127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[FaultyProxy]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _handler(proxy: FaultyProxy, target: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            proxy.requests.append((self.command, self.path))
            fault = proxy.decide(self.command, self.path)
            if fault == RESET:
                self.close_connection = True
                reset(self.connection)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = fault if isinstance(fault, Answer) else self._ask(body)
            self.send_response(answer.status)
            for name, text in answer.headers.items():
                self.send_header(name, text)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def _ask(self, body: bytes) -> Answer:
            """The Host header stays, so that the registry's Location leads through here again."""
            link = http.client.HTTPConnection(target, timeout=60)
            link.request(self.command, self.path, body, dict(self.headers.items()))
            reply = link.getresponse()
            kept = {k: v for k, v in reply.getheaders() if k not in ("Transfer-Encoding", "Connection")}
            return Answer(status=reply.status, body=reply.read(), headers=kept)

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_CONNECT = handle_one

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tests look at ``requests``."""

    return Handler
