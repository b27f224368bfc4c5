"""One tag for rows of several platforms: each host pulls the image of its own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from publishing import BASE, Rows, access, publisher
from registry_server import RegistryServer

from stackwright.core.model.matrix import Mark, PlatformTag, Publish
from stackwright.core.model.target import AMD64, ARM64
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.publish import foretell, index_tags, indexes, publish_rows

pytestmark = pytest.mark.engine

BOTH = Publish(platforms=(PlatformTag(tag="both", rows=("x", "arm"), mark=Mark(line=1, column=1)),))


def listed(server: RegistryServer) -> dict[str, str]:
    """Platform to digest, as the tag has them."""
    index = json.loads(server.get(f"{BASE}/manifests/both", accept=indexes.INDEX))
    return {entry["platform"]["architecture"]: entry["digest"] for entry in index["manifests"]}


def test_each_host_pulls_the_image_of_its_platform(
    rows: Rows, server: RegistryServer, said: list[str], docker: Docker, runner: Runner
) -> None:
    rows.matrix_has("x", "arm", "alone", platforms={"arm": ARM64.name})
    by = publisher(rows, access(server), said, scheme=BOTH)
    made = {"amd64": rows.row("x"), "arm64": rows.row("arm")}
    assert [names.moving for names in foretell(by, [made["arm64"]])] == [("arm",), ("both",)]
    published = publish_rows(by, [*made.values(), rows.row("alone")])
    assert listed(server) == {"amd64": published[0].digest, "arm64": published[1].digest}
    reference = f"{server.address}/{BASE}:both"
    for platform in (AMD64, ARM64):
        done = runner(docker.command("pull", "--quiet", "--platform", platform.name, reference))
        assert done.ok, done.stderr
        found = engine.inspect(docker, reference)
        engine.remove(docker, reference)
        image = rows.record_of(made[platform.architecture]).image
        assert found and image and found["Id"] == image.id
        assert found["Architecture"] == platform.architecture


def test_a_platform_that_is_not_published_today_keeps_its_image(
    rows: Rows, server: RegistryServer, said: list[str]
) -> None:
    """Hosts of each platform build and publish their own rows."""
    rows.matrix_has("x", "arm", "alone", platforms={"arm": ARM64.name})
    by = publisher(rows, access(server), said, scheme=BOTH)
    (arm,) = publish_rows(by, [rows.row("arm")])
    assert listed(server) == {"arm64": arm.digest}
    (first,) = publish_rows(by, [rows.row("x")])
    assert listed(server) == {"amd64": first.digest, "arm64": arm.digest}
    (second,) = publish_rows(by, [rows.row("x", kilobytes=8)])
    assert listed(server) == {"amd64": second.digest, "arm64": arm.digest} and second.digest != first.digest
    assert index_tags(by, ["alone"]) == ()
    publish_rows(by, [rows.row("alone")])
    assert listed(server) == {"amd64": second.digest, "arm64": arm.digest}
    alone = replace(BOTH.platforms[0], rows=("arm",))
    publish_rows(replace(by, scheme=Publish(platforms=(alone,))), [rows.row("arm")])
    assert listed(server).keys() == {"arm64"}
