"""What a site says to a build is found in every layer, and by no name that tells what it is."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import certifi
import pytest
from image_facts import stack

from stackwright.core.checks.tables.static import site_layers
from stackwright.core.model.site import RegistryAddress, Site
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.probe import site_leaks
from stackwright.probe.outside.content import CHUNK

pytestmark = pytest.mark.engine
IMAGE = "stackwright-test/leftovers:1"
VALUES = {
    "mirror": "http://mirror.planted.example/debian",
    "index (index-url)": "https://reader:planted%2FPassw0rd@pypi.planted.example/simple",
    "proxy": "http://user:planted-proxy@127.0.0.1:3128",
    "registry": "registry.planted.example:5000/hpc/images",
    "cache": "cache.planted.example/hpc",
}


@pytest.fixture(scope="module")
def site(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=site"]
    assert runner([*new, "-keyout", folder / "x", "-out", folder / "own.pem"]).ok
    assert runner(["openssl", "genpkey", "-algorithm", "ed25519", "-out", folder / "key.pem"]).ok
    public = Path("/etc/ssl/certs/ca-certificates.crt").read_text()
    (folder / "ca.pem").write_text(public + (folder / "own.pem").read_text())
    return Site(
        mirror=VALUES["mirror"], ca=folder / "ca.pem", pip=(("index-url", VALUES["index (index-url)"]),),
        proxies=(("https_proxy", VALUES["proxy"]), ("no_proxy", "localhost")), cache=VALUES["cache"],
        signing_key=folder / "key.pem",
        registry=RegistryAddress(host="registry.planted.example:5000", repository="hpc/images", ca=None),
    )  # fmt: skip


@pytest.fixture
def image(tiny: str, docker: Docker, runner: Runner, tmp_path: Path) -> Iterator[str]:
    """Built by ``Dockerfile`` in tmp_path, which a test writes with ``build``."""
    (tmp_path / "head").write_text(f"FROM {tiny}\n")
    yield IMAGE
    engine.remove(docker, IMAGE)


def build(docker: Docker, runner: Runner, folder: Path, instructions: str, content: bytes = b"") -> None:
    (folder / "content").write_bytes(content)
    (folder / "Dockerfile").write_text((folder / "head").read_text() + instructions)
    done = runner(docker.command("buildx", "build", "--provenance=false", "--tag", IMAGE, folder))
    assert done.ok, done.stderr


def found(docker: Docker, site: Site, *, archive: bool) -> set[tuple[str, str]]:
    """Name of the value and path, by the folders of the engine or by an archive of `docker save`."""
    if archive:
        docker = Docker(program=docker.program, host=docker.host, version="", driver="", root="")
    with pytest.MonkeyPatch.context() as patch:
        if archive:
            patch.setattr(os, "geteuid", lambda: 1000)
        facts = site_leaks.facts(docker, IMAGE, site)
    assert facts["layers"] >= 2
    return {(entry["what"], entry["path"]) for entry in facts["left"]}


DELETED = "COPY content /left\nRUN rm /left && touch /upper\n"


@pytest.mark.parametrize("archive", [False, True])
def test_every_value_is_found_in_a_file_that_a_later_layer_deletes(
    archive: bool, image: str, site: Site, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    assert site.ca and site.signing_key
    contents = {name: [text, hashlib.sha256(text.encode()).hexdigest()] for name, text in VALUES.items()}
    contents["index (index-url)"] += ["planted/Passw0rd", "planted%2FPassw0rd"]
    contents["proxy"] += ["planted-proxy", "http://127.0.0.1:3128"]
    contents["ca"] = [(site.ca.parent / "own.pem").read_text()]
    contents["ca"] += [hashlib.sha256(site.ca.read_bytes()).hexdigest()]
    contents["signing key"] = [site.signing_key.read_text()]
    planted = [(name, text) for name, texts in contents.items() for text in texts]
    (tmp_path / "contents").mkdir()
    for number, (_, text) in enumerate(planted):
        content = b"\0" * (CHUNK - 20) + text.encode() + b"\0" * 100
        (tmp_path / "contents" / str(number)).write_bytes(content)
    build(docker, runner, tmp_path, "COPY contents /left\nRUN rm -r /left && touch /upper\n")
    wanted = {(name, f"left/{number}") for number, (name, _) in enumerate(planted)}
    assert found(docker, site, archive=archive) == wanted


@pytest.mark.parametrize("archive", [False, True])
def test_an_authority_that_the_images_own_package_has_is_not_the_sites(
    archive: bool, image: str, site: Site, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    """A site's bundle holds what its system's package had, which may be older or newer than the image's."""
    assert site.ca
    content = (site.ca.parent / "own.pem").read_bytes()
    packaged = "COPY content /usr/share/ca-certificates/mozilla/Known.crt\n"
    build(docker, runner, tmp_path, packaged + DELETED, content)
    assert found(docker, site, archive=archive) == set()
    build(docker, runner, tmp_path, packaged.replace("/share/", "/local/share/"), content)
    assert found(docker, site, archive=archive) == {
        ("ca", "usr/local/share/ca-certificates/mozilla/Known.crt")
    }


@pytest.mark.parametrize("archive", [False, True])
def test_an_authority_in_a_file_that_is_as_its_wheel_has_it_is_not_the_sites(
    archive: bool, image: str, site: Site, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    """Programs in wheels bring authorities of their own day, which a site's bundle may still have."""
    assert site.ca
    content = (site.ca.parent / "own.pem").read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    (tmp_path / "RECORD").write_text(f"x/server,sha256={digest},{len(content)}\nx-1.dist-info/RECORD,,\n")
    packages = "opt/stack/lib/python3.13/site-packages"
    wheel = f"COPY RECORD /new/{packages}/x-1.dist-info/RECORD\nCOPY content /new/{packages}/x/server\n"
    one_layer = f"FROM scratch AS new\n{wheel}FROM {{}}\nCOPY --from=new /new /\nRUN touch /upper\n"
    tiny = (tmp_path / "head").read_text().split()[1]
    (tmp_path / "head").write_text("")
    build(docker, runner, tmp_path, one_layer.format(tiny), content)
    assert found(docker, site, archive=archive) == set()
    left = {("ca", f"{packages}/x/server")}
    build(docker, runner, tmp_path, one_layer.format(tiny), content + b"\n")
    assert found(docker, site, archive=archive) == left, "certifi's list with one more, say"
    build(docker, runner, tmp_path, one_layer.format(tiny).replace("x-1.dist-info", "x-1"), content)
    assert found(docker, site, archive=archive) == left


@pytest.mark.parametrize("archive", [False, True])
def test_an_image_with_nothing_of_the_site_is_clean_and_the_public_ones_are_not_the_sites(
    archive: bool, image: str, site: Site, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    public = Path(certifi.where()).read_bytes()
    mirror, index = "http://ftp.debian.org/debian", "https://packages.pythonhosted.org/simple"
    build(docker, runner, tmp_path, DELETED, public + f"{mirror} {index}".encode())
    usual = replace(site, mirror=mirror, pip=(("index-url", index),))
    assert found(docker, usual, archive=archive) == set()
    lookalike = replace(site, mirror="http://ftp.debian.org.planted.example/debian")
    build(docker, runner, tmp_path, DELETED, (lookalike.mirror or "").encode())
    assert found(docker, lookalike, archive=archive) == {("mirror", "left")}


def test_a_link_and_what_the_image_says_of_itself(
    image: str, site: Site, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    url = VALUES["mirror"]
    build(docker, runner, tmp_path, f"RUN true {url}\nRUN touch /a\n")
    assert found(docker, site, archive=False) == {("mirror", "its configuration")}
    build(docker, runner, tmp_path, f"LABEL a={url}\nRUN touch /a\n")
    assert found(docker, site, archive=False) == {("mirror", "its configuration")}
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "link").symlink_to("/mnt/mirror.planted.example/x")
    build(docker, runner, tmp_path, "COPY links /links\nRUN rm /links/link\n")
    assert found(docker, site, archive=False) == {("mirror", "links/link")}


def test_the_check_is_red_and_nothing_of_the_value_is_in_facts_or_verdict(
    image: str, site: Site, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    build(docker, runner, tmp_path, DELETED, b" ".join(text.encode() for text in VALUES.values()))
    facts = {"layers": site_leaks.facts(docker, IMAGE, site)}
    finding = site_layers(stack(), facts)
    assert finding.problems
    told = json.dumps(facts) + str(finding)
    assert "planted" not in told and "127.0.0.1" not in told
    assert "mirror in left of layer" in told
