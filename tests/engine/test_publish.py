"""Rows to a real registry with TLS and a login: what arrives, and what the gate refuses."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from own_engine import TINY, StartEngine
from publishing import BASE, MANIFEST, Rows, access, image_at, publisher, verdict
from registry_server import RegistryServer, StartRegistry

from stackwright.core.errors import DiskError, GateError, MatrixError, PublishError
from stackwright.core.model.matrix import Publish
from stackwright.core.model.record import Record
from stackwright.core.model.row import Tier
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.publish import Published, publish_rows
from stackwright.publish.attest.statements.statement import ENVELOPE, PREDICATE_TYPE, Kind
from stackwright.publish.packing import _require_same, of_image
from stackwright.publish.registry.client import Manifest
from stackwright.records import files as record

pytestmark = pytest.mark.engine


def test_it_goes_by_digest_then_gets_its_tags_and_is_what_was_probed(
    rows: Rows, server: RegistryServer, said: list[str], docker: Docker, runner: Runner
) -> None:
    row = rows.row("one")
    tags_before: list[list[str]] = []

    def before_tags(published: Published, _row: Planned, record: Record) -> None:
        assert record.image and record.image.digest == published.digest
        server.get(f"{BASE}/manifests/{published.digest}", accept=MANIFEST)
        tags_before.append(server.tags(BASE))

    by = publisher(rows, access(server), said, before_tags=before_tags)
    (published,) = publish_rows(by, [row])
    assert tags_before == [[]]
    assert published.reference == f"{server.address}/{BASE}@{published.digest}"
    assert (
        set(server.tags(BASE)) == set(published.tags) == {"one", "one-20260102", f"one-{row.recipe.key[:12]}"}
    )
    image = rows.record_of(row).image
    assert image and image.digest == published.digest
    engine.remove(docker, image.reference)
    pulled = runner(docker.command("pull", "--quiet", published.reference))
    assert pulled.ok, pulled.stderr
    found = engine.inspect(docker, published.reference)
    engine.remove(docker, published.reference)
    assert found and found["Id"] == image.id


def test_what_is_there_is_not_sent_again(rows: Rows, server: RegistryServer, said: list[str]) -> None:
    one, two = rows.row("one"), rows.row("two", kilobytes=256)
    by = publisher(rows, access(server), said)
    first, second = publish_rows(by, [one, two])
    assert first.sent_bytes > 10**6 and first.present_bytes == 0
    assert 256 * 1024 < second.sent_bytes < 300 * 1024, "the base is there already"
    assert second.present_bytes > 900_000
    again = publish_rows(by, [one, two])
    assert [published.sent_bytes for published in again] == [0, 0]
    assert [published.digest for published in again] == [first.digest, second.digest]
    assert any("0 bytes sent" in line for line in said)
    assert [published.pull_bytes for published in (first, second, *again)] == [None, None, 0, 0]


def test_what_a_node_pulls_is_what_yesterdays_image_does_not_have(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    publish_rows(by, [rows.row("one")])
    (today,) = publish_rows(by, [rows.row("one", kilobytes=256)])
    assert today.pull_bytes is not None and 256 * 1024 < today.pull_bytes < 300 * 1024


def test_the_same_image_gets_the_same_digest_where_nobody_remembers_it(
    rows: Rows, server: RegistryServer, start_registry: StartRegistry, said: list[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    row = rows.row("one", kilobytes=2048)
    (first,) = publish_rows(publisher(rows, access(server), said), [row])
    other = start_registry()
    monkeypatch.setenv("DOCKER_CONFIG", str(other.docker_config(tmp_path / "other")))
    (second,) = publish_rows(publisher(rows, access(other), said), [row])
    assert second.sent_bytes == first.sent_bytes
    assert second.digest == first.digest


def test_rows_in_repositories_of_their_own_share_layers(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    scheme = Publish(repository="{row}", tags=("{date}",), moving=("latest",))
    by = publisher(rows, access(server), said, scheme=scheme)
    _, second = publish_rows(by, [rows.row("one"), rows.row("two")])
    assert server.tags(f"{BASE}/two") == ["20260102", "latest"]
    assert second.present_bytes > 900_000, "the registry took the base over from the other repository"


def test_two_rows_cannot_get_one_tag(rows: Rows, server: RegistryServer, said: list[str]) -> None:
    by = publisher(rows, access(server), said, scheme=Publish(moving=("latest",)))
    with pytest.raises(MatrixError, match="one and two would both be team/images:latest"):
        publish_rows(by, [rows.row("one"), rows.row("two")])
    assert server.tags(BASE) == []


@pytest.mark.parametrize("containerd", [False, True])
def test_what_is_packed_is_what_the_engine_has(
    containerd: bool, start_engine: StartEngine, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    """Engines on containerd's store know an image by another digest than that of its configuration."""
    store = {"features": {"containerd-snapshotter": True}, "storage-driver": "overlayfs"}
    own = start_engine(store if containerd else None).docker
    found = engine.inspect(own, TINY)
    assert found
    skopeo = oci_tools.find(oci_tools.Name.SKOPEO, runner, docker, mirror=settings.apt_mirror(runner))
    made = of_image(found["Id"], 10**7, tmp_path, docker=own, runner=runner, skopeo=skopeo)
    assert (made.manifest.document["config"]["digest"] == found["Id"]) is not containerd
    assert {path.stat().st_size for _, path in made.files} == set(made.manifest.blobs.values())
    (tmp_path / "another").write_bytes(b'{"rootfs": {"diff_ids": []}, "config": {}}')
    with pytest.raises(PublishError, match="not the image that was probed"):
        _require_same("another", tmp_path, found)


def test_too_little_disk_to_pack_is_said_before_it_is_full(
    rows: Rows, server: RegistryServer, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stackwright.publish.packing.PEAK", 10**9)
    with pytest.raises(DiskError, match="GB are needed to pack the image"):
        publish_rows(publisher(rows, access(server), said), [rows.row("one")])


def test_what_a_killed_process_left_is_taken_away(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    (by.folder / "packing-1").mkdir(parents=True)
    publish_rows(by, [rows.row("one")])
    assert list(by.folder.glob("packing-*")) == []


# -- the gate --------------------------------------------------------------------------------------


def test_one_row_that_may_not_be_published_takes_the_others_along(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    bad = rows.row("bad", judged=verdict(not_run=(Tier.COLLECTIVE,)))
    by = publisher(rows, access(server), said, allow_less=("bad", "good"))
    with pytest.raises(GateError, match="bad: the tier collective is not run in docker"):
        publish_rows(by, [rows.row("good"), bad])
    assert server.tags(BASE) == []
    assert list(server.data.glob("**/_layers")) == [], "nothing was sent"


def test_less_than_yesterday_is_refused_until_it_is_told_by_name(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    frameworks = (("torch", "2.6.0"), ("tensorflow", "2.18.0"))
    publish_rows(by, [rows.row("one", frameworks=frameworks, judged=verdict(not_run=()))])
    yesterday = image_at(server, "one")
    less = rows.row("one", gpu_arch=("9.0",))
    with pytest.raises(GateError) as caught:
        publish_rows(by, [less])
    for what in ("tensorflow 2.18.0", "GPU architecture 8.0", "the tier gpu passed in docker"):
        assert f"one: yesterday it had {what}" in caught.value.cause
    assert "--allow-less one" in caught.value.hint
    with pytest.raises(GateError):
        publish_rows(replace(by, allow_less=("another",)), [less])
    assert image_at(server, "one") == yesterday
    publish_rows(replace(by, allow_less=("one",)), [less])
    assert image_at(server, "one") != yesterday


def test_where_no_record_of_yesterday_is_found_the_image_itself_tells(
    rows: Rows, server: RegistryServer, said: list[str], tmp_path: Path
) -> None:
    publish_rows(publisher(rows, access(server), said), [rows.row("one")])
    elsewhere = Rows(tmp_path / "another machine", rows.docker, rows.runner)
    less = elsewhere.row("one", frameworks=())
    rows.made += elsewhere.made
    with pytest.raises(GateError, match=r"yesterday it had torch 2\.6\.0"):
        publish_rows(publisher(elsewhere, access(server), said), [less])
    assert any("its tiers cannot be compared" in line for line in said)


def test_the_record_that_was_attached_tells_which_tiers_had_passed(
    rows: Rows, server: RegistryServer, said: list[str], tmp_path: Path
) -> None:
    """By the tag that clients keep, because this registry has no API of referrers."""
    oras = oci_tools.find(
        oci_tools.Name.ORAS, rows.runner, rows.docker, mirror=settings.apt_mirror(rows.runner)
    )
    assert server.ca
    env = {"DOCKER_CONFIG": os.environ["DOCKER_CONFIG"], "SSL_CERT_FILE": str(server.ca)}

    def attach(published: Published, _row: Planned, known: Record) -> None:
        for name, kind, predicate in (("bom", "x", {}), ("record", Kind.RECORD, record.as_json(known))):
            payload = base64.b64encode(json.dumps({"predicate": predicate}).encode()).decode()
            (tmp_path / name).write_text(json.dumps({"payload": payload}))
            words = ("--artifact-type", ENVELOPE, "--annotation", f"{PREDICATE_TYPE}={kind}")
            done = oras(
                "attach", *words, "--disable-path-validation", published.reference,
                f"{tmp_path / name}:{ENVELOPE}",
                folders=(tmp_path, server.ca.parent), env=env,  # type: ignore[union-attr]
            )  # fmt: skip
            assert done.ok, done.stderr

    by = publisher(rows, access(server), said, before_tags=attach)
    publish_rows(by, [rows.row("one", judged=verdict(not_run=()))])
    elsewhere = Rows(tmp_path / "another machine", rows.docker, rows.runner)
    less = elsewhere.row("one")
    rows.made += elsewhere.made
    with pytest.raises(GateError, match="one: yesterday it had the tier gpu passed in docker"):
        publish_rows(publisher(elsewhere, access(server), said), [less])
    assert not any("cannot be compared" in line for line in said)


def test_a_tag_that_leads_to_something_else_is_no_yesterday(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    by = publisher(rows, access(server), said)
    index = b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}'
    kind = "application/vnd.oci.image.index.v1+json"
    by.registry.put_manifest(BASE, "one", Manifest(content=index, media_type=kind))
    publish_rows(by, [rows.row("one")])


def test_what_the_hook_raises_keeps_all_tags_where_they_are(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    def refuse(published: Published, _row: Planned, record: Record) -> None:
        if published.row == "two":
            raise PublishError("it could not be signed")

    by = publisher(rows, access(server), said, before_tags=refuse)
    with pytest.raises(PublishError, match="could not be signed"):
        publish_rows(by, [rows.row("one"), rows.row("two")])
    assert server.tags(BASE) == []
