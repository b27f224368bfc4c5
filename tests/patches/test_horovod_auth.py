"""The HTTP servers of a Horovod job, as patched: a request that is not signed changes and tells nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import os
import pickle
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from horovod_source import Imported

pytest_plugins = ["patched_horovod"]

KEY = bytes(range(32))
OTHER = bytes(32)
CLIENT = "00112233445566778899aabbccddeeff"
LOGGER = "horovod.runner.http"


class Server:
    """One real server. Requests are signed here from the written protocol and not by the code under test."""

    def __init__(self, port: int, stored: dict[str, dict[str, bytes]]) -> None:
        self.port, self.stored, self._count = port, stored, 0

    def nonce(self) -> str:
        self._count += 1
        return f"{CLIENT}-{self._count:016x}"

    def signed(
        self, method: str, path: str, body: bytes = b"", *, key: bytes = KEY, nonce: str = ""
    ) -> dict[str, str]:
        _, scope, name = path.split("/")
        nonce, digest = nonce or self.nonce(), hashlib.sha256(body).hexdigest()
        lines = ("HOROVOD-KV-2-REQUEST", self.port, method, scope, name, nonce, digest)
        text = "".join(f"{line}\n" for line in lines)
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        return {"X-Horovod-Nonce": nonce, "X-Horovod-Digest": digest, "X-Horovod-Signature": signature}

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body=body or None, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()


@pytest.fixture(scope="module", params=["rendezvous", "elastic", "kvstore"])
def started(request: pytest.FixtureRequest, horovod: Imported) -> Iterator[Server]:
    servers = horovod("runner.http.http_server")
    if request.param == "kvstore":
        store = servers.KVStoreServer(verbose=0, key=KEY)
        yield Server(store.start_server(), store.httpd.cache)
        store.shutdown_server()
        return
    rendezvous = servers.RendezvousServer(verbose=0, key=KEY)
    handler = horovod("runner.elastic.rendezvous").create_rendezvous_handler(None)
    port = rendezvous.start(handler) if request.param == "elastic" else rendezvous.start()
    rendezvous.init([])
    yield Server(port, rendezvous._httpd.cache)
    rendezvous.stop()


@pytest.fixture
def server(started: Server) -> Server:
    started.stored.clear()
    return started


def test_what_is_signed_is_served(server: Server) -> None:
    assert server.send("PUT", "/a/k", server.signed("PUT", "/a/k", b"v"), b"v") == (200, b"")
    assert server.send("GET", "/a/k", server.signed("GET", "/a/k")) == (200, b"v")
    assert server.send("GET", "/a/other", server.signed("GET", "/a/other"))[0] == 404
    assert server.send("DELETE", "/a/k", server.signed("DELETE", "/a/k")) == (200, b"")
    assert "k" not in server.stored.get("a", {})


def forgeries(server: Server) -> dict[str, tuple[str, str, dict[str, str], bytes]]:
    """Method, path, headers and body of requests that are each wrong in one way."""
    used = server.signed("PUT", "/a/used", b"v")
    assert server.send("PUT", "/a/used", used, b"v")[0] == 200
    good = server.signed("PUT", "/a/k", b"v")
    other_port = Server(server.port % 65535 + 1, {}).signed("PUT", "/a/k", b"v", nonce=server.nonce())
    return {
        "get": ("GET", "/a/used", {}, b""),
        "put": ("PUT", "/a/k", {}, b"v"),
        "delete": ("DELETE", "/a/used", {}, b""),
        "wrong key": ("PUT", "/a/k", server.signed("PUT", "/a/k", b"v", key=OTHER), b"v"),
        "value": ("PUT", "/a/k", server.signed("PUT", "/a/k", b"v"), b"w"),
        "scope": ("PUT", "/b/k", good, b"v"),
        "key": ("PUT", "/a/l", good, b"v"),
        "method": ("DELETE", "/a/k", good, b""),
        "another server": ("PUT", "/a/k", other_port, b"v"),
        "replayed": ("PUT", "/a/used", used, b"v"),
        "older nonce": ("PUT", "/a/k", server.signed("PUT", "/a/k", b"v", nonce=f"{CLIENT}-{1:016x}"), b"v"),
        "no nonce": ("PUT", "/a/k", {**good, "X-Horovod-Nonce": ""}, b"v"),
        "short signature": ("PUT", "/a/k", {**good, "X-Horovod-Signature": "00"}, b"v"),
        "odd signature": ("PUT", "/a/k", {**good, "X-Horovod-Signature": "é" * 32}, b"v"),
    }


def test_what_is_not_signed_for_exactly_that_is_refused_and_logged(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for what, request in forgeries(server).items():
        caplog.clear()
        with caplog.at_level(logging.WARNING, LOGGER):
            status, said = server.send(*request)
        assert status == 403, what
        assert b"protocol 2" in said, what
        assert any(f"refused {request[0]}" in line for line in caplog.messages), what
    assert server.stored == {"a": {"used": b"v"}}


def asked(server: Server, headers: dict[str, str], length: int) -> int:
    """The status of a PUT that says how long its body is, and sends none of it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest("PUT", "/a/k")
    for name, value in {**headers, "Content-Length": str(length)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_body_over_the_limit_is_refused_before_it_is_read(server: Server) -> None:
    assert asked(server, server.signed("PUT", "/a/k", b"v"), (1 << 30) + 1) == 413
    assert asked(server, {}, (1 << 30) + 1) == 403
    assert asked(server, server.signed("PUT", "/a/k", b"v"), -1) == 400
    assert not server.stored


@pytest.mark.parametrize(
    "path", ["/", "/etc", "/a/b/c", "/a/", "/a/%6b", "/a/k?x", "/a/é", "/a/" + "k" * 256]
)
def test_a_path_that_is_no_scope_and_key_is_refused(server: Server, path: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode("latin-1"))
        assert connection.recv(12) in (b"HTTP/1.0 400",)


def test_head_tells_of_no_file(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "k").write_text("secret")
    monkeypatch.chdir(tmp_path)
    assert server.send("HEAD", "/a/k", {})[0] == 501


def test_a_pickle_of_a_worker_is_not_executed(horovod: Imported, server: Server, tmp_path: Path) -> None:
    """CVE-2024-10190; even who has the key sends addresses, and no code."""
    body = base64.b64encode(pickle.dumps(Touch(tmp_path / "touched")))
    path = "/worker_addresses/host:0"
    assert server.send("PUT", path, {}, body)[0] == 403
    server.send("PUT", path, server.signed("PUT", path, body), body)
    assert not (tmp_path / "touched").exists()
    with pytest.raises(ValueError):
        horovod("runner.elastic.rendezvous").load_addresses(body)


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (os.mkdir, (self.path,))


@pytest.mark.parametrize(
    "value",
    [[], {"eth0": []}, {"eth0": [["1.2.3.4"]]}, {"eth0": [["1.2.3.4", 0]]}, {"eth0": [["1.2.3.4", True]]},
     {"eth0": [[1, 2]]}, {"eth0": "1.2.3.4"}, 3],
)  # fmt: skip
def test_addresses_are_addresses_or_refused(horovod: Imported, value: object) -> None:
    load = horovod("runner.elastic.rendezvous").load_addresses
    assert load(b'{"eth0": [["1.2.3.4", 5]]}') == {"eth0": [("1.2.3.4", 5)]}
    with pytest.raises(ValueError):
        load(json.dumps(value).encode())


def test_memory_for_nonces_is_bounded(horovod: Imported) -> None:
    auth = horovod("runner.http.http_auth")
    seen = auth.SeenNonces(max_clients=2)
    for client in ("00" * 16, "11" * 16, "00" * 16):
        seen.add(f"{client}-{len(client) + len(seen._last):016x}")
    with pytest.raises(auth.Refused, match="too many clients"):
        seen.add(f"{'22' * 16}-{1:016x}")


def test_a_server_listens_on_the_address_that_was_chosen(horovod: Imported) -> None:
    servers = horovod("runner.http.http_server")
    rendezvous, store = servers.RendezvousServer(), servers.KVStoreServer(0)
    rendezvous.start(address="127.0.0.2")
    store.start_server()
    assert rendezvous._httpd.socket.getsockname()[0] == "127.0.0.2"
    assert store.httpd.socket.getsockname()[0] == "127.0.0.1"
    rendezvous.stop()
    store.shutdown_server()
    for wildcard in ("", "0.0.0.0", "::"):
        with pytest.raises(ValueError, match="one interface"):
            servers.RendezvousServer().start(address=wildcard)
    with pytest.raises(OSError):
        servers.RendezvousServer().start(address="192.0.2.1")


# -- the client ------------------------------------------------------------------------------------


class Forger(BaseHTTPRequestHandler):
    """Replies to everything as a server of Horovod 0.28.1 does, with what an attacker has stored there."""

    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.send_header("X-Horovod-Signature", "0" * 64)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def forger() -> Iterator[HTTPServer]:
    found = HTTPServer(("127.0.0.1", 0), Forger)
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def test_a_forged_reply_is_not_unpickled(
    horovod: Imported, forger: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2026-31234"""
    monkeypatch.setattr(Forger, "body", base64.b64encode(pickle.dumps(Touch(tmp_path / "touched"))))
    read = horovod("runner.http.http_client").read_data_from_kvstore
    with pytest.raises(RuntimeError, match="older Horovod"):
        read("127.0.0.1", forger.server_port, "runfunc", "func", KEY)
    assert not (tmp_path / "touched").exists()


def test_a_function_and_its_result_travel_signed(horovod: Imported, server: Server) -> None:
    client = horovod("runner.http.http_client")
    client.put_data_into_kvstore("127.0.0.1", server.port, "runfunc", "func", {"a": (1, 2)}, KEY)
    assert client.read_data_from_kvstore("127.0.0.1", server.port, "runfunc", "func", KEY) == {"a": (1, 2)}
    with pytest.raises(RuntimeError, match="signature is wrong"):
        client.read_data_from_kvstore("127.0.0.1", server.port, "runfunc", "func", OTHER)


# -- the C++ client, compiled by itself ------------------------------------------------------------

PROGRAM = """
#include "horovod/common/gloo/hmac_sha256.h"
#include "horovod/common/gloo/http_store.h"
#include <iostream>
using namespace horovod::common;
int main(int, char** argv) {
  std::string what = argv[1], value = argv[5];
  if (what == "hmac") {
    std::cout << ToHex(HmacSha256(argv[2], value));
    return 0;
  }
  try {
    HTTPStore store("127.0.0.1", std::stoi(argv[2]), argv[3], 7);
    if (what == "set") store.set(argv[4], std::vector<char>(value.begin(), value.end()));
    if (what == "finalize") store.Finalize();
    if (what == "get") {
      auto found = store.get(argv[4]);
      std::cout << std::string(found.begin(), found.end());
    }
  } catch (const std::exception& e) {
    std::cout << "error: " << e.what();
    return 1;
  }
}
"""

CONFIG = (
    "#define GLOO_HAVE_TRANSPORT_TCP 1\n"  # what CMake makes of gloo's config.h.in, as far as it matters here
)


@pytest.fixture(scope="session")
def client(patched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("this host has no g++; the tier `collective` runs the compiled client in each image")
    folder = tmp_path_factory.mktemp("client")
    (folder / "client.cc").write_text(PROGRAM)
    (folder / "gloo").mkdir()
    (folder / "gloo" / "config.h").write_text(CONFIG)
    third = patched / "third_party"
    includes = [patched, folder, third / "gloo", third / "HTTPRequest" / "include"]
    includes += [third / "flatbuffers" / "include", *third.glob("boost/*/include")]
    common = patched / "horovod" / "common"
    sources = [folder / "client.cc", common / "common.cc", common / "logging.cc"]
    sources += [common / "gloo" / f"{name}.cc" for name in ("http_store", "http_auth", "hmac_sha256")]
    sources.append(third / "gloo" / "gloo" / "rendezvous" / "store.cc")
    options = [
        "-std=c++17",
        "-O0",
        "-w",
        "-DHAVE_GLOO=1",
        "-include",
        "cstdint",
        *(f"-I{path}" for path in includes),
    ]
    subprocess.run(
        [compiler, *options, *sources, "-pthread", "-o", folder / "client"], check=True, timeout=300
    )
    return folder / "client"


def ran(client: Path, *words: object, key: str | None = KEY.hex()) -> tuple[int, str]:
    env = {} if key is None else {"_HOROVOD_SECRET_KEY": key}
    argv = [str(word) for word in (client, *words, "", "", "", "")]
    done = subprocess.run(
        argv, check=False, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000])
def test_both_compute_the_same_hmac(client: Path, length: int) -> None:
    for key in ("k", "k" * 64, "k" * 65):
        expected = hmac.new(key.encode(), b"x" * length, "sha256").hexdigest()
        assert ran(client, "hmac", key, "", "", "x" * length) == (0, expected)


def test_the_two_clients_share_a_server(client: Path, horovod: Imported, server: Server) -> None:
    assert ran(client, "set", server.port, "global", "0", "from C++") == (0, "")
    python = horovod("runner.http.http_client")
    assert python.get_bytes("127.0.0.1", server.port, "global", "0", KEY) == b"from C++"
    python.put_bytes("127.0.0.1", server.port, "global", "host:1", b"from Python", KEY)
    assert ran(client, "get", server.port, "global", "host:1") == (0, "from Python")
    assert ran(client, "get", server.port, "global", "nothing") == (0, "")
    assert ran(client, "set", server.port, "global", "7", "x") == (0, "")
    assert ran(client, "finalize", server.port, "global") == (0, "")
    assert "7" not in server.stored["global"]


def test_the_cpp_client_says_why_it_ends(client: Path, server: Server, forger: HTTPServer) -> None:
    for port, key, why in (
        (server.port, OTHER.hex(), "its signature is wrong"),
        (server.port, None, "_HOROVOD_SECRET_KEY is not set"),
        (server.port, "0f", "is not a key"),
        (forger.server_port, KEY.hex(), "older Horovod"),
    ):
        status, said = ran(client, "get", port, "global", "0", key=key)
        assert status == 1
        assert why in said
