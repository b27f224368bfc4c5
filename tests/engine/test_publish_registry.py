"""A registry that is away, full, a stranger, or does not know us: what is said, and what stays as it was."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from publishing import Rows, access, image_at, publisher
from registry_server import PASSWORD, USER, RegistryServer, StartRegistry

from stackwright.core.errors import PublishError
from stackwright.host.runner import Runner
from stackwright.publish import publish_rows
from stackwright.publish.registry.client import Access, Registry

pytestmark = pytest.mark.engine


AWAY = (3, pytest.param(60, marks=pytest.mark.nightly))
"""Seconds that the registry is away in the middle of a push."""

# -- the registry ----------------------------------------------------------------------------------


@contextmanager
def away_in_the_middle(server: RegistryServer, seconds: float) -> Iterator[threading.Event]:
    """Killed once a layer has begun to arrive, and there again after some seconds."""
    killed = threading.Event()

    def watch() -> None:
        while not any(path.stat().st_size > 2**20 for path in server.data.glob("**/_uploads/*/data")):
            time.sleep(0.002)
        server.kill()
        killed.set()
        time.sleep(seconds)
        server.start()

    thread = threading.Thread(target=watch)
    thread.start()
    yield killed
    thread.join()


@pytest.mark.long
@pytest.mark.parametrize("seconds", AWAY)
def test_a_registry_that_is_killed_and_comes_back(
    seconds: int, rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    row = rows.row("one", kilobytes=64 * 1024)
    to = replace(access(server), patience=seconds + 60)
    with away_in_the_middle(server, seconds) as killed:
        (published,) = publish_rows(publisher(rows, to, said), [row])
    assert killed.is_set()
    assert sum("again in" in line for line in said) >= 2, said
    assert image_at(server, "one") == rows.record_of(row).image.id  # type: ignore[union-attr]
    assert published.sent_bytes > 64 * 2**20


def test_a_link_that_the_registry_did_not_finish_is_written_anew(
    server: RegistryServer, said: list[str], tmp_path: Path
) -> None:
    """As ``kill -9`` leaves it: the link of the blob is there, and has no digest in it."""
    content = tmp_path / "layer"
    content.write_bytes(b"a layer")
    digest = f"sha256:{hashlib.sha256(b'a layer').hexdigest()}"
    registry = Registry(access(server), said.append, sleep=lambda _seconds: None)
    registry.push_blob("team/images", digest, content)
    (link,) = server.data.glob(f"**/team/images/_layers/sha256/{digest.partition(':')[2]}/link")
    link.write_bytes(b"")
    impatient = replace(registry, access=replace(access(server), patience=1))
    with pytest.raises(PublishError, match="500"):
        impatient.has_blob("team/images", digest)
    registry.push_blob("team/images", digest, content)
    assert registry.read_blob("team/images", digest) == b"a layer"


@pytest.mark.long
def test_one_that_stays_away_is_given_up(rows: Rows, server: RegistryServer, said: list[str]) -> None:
    server.kill()
    with pytest.raises(PublishError, match=r"given up after \d+ s: connection refused"):
        publish_rows(publisher(rows, replace(access(server), patience=3), said), [rows.row("one")])


def test_a_full_disk_is_said_and_yesterday_stays(
    rows: Rows, start_registry: StartRegistry, said: list[str], runner: Runner, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    assert runner(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]).ok
    try:
        server = start_registry(tls=False, login=False, data=disk)
        by = publisher(rows, access(server), said)
        publish_rows(by, [rows.row("one"), rows.row("two")])
        yesterday = image_at(server, "one"), image_at(server, "two")
        with pytest.raises(PublishError, match="the registry's disk is full") as caught:
            publish_rows(by, [rows.row("one"), rows.row("two", kilobytes=16 * 1024)])
        assert caught.value.place == server.address
        assert (image_at(server, "one"), image_at(server, "two")) == yesterday
        server.stop()
    finally:
        assert runner(["umount", disk]).ok


def test_a_certificate_of_an_unknown_ca(rows: Rows, server: RegistryServer, said: list[str]) -> None:
    to = replace(access(server), ca=None)
    with pytest.raises(PublishError, match=r"its certificate is not trusted: .*issuer") as caught:
        publish_rows(publisher(rows, to, said), [rows.row("one")])
    assert caught.value.place == server.address
    assert said == []


def test_plain_http_where_tls_is_spoken_and_the_other_way_round(
    rows: Rows, server: RegistryServer, start_registry: StartRegistry, said: list[str]
) -> None:
    row = rows.row("one")
    plain = start_registry(tls=False, login=False)
    with pytest.raises(PublishError, match="no TLS is spoken there"):
        publish_rows(publisher(rows, replace(access(plain), plain=False), said), [row])
    with pytest.raises(PublishError, match=r"refuses \(400\).*HTTP request to an HTTPS server"):
        publish_rows(publisher(rows, replace(access(server), plain=True), said), [row])
    secure_only = start_registry(tls=False, login=True)
    with pytest.raises(PublishError, match="a password is not sent over plain http"):
        publish_rows(publisher(rows, access(secure_only), said), [row])
    assert said == []


def test_a_host_that_is_not_there(rows: Rows, said: list[str]) -> None:
    with pytest.raises(PublishError, match="no host of this name"):
        publish_rows(publisher(rows, Access(host="registry.invalid"), said), [rows.row("one")])


# -- the login -------------------------------------------------------------------------------------


def test_a_wrong_password_and_none(
    rows: Rows, server: RegistryServer, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rows.row("one")
    monkeypatch.setenv(
        "DOCKER_CONFIG", str(server.docker_config(tmp_path / "wrong", password="other-Secret"))
    )
    with pytest.raises(PublishError, match="401: the registry does not accept") as caught:
        publish_rows(publisher(rows, access(server), said), [row])
    assert "other-Secret" not in f"{caught.value}{said}"
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    with pytest.raises(PublishError, match="401: the registry asks for a login"):
        publish_rows(publisher(rows, access(server), said), [row])
    assert said == []


def test_netrc_is_not_asked(
    rows: Rows, server: RegistryServer, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("default login other password other\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    assert publish_rows(publisher(rows, access(server), said), [rows.row("one")])


def helper(folder: Path, server: RegistryServer, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Docker's configuration names a credential helper, which is this script."""
    folder.mkdir()
    program = folder / "docker-credential-planted"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    (folder / "config.json").write_text(json.dumps({"credHelpers": {server.address: "planted"}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_helper_has_the_password_and_nobody_else_sees_it(
    rows: Rows, server: RegistryServer, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    answer = json.dumps({"ServerURL": server.address, "Username": USER, "Secret": PASSWORD})
    helper(tmp_path / "helper", server, monkeypatch, f"cat >/dev/null; cat <<'E'\n{answer}\nE")
    rows.runner = Runner(show=True, log=io.StringIO())
    seen: set[bytes] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        publish_rows(publisher(rows, access(server), said), [rows.row("one", kilobytes=4096)])
    finally:
        done.set()
        thread.join()
    assert any(b"skopeo" in line for line in seen) and any(b"publish.moving" in line for line in seen)
    assert isinstance(rows.runner.log, io.StringIO)
    shown = rows.runner.log.getvalue() + "\n".join(said)
    assert "skopeo" in shown
    written = b"".join(path.read_bytes() for path in rows.project.out.rglob("*.json"))
    for secret in (PASSWORD, "cHVibGlzaGVyOn"):  # in base64 it begins with the user
        assert not any(secret.encode() in line for line in seen)
        assert secret not in shown
        assert secret.encode() not in written


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo broken >&2; exit 1", "login could not be read"),
        ('echo \'{"Username": "<token>", "Secret": "t"}\'', "identity tokens are not supported"),
    ],
)
def test_a_helper_that_does_not_help(
    script: str, cause: str, server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    rows: Rows, said: list[str],
) -> None:  # fmt: skip
    helper(tmp_path / "helper", server, monkeypatch, f"cat >/dev/null; {script}")
    with pytest.raises(PublishError, match=cause):
        publisher(rows, access(server), said)
