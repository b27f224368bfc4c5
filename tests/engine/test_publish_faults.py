"""What networks, proxies and crashes do while rows are published, between us and a real registry."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import publishing
import pytest
from faulty_proxy import RESET, Answer, Decide, Fault, FaultyProxy
from publishing import BASE, Rows, access, image_at, publisher
from registry_server import RegistryServer, StartRegistry

from stackwright.core.errors import PublishError
from stackwright.core.model.matrix import Publish
from stackwright.host.project import Planned
from stackwright.host.site import settings
from stackwright.publish import indexes, publish_rows
from stackwright.publish.moving import JOURNAL, PROGRAM, finish

pytestmark = [pytest.mark.engine, pytest.mark.long]
WITHIN = 60
"""Seconds."""


@pytest.fixture
def server(start_registry: StartRegistry) -> RegistryServer:
    return start_registry(tls=False, login=False)


@contextlib.contextmanager
def before(server: RegistryServer, decide: Decide) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.address, decide).running() as proxy:
        yield proxy


def times(count: int, method: str, part: str, fault: Fault) -> Decide:
    """The fault on the first ``count`` requests of this method whose path has this part."""
    left = [count]

    def decide(seen: str, path: str) -> Fault:
        if seen == method and part in path and left[0] > 0:
            left[0] -= 1
            return fault
        return None

    return decide


def image_id(rows: Rows, row: Planned) -> str:
    image = rows.record_of(row).image
    assert image
    return image.id


# -- passing faults --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@pytest.mark.parametrize(("method", "part"), [("POST", "uploads"), ("PUT", "manifests")])
def test_it_tries_again_after_an_answer_that_may_pass(
    status: int, method: str, part: str, rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    with before(server, times(2, method, part, Answer(status=status))) as proxy:
        to = access(server, proxy.address)
        by = publisher(rows, to, said)
        by.registry.sleep = lambda seconds: None
        publish_rows(by, [rows.row("one")])
    assert sum(f"{status}" in line and "again in" in line for line in said) == 2, said


@pytest.mark.parametrize(("method", "part"), [("HEAD", "blobs"), ("PUT", "uploads"), ("PUT", "manifests")])
def test_it_tries_again_after_a_reset(
    method: str, part: str, rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    with before(server, times(2, method, part, RESET)) as proxy:
        publish_rows(publisher(rows, access(server, proxy.address), said), [rows.row("one")])
    assert sum("again in" in line for line in said) == 2, said


def test_it_tries_again_after_a_timeout(rows: Rows, server: RegistryServer, said: list[str]) -> None:
    held = threading.Event()
    waiting = times(1, "PUT", "uploads", "wait")

    def decide(method: str, path: str) -> Fault:
        if waiting(method, path):
            held.wait(WITHIN)
        return None

    with before(server, decide) as proxy:
        to = replace(access(server, proxy.address), timeout=1.0)
        publish_rows(publisher(rows, to, said), [rows.row("one")])
        held.set()
    assert any("no answer in time; again in" in line for line in said), said


@pytest.mark.parametrize("date", [False, True])
def test_it_waits_as_long_as_it_is_asked_to(
    date: bool, rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    busy = Answer(status=429, headers={"Retry-After": moment if date else "100"})
    slept: list[float] = []
    with before(server, times(1, "POST", "uploads", busy)) as proxy:
        by = publisher(rows, access(server, proxy.address), said)
        by.registry.sleep = slept.append
        publish_rows(by, [rows.row("one")])
    assert len(slept) == 1 and 40 < slept[0] <= 100


def test_a_proxy_of_the_site_is_the_way_there(
    rows: Rows, server: RegistryServer, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the proxy knows the name of the registry, and its password is in no file, not for a moment."""
    written: list[bytes] = []

    def decide(method: str, path: str) -> Fault:
        if moved(method, path, "one"):
            written.extend(file.read_bytes() for file in rows.project.out.rglob("*") if file.is_file())
        return None

    with before(server, decide) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:planted-proxy@{proxy.address}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        to = replace(access(server, "registry.planted.example"), proxies=settings.proxies())
        publish_rows(publisher(rows, to, said), [rows.row("one")])
        assert "one" in server.tags(BASE)
    assert all(path.startswith("http://registry.planted.example/v2/") for _, path in proxy.requests)
    assert any(b'"moves"' in content for content in written)
    assert b"planted-proxy" not in b"".join(written) + "".join(said).encode()


# -- final answers, each in its own words ------------------------------------------------------------


def told(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


FINAL = {
    "forbidden": (403, told("DENIED", "requested access is denied"), "403: without a login this may not"),
    "quota by Harbor": (
        412, told("PRECONDITION", "adding 3 GiB of storage, which will exceed the configured upper limit"),
        r"the quota is used up \(412\)",
    ),
    "quota with 403": (403, told("DENIED", "Quota of the project is used"), r"quota is used up \(403\)"),
    "too large": (413, b"", r"the quota is used up \(413\)"),
    "disk": (507, b"", "the registry's disk is full"),
    "another": (405, told("UNSUPPORTED", "it is read-only"), r"refuses \(405\): UNSUPPORTED it is"),
}  # fmt: skip


@pytest.mark.parametrize("name", FINAL)
def test_what_will_not_pass_is_said_at_once(
    name: str, rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    status, body, words = FINAL[name]
    with (
        before(server, times(99, "POST", "uploads", Answer(status=status, body=body))) as proxy,
        pytest.raises(PublishError, match=words) as caught,
    ):
        publish_rows(publisher(rows, access(server, proxy.address), said), [rows.row("one")])
    assert "\n" not in caught.value.cause
    assert not any("again" in line for line in said)
    assert server.tags(BASE) == []


def test_a_page_of_a_proxy_does_not_steer_the_terminal(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    page = Answer(status=404, body=b"\x1b[2J<html>" + b"x" * 5000)
    with (
        before(server, times(99, "POST", "uploads", page)) as proxy,
        pytest.raises(PublishError, match=r"refuses \(404\)") as caught,
    ):
        publish_rows(publisher(rows, access(server, proxy.address), said), [rows.row("one")])
    assert "\x1b" not in caught.value.cause and len(caught.value.cause) < 500


# -- moving tags -----------------------------------------------------------------------------------


def moved(method: str, path: str, tag: str) -> bool:
    return method == "PUT" and path.endswith(f"/manifests/{tag}")


def start(rows: Rows, address: str, today: list[Planned]) -> subprocess.Popen[bytes]:
    named = [f"{row.stack.id}={row.recipe.key}" for row in today]
    program = Path(publishing.__file__).with_name("publish_rows.py")
    argv = [sys.executable, str(program), str(rows.project.out), address, *named]
    samples = rows.project.root / "tests" / "support" / "samples"
    path = f"{rows.project.root}{os.pathsep}{samples}"
    return subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": path})


def mover(folder: Path) -> int:
    """The process that moves the tags for this folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().split(b"\0")[3:5] == [PROGRAM.encode(), str(folder).encode()]:
                return int(path.parent.name)
    raise AssertionError("nobody moves tags")


@pytest.mark.parametrize("both", [False, True])
def test_killed_between_two_moving_tags(
    both: bool, rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    """The process that moves outlives the other; where both are killed, the next start goes on."""
    by = publisher(rows, access(server), said)
    publish_rows(by, [rows.row("one"), rows.row("two")])
    yesterday = image_at(server, "two")
    today = [rows.row("one"), rows.row("two")]
    reached, go_on = threading.Event(), threading.Event()

    def decide(method: str, path: str) -> Fault:
        if moved(method, path, "two"):
            reached.set()
            go_on.wait(WITHIN)
            return RESET if both else None
        return None

    with before(server, decide) as proxy:
        process = start(rows, proxy.address, today)
        assert reached.wait(WITHIN)
        process.send_signal(signal.SIGKILL)
        process.wait(WITHIN)
        if both:
            os.kill(mover(by.folder), signal.SIGKILL)
            proxy.decide = lambda method, path: None
        go_on.set()
        if both:
            assert image_at(server, "two") == yesterday
            assert (by.folder / JOURNAL).exists()
            finish(by.folder, by.registry.access.proxies, said.append)
        until = time.monotonic() + WITHIN
        while (by.folder / JOURNAL).exists() and time.monotonic() < until:
            time.sleep(0.02)
    assert [image_at(server, row.stack.id) for row in today] == [image_id(rows, row) for row in today]
    assert not (by.folder / JOURNAL).exists()
    sent_again = publish_rows(by, today)
    assert [published.sent_bytes for published in sent_again] == [0, 0]


def names_of(server: RegistryServer) -> dict[str, str]:
    """Name to digest of every entry that the tag for all rows leads to."""
    index = json.loads(server.get(f"{BASE}/manifests/all", accept=indexes.INDEX))
    return {manifest["annotations"][indexes.NAME]: manifest["digest"] for manifest in index["manifests"]}


def test_the_tag_of_all_rows_never_shows_a_mixed_set(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    """Looked at before every request of a publish, while each row's own tag has its turn."""
    rows.matrix_has("one", "two", "three")
    by = publisher(rows, access(server), said, scheme=Publish(set="all"))
    first = publish_rows(by, [rows.row("one"), rows.row("two"), rows.row("three")])
    yesterday = {published.row: published.digest for published in first}
    assert names_of(server) == yesterday
    seen: list[dict[str, str]] = []

    def decide(method: str, path: str) -> Fault:
        seen.append(names_of(server))
        return None

    with before(server, decide) as proxy:
        to = publisher(rows, access(server, proxy.address), said, scheme=by.scheme)
        second = publish_rows(to, [rows.row("one"), rows.row("two")])
    today = yesterday | {published.row: published.digest for published in second}
    assert names_of(server) == today
    assert len(seen) > 20 and all(names in (yesterday, today) for names in seen)
    rows.matrix_has("one", "two")
    publish_rows(replace(by, project=rows.project), [rows.row("one")])
    assert set(names_of(server)) == {"one", "two"}


def test_killed_before_the_tags_leaves_yesterday_complete(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    yesterday = [rows.row("one"), rows.row("two")]
    publish_rows(by, yesterday)
    today = [rows.row("one"), rows.row("two", kilobytes=2048)]
    reached = threading.Event()

    def decide(method: str, path: str) -> Fault:
        if moved(method, path, f"two-{today[1].recipe.key[:12]}"):
            reached.set()
            time.sleep(1)
        return None

    with before(server, decide) as proxy:
        process = start(rows, proxy.address, today)
        assert reached.wait(WITHIN)
        process.send_signal(signal.SIGKILL)
        process.wait(WITHIN)
    assert [image_at(server, row.stack.id) for row in yesterday] == [image_id(rows, row) for row in yesterday]
    publish_rows(by, today)
    assert [image_at(server, row.stack.id) for row in today] == [image_id(rows, row) for row in today]


def test_a_tag_that_is_refused_takes_the_others_back(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    yesterday = [rows.row("one"), rows.row("two")]
    publish_rows(by, yesterday)
    today = [rows.row("one"), rows.row("two")]

    def decide(method: str, path: str) -> Fault:
        return (
            Answer(status=403, body=told("DENIED", "this tag is kept"))
            if moved(method, path, "two")
            else None
        )

    with (
        before(server, decide) as proxy,
        pytest.raises(PublishError, match=r"^[^\n]*may not be done: DENIED this tag is kept"),
    ):
        publish_rows(publisher(rows, access(server, proxy.address), said), today)
    assert [image_at(server, row.stack.id) for row in yesterday] == [image_id(rows, row) for row in yesterday]
    assert any("one was moved back" in line for line in said)
    assert not (by.folder / JOURNAL).exists()


def test_a_registry_that_goes_while_tags_move_gets_the_rest_when_it_is_back(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    publish_rows(by, [rows.row("one"), rows.row("two")])
    today = [rows.row("one"), rows.row("two")]

    def decide(method: str, path: str) -> Fault:
        return RESET if moved(method, path, "two") else None

    with before(server, decide) as proxy:
        to = replace(access(server, proxy.address), patience=1.0)
        with pytest.raises(PublishError, match="given up"):
            publish_rows(publisher(rows, to, said), today)
        assert (by.folder / JOURNAL).exists()
        proxy.decide = lambda method, path: None
        publish_rows(by, today)
    assert [image_at(server, row.stack.id) for row in today] == [image_id(rows, row) for row in today]


def test_a_tag_that_someone_else_moved_meanwhile_is_left_to_them(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    publish_rows(by, [rows.row("one")])
    theirs, ours = rows.row("one"), rows.row("one")
    publish_rows(by, [theirs])
    move = {"repository": BASE, "tag": "one", "before": "sha256:1", "after": "sha256:2"}
    journal = {"version": 1, "access": {"host": server.address, "plain": True}, "moves": [move]}
    (by.folder / JOURNAL).write_text(json.dumps(journal))
    with pytest.raises(PublishError, match="another process has moved this tag meanwhile"):
        publish_rows(by, [ours])
    assert image_at(server, "one") == image_id(rows, theirs)
    (by.folder / JOURNAL).write_text("{")
    with pytest.raises(PublishError, match="not a journal"):
        publish_rows(by, [ours])
