"""What the distribution's mirror is asked for, over real sockets: its hiccups, its refusals, and a login."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stackwright.core.errors import SiteError
from stackwright.host.retry import Patience
from stackwright.host.upstream import mirror

PATH, CONTENT = "/debian/dists/trixie/InRelease", b"Suite: stable\n"
Misbehave = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Server:
    """Misbehaves once for each of ``troubles``, then no more; ``logins``: what each question came with."""

    port: int = 0
    troubles: list[Misbehave] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    def url(self, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}{PATH}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(mirror, "PATIENCE", replace(mirror.PATIENCE, first=0.01, factor=1.0))
    monkeypatch.setenv("no_proxy", "*")
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.logins.append(self.headers["Authorization"])
            (found.troubles.pop(0) if found.troubles else good)(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        found.port = listening.server_port
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield found
        listening.shutdown()
        thread.join()


def good(to: BaseHTTPRequestHandler, *, more: int = 0) -> None:
    to.send_response(200)
    to.send_header("Content-Length", str(len(CONTENT) + more))
    to.end_headers()
    to.wfile.write(CONTENT)


def cut_short(to: BaseHTTPRequestHandler) -> None:
    good(to, more=7)


def away(to: BaseHTTPRequestHandler) -> None:
    """Closes the connection without a word."""
    to.close_connection = True


def status(code: int) -> Misbehave:
    return lambda to: to.send_error(code)


@pytest.mark.parametrize("trouble", [status(503), status(429), cut_short, away])
def test_what_passes_is_asked_again(server: Server, trouble: Misbehave) -> None:
    server.troubles = [trouble] * 2
    assert mirror.fetch(server.url()) == CONTENT


@pytest.mark.parametrize("trouble", [status(502), cut_short, away])
def test_what_does_not_pass_is_given_up_and_said(server: Server, trouble: Misbehave) -> None:
    server.troubles = [trouble] * 9
    with pytest.raises(SiteError, match=r"did not give trixie/InRelease: \S"):
        mirror.fetch(server.url())
    assert len(server.logins) == 3


@pytest.mark.parametrize("code", [401, 403, 404])
def test_a_refusal_is_said_at_once(server: Server, code: int) -> None:
    server.troubles = [status(code)]
    with pytest.raises(SiteError, match=str(code)):
        mirror.fetch(server.url())
    assert len(server.logins) == 1


def test_a_name_that_is_of_no_host_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "PATIENCE", Patience(most=2, first=300.0))
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(SiteError, match="did not give"):
        mirror.fetch(f"http://there-is-no-host.invalid{PATH}")


def test_a_login_in_the_address_is_sent_and_never_said(server: Server) -> None:
    assert mirror.fetch(server.url("reader:p%40ss@")) == CONTENT
    assert server.logins == [f"Basic {base64.b64encode(b'reader:p@ss').decode()}"]
    server.troubles = [status(404)]
    with pytest.raises(SiteError) as refused:
        mirror.fetch(server.url("reader:p%40ss@"))
    assert "p%40ss" not in str(refused.value)
    assert "p@ss" not in str(refused.value)
