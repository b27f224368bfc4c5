"""The registry of the tests is what the tests say that it is."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from registry_server import StartRegistry

from stackwright.host.runner import Runner

pytestmark = pytest.mark.engine


def test_it_asks_for_a_login_and_only_its_own_ca_knows_it(start_registry: StartRegistry) -> None:
    server = start_registry()
    assert server.get("_catalog") == b'{"repositories":[]}\n'
    server.login = False
    with pytest.raises(urllib.error.HTTPError, match="401"):
        server.get("_catalog")
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{server.url}/v2/", timeout=5)


def test_what_was_pushed_outlives_the_registry(
    start_registry: StartRegistry, runner: Runner, tmp_path: Path
) -> None:
    server = start_registry(tls=False, login=False)
    begun = urllib.request.Request(f"{server.url}/v2/a/blobs/uploads/", method="POST")
    with urllib.request.urlopen(begun, timeout=5) as answer:
        place = answer.headers["Location"]
    digest = f"sha256:{hashlib.sha256(b'foo').hexdigest()}"
    octets = {"Content-Type": "application/octet-stream"}
    sent = urllib.request.Request(f"{place}&digest={digest}", data=b"foo", method="PUT", headers=octets)
    with urllib.request.urlopen(sent, timeout=5) as answer:
        assert answer.status == 201
    server.kill()
    with pytest.raises(urllib.error.URLError):
        server.get("_catalog")
    server.start()
    assert server.get(f"a/blobs/{digest}") == b"foo"
