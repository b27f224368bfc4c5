"""A mirror and an index for one build, on the loopback address, below a path that only the build knows.

`packages/…` are files of mirrors, `simple/PROJECT/` the page of a project as PEP 503 has it, and `python/…`
the files that the page names. Who answers is passed in: what is recorded, or what a bundle holds.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from stackwright.build.bundle.manifest import PYTHON
from stackwright.core.errors import StackwrightError

LOOPBACK = "127.0.0.1"
SIMPLE = "simple"
BLOCK = 1 << 18
POLL = 0.05
"""Seconds after which the server sees that it is to end."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``bytes`` is how many ``content`` has."""

    content: Readable
    bytes: int
    kind: str = "application/octet-stream"


Find = Callable[[str], AbstractContextManager[Answer | None]]
"""From a path to what it has; None: there is nothing. StackwrightError: it could not be asked."""


def page(files: Iterable[tuple[str, str]]) -> bytes:
    """Return the page of a project, PATH and sha256 of each file, as seen from `simple/PROJECT/`."""
    lines = ["<!DOCTYPE html>", "<html><body>"]
    for path, sha256 in files:
        fragment = f"#sha256={sha256}" if sha256 else ""
        name = escape(path.rpartition("/")[2])
        lines.append(f'<a href="../../{quote(path)}{fragment}">{name}</a><br>')
    return "\n".join((*lines, "</body></html>", "")).encode()


def project_of(path: str) -> str:
    """Return the project whose page is asked for; "" where it is another path."""
    parts = path.split("/")
    return parts[1] if len(parts) == 3 and parts[0] == SIMPLE and not parts[2] else ""


def is_of(path: str, project: str) -> bool:
    """Return whether a file belongs to a project: `python/INDEX/PROJECT/FILE`."""
    parts = path.split("/")
    return len(parts) == 4 and parts[0] == PYTHON and parts[2] == project


@contextmanager
def serving(find: Find) -> Iterator[str]:
    """Yield the address below which ``find`` answers until the block ends."""
    secret = secrets.token_hex(8)
    server = _Server(f"/{secret}/", find)
    thread = threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/{secret}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def __init__(self, prefix: str, find: Find) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.prefix, self.find = prefix, find

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a step whose connection was cut reports it, and the build ends with its message."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = self.server
        assert isinstance(asked, _Server), "nothing else has this handler"
        path = unquote(urlsplit(self.path).path)
        if not path.startswith(asked.prefix):
            self._nothing(HTTPStatus.NOT_FOUND)
            return
        sent = False
        try:
            with asked.find(path.removeprefix(asked.prefix)) as answer:
                if answer is None:
                    self._nothing(HTTPStatus.NOT_FOUND)
                else:
                    sent = True
                    self._send(answer)
        except StackwrightError:  # ``find`` has noted it
            self.close_connection = True
            if not sent:
                self._nothing(HTTPStatus.BAD_GATEWAY)
        except ConnectionError:
            self.close_connection = True

    def _send(self, answer: Answer) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(answer.bytes))
        self.end_headers()
        while block := answer.content.read(BLOCK):
            self.wfile.write(block)

    def _nothing(self, status: HTTPStatus) -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
