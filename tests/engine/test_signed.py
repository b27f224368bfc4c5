"""A SIF signed by a key that is made here, through a real registry and back; one changed byte is refused."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from pathlib import Path

import pytest
import small_repository
from own_engine import forget
from small_repository import ROOT

from stackwright.build.sif import convert
from stackwright.core.errors import ConvertError, SiteError
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.sif import layout, sign
from stackwright.engines.sif.sign import Signer
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.publish.attest import keys

pytestmark = pytest.mark.engine

ROW = "cuda12-torch"


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=settings.apt_mirror(runner))


def key(folder: Path, name: str, runner: Runner) -> Signer:
    path = folder / f"{name}.pem"
    assert runner(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path]).ok
    return sign.signer(path, runner)


@pytest.fixture(scope="module")
def ours(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return key(tmp_path_factory.mktemp("key"), "ours", runner)


@pytest.fixture(scope="module")
def signed(
    tiny: str, ours: Signer, runner: Runner, docker: Docker, apptainer: Apptainer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:  # fmt: skip
    folder = tmp_path_factory.mktemp("signed")
    (folder / "Dockerfile").write_text(f"FROM {tiny}\nLABEL a=b\n")
    name = f"stackwright-test/signed:{os.getpid()}"
    done = runner(docker.command("buildx", "build", "--tag", name, folder))
    assert done.ok, done.stderr
    target = folder / "x.sif"
    try:
        made = convert.to_sif(
            name,
            target,
            docker=docker,
            runner=runner,
            apptainer=apptainer,
            image_bytes=10**7,
            conversion=convert.Conversion(signer=ours),
        )
    finally:
        engine.remove(docker, name)
    assert made.bytes == target.stat().st_size
    return target


def test_it_is_verified_and_still_runs(signed: Path, ours: Signer, apptainer: Apptainer) -> None:
    sign.verify(apptainer, signed, ours.public)
    assert convert.labels(apptainer, signed)["a"] == "b"
    assert apptainer.exec(signed, ("echo", "runs")).stdout == "runs\n"


OBJECTS = {0x4001: "definition", 0x4006: "metadata", 0x4004: "files", 0x4005: "signature"}
"""By their codes in the table (github.com/apptainer/sif, pkg/sif/sif.go)."""


@pytest.mark.parametrize("places", ["few", pytest.param("more", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("part", OBJECTS.values())
def test_one_changed_byte_is_refused(
    part: str, places: str, signed: Path, ours: Signer, apptainer: Apptainer, tmp_path: Path
) -> None:
    """In each object, and what the table says of its kind and length. Nobody reads what fills the gaps."""
    content = signed.read_bytes()
    with signed.open("rb") as file:
        objects = layout._table(file).objects
    assert [OBJECTS[descriptor.kind] for _, descriptor in objects] == [
        "definition", "metadata", "metadata", "files", "signature"
    ]  # fmt: skip
    for where, descriptor in objects:
        if OBJECTS[descriptor.kind] != part:
            continue
        few, more = (
            (where, descriptor.offset + descriptor.length // 2),
            (where + 25, descriptor.offset, descriptor.end - 1),
        )
        for place in few if places == "few" else more:
            changed = bytearray(content)
            changed[place] ^= 1
            (tmp_path / "x.sif").write_bytes(changed)
            with pytest.raises(ConvertError, match="is not what was signed"):
                sign.verify(apptainer, tmp_path / "x.sif", ours.public)


def test_another_key_and_no_signature_are_refused(
    signed: Path, ours: Signer, runner: Runner, apptainer: Apptainer, tmp_path: Path
) -> None:
    with pytest.raises(ConvertError, match="is not what was signed"):
        sign.verify(apptainer, signed, key(tmp_path, "other", runner).public)
    shutil.copy(signed, tmp_path / "x.sif")
    listed = apptainer("sif", "list", tmp_path / "x.sif", folders=(tmp_path,)).stdout
    number = next(line.split()[0] for line in listed.splitlines() if "Signature" in line)
    assert apptainer("sif", "del", number, tmp_path / "x.sif", folders=(tmp_path,)).ok
    with pytest.raises(ConvertError, match="signature not found"):
        sign.verify(apptainer, tmp_path / "x.sif", ours.public)


@pytest.mark.parametrize("content", [None, "no key", "public", "passphrase", "of cosign"])
def test_what_is_no_private_key_is_said(
    content: str | None, ours: Signer, runner: Runner, tmp_path: Path
) -> None:
    path = tmp_path / "key.pem"
    if content == "public":
        path.write_bytes(ours.public)
    elif content == "passphrase":
        argv: list[str | Path] = ["openssl", "pkey", "-in", ours.key, "-aes256", "-out", path]
        assert runner([*argv, "-passout", "pass:secret"]).ok
    elif content == "of cosign":
        path.write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    elif content:
        path.write_text(content)
    with pytest.raises(SiteError) as caught:
        sign.signer(path, runner)
    assert ("cosign's own" in caught.value.cause) == (content == "of cosign")
    assert caught.value.place == str(path)


# -- the site's key --------------------------------------------------------------------------------


@pytest.mark.long
def test_the_command_signs_with_the_site_s_key_which_is_cosign_s_as_well(
    ours: Signer, runner: Runner, docker: Docker, apptainer: Apptainer, tmp_path: Path
) -> None:
    root = small_repository.make(tmp_path / "repository", (ROW,))
    (root / ".venv").symlink_to(ROOT / ".venv")
    site = tmp_path / "site.yaml"
    site.write_text(f"signing_key: {ours.key}\n")
    done = runner(
        ["./build.py", "--site", site, "sif", ROW, "--sign", "--format", "json"], cwd=root, timeout=300
    )
    assert done.ok, done.stderr
    (told,) = json.loads(done.stdout)["records"]
    forget(docker, told["image"]["reference"])
    assert dict(told["tools"])[convert.SIGNED_BY] == ours.fingerprint
    sign.verify(apptainer, root / told["sif"]["path"], ours.public)
    cosign = oci_tools.find(oci_tools.Name.COSIGN, runner, docker, mirror=settings.apt_mirror(runner))
    with keys.loaded(ours.key, cosign) as key:
        assert keys.keyid(key.public) == keys.keyid(ours.public)


# -- through a registry -----------------------------------------------------------------------------


def test_pushed_pulled_and_verified(
    registry: str, signed: Path, ours: Signer, apptainer: Apptainer, tmp_path: Path
) -> None:
    address = f"oras://{registry}/rows/tiny:1"
    digest = sign.push(apptainer, signed, address, public=ours.public, plain=True)
    assert len(digest) == 64
    sign.pull(apptainer, address, tmp_path / "back.sif", public=ours.public, plain=True)
    assert (tmp_path / "back.sif").read_bytes() == signed.read_bytes()
    assert [path.name for path in signed.parent.iterdir() if path.name.startswith(".pulled")] == []


def test_a_file_that_was_changed_is_not_pushed(
    registry: str, signed: Path, ours: Signer, apptainer: Apptainer, tmp_path: Path
) -> None:
    content = bytearray(signed.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "x.sif").write_bytes(content)
    with pytest.raises(ConvertError, match="is not what was signed"):
        sign.push(apptainer, tmp_path / "x.sif", f"oras://{registry}/a/x:1", public=ours.public, plain=True)
    with urllib.request.urlopen(f"http://{registry}/v2/_catalog") as answer:
        assert b'"repositories":[]' in answer.read()


def test_a_file_that_is_cut_short_is_not_pushed_though_nobody_signed_it(
    registry: str, signed: Path, apptainer: Apptainer, tmp_path: Path
) -> None:
    (tmp_path / "x.sif").write_bytes(signed.read_bytes()[:-5000])
    with pytest.raises(ConvertError, match="cut short"):
        sign.push(apptainer, tmp_path / "x.sif", f"oras://{registry}/rows/x:1", public=None, plain=True)
    with urllib.request.urlopen(f"http://{registry}/v2/_catalog") as answer:
        assert b'"repositories":[]' in answer.read()


@pytest.mark.long
def test_what_another_put_into_the_registry_does_not_get_a_name(
    registry: str, signed: Path, ours: Signer, runner: Runner, apptainer: Apptainer, tmp_path: Path
) -> None:
    other = key(tmp_path, "other", runner)
    shutil.copy(signed, tmp_path / "theirs.sif")
    assert apptainer("sif", "del", "5", tmp_path / "theirs.sif", folders=(tmp_path,)).ok
    sign.sign(apptainer, tmp_path / "theirs.sif", other)
    address = f"oras://{registry}/rows/tiny:1"
    sign.push(apptainer, tmp_path / "theirs.sif", address, public=other.public, plain=True)
    (tmp_path / "x.sif").write_text("the one of yesterday")
    with pytest.raises(ConvertError, match="is not what was signed"):
        sign.pull(apptainer, address, tmp_path / "x.sif", public=ours.public, plain=True)
    assert (tmp_path / "x.sif").read_text() == "the one of yesterday"


def test_a_registry_that_is_not_there_and_an_address_of_none_are_errors(
    signed: Path, ours: Signer, apptainer: Apptainer
) -> None:
    with pytest.raises(SiteError, match="could not be pushed"):
        sign.push(apptainer, signed, "oras://127.0.0.1:9/x:1", public=ours.public, plain=True)
    with pytest.raises(SiteError, match="not an address"):
        sign.push(apptainer, signed, "docker://127.0.0.1/x:1", public=ours.public)
