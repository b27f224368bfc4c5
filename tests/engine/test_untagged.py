"""Images on their way between machines: pushed without a tag, pulled by digest, and not believed unseen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from publishing import BASE, Rows, access, publisher, verdict
from registry_server import RegistryServer, StartRegistry

from stackwright.cli.app import App
from stackwright.cli.commands.shards import publisher as site_publisher
from stackwright.core.errors import PublishError, RecordError
from stackwright.core.model.record import Record
from stackwright.core.model.row import Tier
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned
from stackwright.host.shipped import ROOT
from stackwright.publish import Publisher, by_digest
from stackwright.records import files as record

pytestmark = pytest.mark.engine


@pytest.fixture
def server(start_registry: StartRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegistryServer:
    server = start_registry()
    monkeypatch.setenv("DOCKER_CONFIG", str(server.docker_config(tmp_path / "docker")))
    return server


@pytest.fixture
def by(rows: Rows, server: RegistryServer) -> Publisher:
    return publisher(rows, access(server), [])


def noted(rows: Rows, row: Planned, **image: str) -> Record:
    """Its record, with other values of its image."""
    known = rows.record_of(row)
    assert known.image is not None
    known = replace(known, image=replace(known.image, **image))  # type: ignore[arg-type]
    record.write(known, rows.project.records)
    return known


def test_it_goes_by_digest_whatever_the_verdict_and_has_no_tag(
    rows: Rows, by: Publisher, server: RegistryServer
) -> None:
    row = rows.row("one", judged=verdict(failed=(Tier.STATIC,)))
    by_digest.push(by, row)
    known = rows.record_of(row)
    assert known.image is not None
    assert server.get(f"{BASE}/manifests/{known.image.digest}")
    assert server.tags(BASE) == []


def test_another_machine_has_the_same_image_and_is_to_prove_it_again(
    rows: Rows, by: Publisher, docker: Docker
) -> None:
    row = rows.row("one")
    known = rows.record_of(row)
    assert known.image is not None
    record.write(replace(known, verdicts=(verdict(), verdict(world="sif"))), rows.project.records)
    by_digest.push(by, row)
    engine.remove(docker, known.image.reference)
    assert not engine.image_exists(docker, known.image.reference)
    by_digest.fetch(by, row)
    found = engine.inspect(docker, known.image.reference)
    assert found is not None
    assert found["Id"] == known.image.id
    assert [judged.world for judged in rows.record_of(row).verdicts] == ["sif"]


def test_another_image_under_that_digest_is_refused(rows: Rows, by: Publisher) -> None:
    one, two = rows.row("one"), rows.row("two")
    for row in (one, two):
        by_digest.push(by, row)
    other = rows.record_of(two)
    assert other.image is not None
    noted(rows, one, digest=other.image.digest)
    with pytest.raises(PublishError, match="another id"):
        by_digest.fetch(by, one)
    assert rows.record_of(one).verdict("docker") is not None


def test_what_nobody_pushed_is_said(rows: Rows, by: Publisher) -> None:
    row = rows.row("one")
    with pytest.raises(PublishError, match="it was not pushed"):
        by_digest.fetch(by, row)
    noted(rows, row, digest=f"sha256:{'0' * 64}")
    with pytest.raises(PublishError, match=r"not found|unknown"):
        by_digest.fetch(by, row)


def test_a_row_without_a_record_is_said(rows: Rows, by: Publisher, tmp_path: Path) -> None:
    row = rows.row("one")
    elsewhere = replace(by, project=replace(by.project, out=tmp_path / "elsewhere"))
    for act in (by_digest.push, by_digest.fetch):
        with pytest.raises(RecordError, match="no record of its image is here"):
            act(elsewhere, row)


def test_a_wrong_password_is_said_and_not_shown(
    rows: Rows, by: Publisher, server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rows.row("one")
    by_digest.push(by, row)
    wrong = server.docker_config(tmp_path / "wrong", password="another-Passw0rd")
    monkeypatch.setenv("DOCKER_CONFIG", str(wrong))
    with pytest.raises(PublishError) as raised:
        by_digest.fetch(by, row)
    assert "unauthorized" in str(raised.value)
    assert "another-Passw0rd" not in str(raised.value)


@pytest.mark.parametrize("key", ["key.pem", ""])
def test_a_night_signs_what_it_publishes_where_the_site_has_a_key(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    (tmp_path / "key.pem").touch()
    monkeypatch.setenv("STACKWRIGHT_REGISTRY", f"{server.address}/{BASE}")
    monkeypatch.setenv("STACKWRIGHT_SIGNING_KEY", str(tmp_path / key) if key else "")
    app = App(ROOT / "matrix.yaml", tmp_path / "out", False)
    host, base, make = site_publisher(app)
    assert (host, base) == (server.address, BASE)
    assert (make().before_tags is not None) is bool(key)
