"""What proxies, name servers and token services say between us and a real registry, and how it is read."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from faulty_proxy import Answer, Decide, Fault, FaultyProxy
from publishing import BASE, ROOT
from registry_server import RegistryServer, StartRegistry, certificates

from stackwright.core.errors import EngineError, PublishError, SiteError
from stackwright.engines import oci_tools, stage_cache
from stackwright.engines.docker import Docker
from stackwright.host.retry import Patience
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.publish.attest import oras as oras_way
from stackwright.publish.attest.tools import ran
from stackwright.publish.registry.client import Access, Registry

pytestmark = pytest.mark.engine
PAGE = b"<html><head><title>%s</title></head><body>disk full, quota exceeded</body></html>"
HTML = {"Content-Type": "text/html"}
ABSENT = f"sha256:{'0' * 64}"


@pytest.fixture
def plain(start_registry: StartRegistry) -> RegistryServer:
    return start_registry(tls=False, login=False)


def page(status: int, title: bytes = b"Bad Gateway") -> Answer:
    return Answer(status=status, body=PAGE % title, headers=HTML)


def first(count: int, fault: Fault) -> Decide:
    left = iter(range(count))
    return lambda method, path: fault if next(left, None) is not None else None


def asked(address: str, said: list[str], **options: object) -> bool:
    """Whether a blob that is not there is there."""
    way = replace(Access(host=address, plain=True, patience=5), **options)  # type: ignore[arg-type]
    return Registry(way, said.append, sleep=lambda seconds: None).has_blob(BASE, ABSENT)


# -- proxies ---------------------------------------------------------------------------------------


def test_the_page_of_a_proxy_is_not_read_as_a_registry_s_words(
    plain: RegistryServer, said: list[str]
) -> None:
    with FaultyProxy(plain.address, first(2, page(502))).running() as proxy:
        way = Access(host=proxy.address, plain=True)
        found = Registry(way, said.append, sleep=lambda seconds: None).manifest(BASE, "x")
    assert found is None
    assert [line.partition("; again")[0] for line in said] == [f"{proxy.address}: 502: Bad Gateway"] * 2


@pytest.mark.parametrize(
    ("status", "cause", "hint"),
    [
        (403, r"the proxy in front of the registry refuses \(403\): Denied", "the proxy before the registry"),
        (413, r"the proxy in front of the registry refuses \(413\)", "limits a request's size"),
        (407, "407: the proxy asks for a login", "correct 'proxy' of the site"),
    ],
)
def test_what_a_proxy_refuses_is_said_to_be_its(
    status: int, cause: str, hint: str, plain: RegistryServer, said: list[str]
) -> None:
    with FaultyProxy(plain.address, first(1, page(status, b"Denied"))).running() as proxy:
        way = Access(host=proxy.address, plain=True)
        with pytest.raises(PublishError, match=cause) as caught:
            Registry(way, said.append).manifest(BASE, "x")
    assert hint in caught.value.hint and said == []


@pytest.mark.parametrize(("status", "cause"), [(407, "407: the proxy asks"), (403, "does not lead there")])
def test_a_proxy_that_opens_no_tunnel_is_said_at_once(status: int, cause: str, said: list[str]) -> None:
    with FaultyProxy("127.0.0.1:9", lambda *_: page(status)).running() as proxy:
        way = (("https_proxy", f"http://user:planted-secret@{proxy.address}"),)
        with pytest.raises(PublishError, match=cause) as caught:
            asked("registry.example", said, plain=False, proxies=way)
    assert said == [] and "planted-secret" not in str(caught.value)


def test_a_proxy_that_may_open_a_tunnel_later_is_asked_again(said: list[str]) -> None:
    with FaultyProxy("127.0.0.1:9", lambda *_: page(503)).running() as proxy:
        way = (("https_proxy", f"http://user:planted-secret@{proxy.address}"),)
        with pytest.raises(PublishError, match="given up"):
            asked("registry.example", said, plain=False, proxies=way, patience=0)
    assert len(said) == 3 and all("the proxy: Tunnel connection failed: 503" in line for line in said), said
    assert "planted-secret" not in "".join(said)


def test_a_proxy_whose_name_is_of_no_host(said: list[str]) -> None:
    way = (("https_proxy", "http://proxy.invalid:3128"),)
    with pytest.raises(PublishError, match="the proxy's name is that of no host"):
        asked("registry.example", said, plain=False, proxies=way)


def test_a_login_that_may_not_is_told_from_none(
    plain: RegistryServer, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = Answer(status=403, body=b"requested access is denied")
    with FaultyProxy(plain.address, lambda *_: denied).running() as proxy:
        for folder, cause in (
            ("none", "without a login this may not be done"),
            ("one", "the login is right"),
        ):
            monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / folder))
            with pytest.raises(PublishError, match=f"403: {cause}"):
                asked(proxy.address, said)
            replace(plain, address=proxy.address).docker_config(tmp_path / "one")


# -- answers that no registry gives ----------------------------------------------------------------


def test_a_page_for_people_to_log_in_is_no_manifest(plain: RegistryServer, said: list[str]) -> None:
    with FaultyProxy(plain.address, lambda *_: page(200, b"Log in")).running() as proxy:
        registry = Registry(Access(host=proxy.address, plain=True), said.append)
        for ask in (lambda: registry.manifest(BASE, "x"), lambda: registry.referrers(BASE, ABSENT, "")):
            with pytest.raises(PublishError, match="the answer is not a registry's: Log in"):
                ask()


def test_an_answer_without_its_headers_is_no_internal_error(
    plain: RegistryServer, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("x")

    def decide(method: str, path: str) -> Fault:
        return Answer(status=202) if method == "POST" else None

    with FaultyProxy(plain.address, decide).running() as proxy:
        registry = Registry(Access(host=proxy.address, plain=True), said.append)
        with pytest.raises(PublishError, match="the answer is not a registry's: no 'location'"):
            registry.push_blob(BASE, ABSENT, tmp_path / "x")


def test_a_registry_that_asks_to_come_back_in_hours_is_given_up(
    plain: RegistryServer, said: list[str]
) -> None:
    busy = Answer(status=429, headers={"Retry-After": "21600"})
    with (
        FaultyProxy(plain.address, first(1, busy)).running() as proxy,
        pytest.raises(PublishError, match="come again in 21600 s") as caught,
    ):
        asked(proxy.address, said)
    assert caught.value.away and said == []


def test_a_file_without_certificates_is_named(said: list[str], tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")
    for path in (tmp_path / "ca", tmp_path / "absent"):
        with pytest.raises(SiteError) as caught:
            asked("registry.example", said, plain=False, ca=path)
        assert caught.value.place == str(path)


# -- names and tokens ------------------------------------------------------------------------------

RESOLVE = """
import requests
from stackwright.publish.registry import failures
try:
    requests.get("https://registry.example/v2/", timeout=10)
except requests.RequestException as error:
    print(failures.final(error, "registry.example", "x", login=False), "/", failures.why(error))
"""


def test_a_name_server_that_cannot_be_asked_may_be_asked_again() -> None:
    """Without any network; that a name of nobody's is final, test_publish_registry.py shows."""
    argv = ["unshare", "--net", sys.executable, "-c", RESOLVE]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "None / temporary failure in name resolution\n"


def test_a_token_that_expires_in_the_middle_of_a_push_does_not_cut_the_layer_off(
    plain: RegistryServer, said: list[str], runner: Runner, tmp_path: Path
) -> None:
    ca = certificates(tmp_path / "tls", "127.0.0.1", runner)
    layer, numbers, expired = tmp_path / "layer", itertools.count(), iter((True, False))
    layer.write_bytes(b"layer" * 1000)
    digest = f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"

    def decide(method: str, path: str) -> Fault:
        if path.startswith("/token"):
            return Answer(status=200, body=json.dumps({"token": f"t{next(numbers)}"}).encode())
        if (method == "HEAD" and len(proxy.requests) == 1) or (method == "PUT" and next(expired)):
            bearer = f'Bearer realm="https://{proxy.address}/token",service="x"'
            return Answer(status=401, headers={"WWW-Authenticate": bearer})
        return None

    with FaultyProxy(plain.address, decide, tls=tmp_path / "tls").running() as proxy:
        registry = Registry(Access(host=proxy.address, ca=ca), said.append)
        registry.push_blob(BASE, digest, layer)
    assert next(numbers) == 2
    assert plain.get(f"{BASE}/blobs/{digest}") == layer.read_bytes()


# -- as oras says it -------------------------------------------------------------------------------


def test_what_oras_says_is_told_apart(
    server: RegistryServer, docker: Docker, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oras = oci_tools.find(oci_tools.Name.ORAS, runner, docker, mirror=settings.apt_mirror(runner))
    site = replace(settings.site(runner), ca=server.ca, proxies=())

    def cause(address: str, **options: object) -> str:
        reference, here = f"{address}/{BASE}:none", replace(site, **options)  # type: ignore[arg-type]
        with (
            oras_way.to_registry(reference, here, oras, say=print) as way,
            pytest.raises(PublishError) as caught,
        ):
            replace(way, patience=0.0).manifest(reference)
        assert caught.value.place == reference and caught.value.hint
        return caught.value.cause.partition(" (")[0]

    assert cause(server.address) == "it is not there"
    assert cause("registry.invalid") == "there is no host of this name"
    assert cause("127.0.0.1:9") == "the registry does not answer"
    assert (
        cause(server.address, ca=settings.ca_bundle({}))
        == "the registry's certificate is of an unknown authority"
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    assert cause(server.address) == (
        "the registry asks for a login, and Docker's configuration has none for it"
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(server.docker_config(tmp_path / "wrong", password="other")))
    assert cause(server.address) == "the registry does not take the login"


@pytest.mark.long
def test_oras_waits_for_a_proxy_as_well(
    plain: RegistryServer, docker: Docker, runner: Runner, said: list[str]
) -> None:
    oras = oci_tools.find(oci_tools.Name.ORAS, runner, docker, mirror=settings.apt_mirror(runner))
    site = replace(settings.site(runner), proxies=())
    with FaultyProxy(plain.address, first(12, page(502))).running() as proxy:
        reference = f"{proxy.address}/{BASE}:none"
        with (
            oras_way.to_registry(reference, site, oras, say=said.append, plain=True) as way,
            pytest.raises(PublishError, match="it is not there"),
        ):
            way.manifest(reference)
    assert said and all("502" in line and "again in" in line for line in said), said


def test_a_program_that_could_not_be_run_has_judged_nothing(docker: Docker, runner: Runner) -> None:
    nowhere = oci_tools.Tool(
        name=oci_tools.Name.COSIGN, runner=runner, docker=replace(docker, host="unix:///nowhere")
    )
    with pytest.raises(EngineError, match="cosign could not be run"):
        ran(nowhere, "version", folders=(), timeout=60)


# -- as the engine says it -------------------------------------------------------------------------


@pytest.mark.long
def test_a_cache_of_stages_that_is_away_for_a_moment_costs_no_row(
    plain: RegistryServer, docker: Docker, tiny: str
) -> None:
    reference = f"{plain.address}/{BASE}:stage"
    plain.kill()
    back = threading.Timer(4.0, plain.start)
    back.start()
    stage_cache.send(docker, tiny, reference)
    back.join()
    assert plain.tags(BASE) == ["stage"]
    plain.kill()
    back = threading.Timer(4.0, plain.start)
    back.start()
    assert stage_cache.has(docker, reference)
    back.join()


def test_a_cache_that_stays_away_or_has_no_such_name_is_said(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SiteError, match="no such host"):
        stage_cache.has(docker, "registry.invalid/x:1")
    monkeypatch.setattr(stage_cache, "PATIENCE", Patience(seconds=2.0))
    with pytest.raises(SiteError, match="connection refused"):
        stage_cache.has(docker, "127.0.0.1:9/x:1")
