"""Signed with a key made here, through a real registry, and verified without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attested import Published, TheSite, made_key
from signed_image import SmallRow
from tampering import Tampered

from stackwright.core.errors import AttestError, PublishError, SiteError
from stackwright.core.model.record import Phase, Record, Status
from stackwright.core.model.row import Check, Outcome, Tier
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.publish import signers
from stackwright.publish.attest import keys, oras, verify
from stackwright.publish.attest.keys import PublicKey
from stackwright.publish.attest.layers import chain
from stackwright.publish.attest.oci_layout import Layout, image_of
from stackwright.publish.attest.statements import provenance, sbom
from stackwright.publish.attest.statements.statement import (
    ENVELOPE,
    OF_A_ROW,
    PREDICATE_TYPE,
    Kind,
    open_envelope,
)

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[2]


# -- the original -----------------------------------------------------------------------------------


def test_the_original_is_accepted(the_site: TheSite, published: Published) -> None:
    assert published.attached.new == OF_A_ROW
    done = the_site.verify(published.copy)
    assert done.record == published.small.record
    assert done.notes == ()
    assert done.components > 30
    assert dict(done.vulnerabilities) == {"CVE-2024-10190": "affected", "CVE-2026-31234": "affected"}
    assert f"is the row {done.record.row}" in "\n".join(verify.lines(done, the_site.public))


def test_cosign_by_itself_accepts_each_statement(
    the_site: TheSite, published: Published, runner: Runner
) -> None:
    """By its own command, from the files of the registry: nobody needs Stackwright to check a signature."""
    layout = Layout(folder=published.copy)
    image = image_of(layout, oras.COPIED)
    for referrer in layout.referrers(image):
        envelope = layout.path(referrer.document["layers"][0]["digest"], "")
        kind = referrer.document["annotations"]["in-toto.io/predicate-type"]
        (published.copy / "key.pub").write_bytes(the_site.public.pem)
        done = the_site.cosign(
            "verify-blob-attestation", "--key", published.copy / "key.pub", "--insecure-ignore-tlog",
            "--type", kind, "--signature", envelope, layout.path(image, ""), folders=(published.copy,),
        )  # fmt: skip
        assert done.ok and "Verified OK" in done.stderr


def test_the_registry_lists_the_referrers_under_the_tag_that_stands_for_them(
    the_site: TheSite, published: Published
) -> None:
    """docker-registry 2.8 has no API for referrers."""
    fallback = published.attached.image.replace(":", "-")
    assert the_site.server.tags("hpc/cuda12-torch") == ["1", fallback]


def test_attaching_again_attaches_what_is_missing_alone(
    the_site: TheSite, published: Published, small: SmallRow, tmp_path: Path
) -> None:
    assert the_site.publish(small, "hpc/cuda12-torch", tmp_path).attached.new == ()


def test_an_annotation_alone_keeps_nothing_from_being_signed(
    the_site: TheSite, published: Published, small: SmallRow, tmp_path: Path
) -> None:
    """Who may write to the registry calls the verdict, which the key did sign, by the names of the others."""
    layout = Layout(folder=published.copy)
    told = [referrer.document for referrer in layout.referrers(published.attached.image)]
    (verdict,) = (document for document in told if document["annotations"][PREDICATE_TYPE] == Kind.VERDICT)
    target = the_site.push(small, "hpc/annotated")
    with the_site.access("hpc/annotated") as registry:
        for document in told:
            file = layout.path(verdict["layers"][0]["digest"], "")
            registry.attach(target, ENVELOPE, file, document["annotations"])
    again = the_site.publish(small, "hpc/annotated", tmp_path)
    assert set(again.attached.new) == set(OF_A_ROW) - {Kind.VERDICT}
    assert the_site.verify(again.copy).record == small.record


def test_why_something_else_failed_is_not_published(
    the_site: TheSite, small: SmallRow, tmp_path: Path
) -> None:
    """The image is proven, and then its .sif could not be made: the site's mirror did not answer."""
    reason = "apt-get: http://mirror.planted.example/debian does not answer"
    failed = replace(small.record, status=Status.FAILED, phase=Phase.SIF, reason=reason)
    done = the_site.publish(replace(small, record=failed), "hpc/failed", tmp_path)
    layout = Layout(folder=done.copy)
    found = [
        open_envelope(layout.path(referrer.document["layers"][0]["digest"], "").read_bytes(), "").payload
        for referrer in layout.referrers(done.attached.image)
    ]
    assert len(found) == len(OF_A_ROW)
    assert any(b'"status":"failed"' in payload for payload in found), "it is this record"
    assert not any(b"planted" in payload for payload in found)


def test_a_new_key_signs_beside_the_old_one(
    the_site: TheSite, published: Published, small: SmallRow, runner: Runner, tmp_path: Path
) -> None:
    """Who has the old key and who has the new one verify the same image."""
    new = replace(the_site, key=made_key(tmp_path, "new", runner))
    assert runner(["openssl", "pkey", "-in", new.key, "-pubout", "-out", tmp_path / "new.pub"]).ok
    both = new.publish(small, "hpc/cuda12-torch", tmp_path / "copy")
    assert both.attached.new == OF_A_ROW
    the_site.verify(both.copy)
    second = keys.public_key(tmp_path / "new.pub", runner)
    done = the_site.verify(both.copy, key=second)
    assert len(done.notes) == len(OF_A_ROW) and all("signed by another key" in note for note in done.notes)
    assert _signers(the_site, both.copy, second) == (the_site.public, second)
    with pytest.raises(AttestError, match="1 of the 2 keys signed it, and 2 are asked for"):
        _signers(the_site, published.copy, second)


def _signers(the_site: TheSite, folder: Path, second: PublicKey) -> tuple[PublicKey, ...]:
    """The keys that signed it, where both are asked for, as `verify --key A --key B` does."""
    layout = Layout(folder=folder)
    image = image_of(layout, oras.COPIED)
    asked = chain.Asked(key=second, cosign=the_site.cosign, at=datetime.now(UTC))
    both, threshold = signers.distinct((the_site.public, second, second), None)
    found = signers.verify(both, threshold, lambda key: chain.verify(layout, image, replace(asked, key=key)))
    assert "signers     2, and 2 are asked for" in signers.lines(found)[-1]
    assert [told["key"] for told in signers.document(found)["signers"]] == [key.id for key in both]
    return tuple(signer.key for signer in found.signed)


def test_the_command_verifies_a_copy_without_a_network(
    the_site: TheSite, published: Published, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    """As on another machine: cosign and the public key are there, and neither a registry nor an engine."""
    programs = tmp_path / "bin"
    programs.mkdir()
    made = runner(docker.command("create", oci_tools.IMAGE.name, "cosign"))
    assert made.ok, made.stderr
    runner(docker.command("cp", f"{made.stdout.strip()}:/usr/bin/cosign", programs))
    runner(docker.command("rm", made.stdout.strip()))
    argv: list[str | Path] = [
        "unshare",
        "--net",
        sys.executable,
        ROOT / "build.py",
        "verify",
        published.copy,
        "--format",
        "json",
    ]
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "DOCKER_HOST": "unix:///nonexistent",
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [*argv, "--key", the_site.key.with_suffix(".crt")],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["image"] == published.attached.image
    assert document["tiers"]["collective"] == "passed"
    assert document["valid_until"]


def test_the_command_refuses_with_one_message_and_an_exit_code(the_site: TheSite, tampered: Tampered) -> None:
    tampered.change_byte(tampered.image["layers"][-1]["digest"])
    argv: list[str | Path] = [sys.executable, ROOT / "build.py", "verify", tampered.folder]
    words: list[str | Path] = ["--key", the_site.key.with_suffix(".crt")]
    done = subprocess.run([*argv, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (AttestError.exit_code, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("error: layer ") and ": was changed" in first
    assert second.startswith("  next: ")


def test_the_command_verifies_what_the_registry_has(
    the_site: TheSite, published: Published, tmp_path: Path
) -> None:
    argv: list[str | Path] = [sys.executable, ROOT / "build.py", "verify", published.reference]
    environ = {
        **os.environ,
        "SSL_CERT_FILE": str(the_site.server.ca),
    }
    words: list[str | Path] = ["--key", the_site.key.with_suffix(".crt"), "--keep", tmp_path / "kept"]
    done = subprocess.run([*argv, *words], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "each as its digest says" in done.stdout
    the_site.verify(tmp_path / "kept")


# -- a registry that is not as it should be


def test_a_registry_whose_files_were_changed_is_refused(
    the_site: TheSite, small: SmallRow, tmp_path: Path
) -> None:
    done = the_site.publish(small, "hpc/changed", tmp_path / "whole")
    layer = Tampered(folder=tmp_path / "whole", cosign=the_site.cosign, key=the_site.key).image["layers"][-1][
        "digest"
    ]
    (path,) = the_site.server.data.glob(f"**/blobs/sha256/*/{layer.removeprefix('sha256:')}/data")
    whole = path.read_bytes()
    content = bytearray(whole)
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with oras.to_registry(done.reference, the_site.settings, the_site.oras, say=print) as registry:
        with pytest.raises(AttestError, match="do not match the digest"):
            registry.copy(done.reference, tmp_path / "again")
        path.write_bytes(whole)  # other images of the registry have this layer too
        registry.copy(done.reference, tmp_path / "mended")


@pytest.mark.long
def test_a_registry_that_is_away_for_a_while_is_waited_for(
    the_site: TheSite, published: Published, tmp_path: Path
) -> None:
    the_site.server.kill()
    with oras.to_registry(published.reference, the_site.settings, the_site.oras, say=print) as registry:
        hasty = replace(registry, patience=0.0)
        with pytest.raises(PublishError, match="the registry does not answer"):
            hasty.copy(published.reference, tmp_path / "hasty")
        back = threading.Timer(8.0, the_site.server.start)
        back.start()
        registry.copy(published.reference, tmp_path / "patient")
        back.join()
    the_site.verify(tmp_path / "patient")


# -- nothing that was not probed is signed ----------------------------------------------------------


def other_image(record: Record) -> Record:
    assert record.image
    return replace(record, image=replace(record.image, id=f"sha256:{'0' * 64}"))


def other_digest(record: Record) -> Record:
    assert record.image
    return replace(record, image=replace(record.image, digest=f"sha256:{'0' * 64}"))


def other_found(record: Record) -> Record:
    return replace(record, found=(*record.found[:-1], ("torch", "9")))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (other_image, "the record is of the image sha256:0000"),
        (other_digest, "the record is of the published sha256:0000"),
        (other_found, "the facts are of another probing"),
        (lambda record: replace(record, key="f" * 64), "the record is of cuda12-torch ffff"),
    ],
)
def test_nothing_is_signed_of_an_image_that_was_not_probed(
    change: Callable[[Record], Record], cause: str, the_site: TheSite, small: SmallRow, tmp_path: Path
) -> None:
    changed = replace(small, record=change(small.record))
    with pytest.raises(AttestError, match=cause):
        the_site.publish(changed, "hpc/unsigned", tmp_path)
    assert the_site.server.tags("hpc/unsigned") == ["1"]


def test_a_private_key_and_no_key_are_errors(runner: Runner, the_site: TheSite, tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="who verifies must not have it"):
        keys.public_key(the_site.key, runner)
    (tmp_path / "x").write_text("no key")
    with pytest.raises(SiteError, match="no public key"):
        keys.public_key(tmp_path / "x", runner)
    with pytest.raises(SiteError, match="cannot be read"):
        keys.public_key(tmp_path / "absent", runner)
    with (
        pytest.raises(SiteError, match="not a key that cosign can sign with"),
        keys.loaded(tmp_path / "x", the_site.cosign),
    ):
        pass


def test_a_key_of_cosign_own_making_signs_too(the_site: TheSite, runner: Runner, tmp_path: Path) -> None:
    env = {settings.SIGNING_PASSWORD: "secret"}
    words = ("generate-key-pair", "--output-key-prefix", tmp_path / "own")
    assert the_site.cosign(*words, folders=(tmp_path,), env=env).ok
    with keys.loaded(tmp_path / "own.key", the_site.cosign, "secret") as key:
        assert key.public == (tmp_path / "own.pub").read_bytes()
    with (
        pytest.raises(SiteError, match="not a key that cosign can sign with"),
        keys.loaded(tmp_path / "own.key", the_site.cosign, "wrong"),
    ):
        pass


def test_the_record_and_the_sbom_of_the_fixture_agree(small: SmallRow) -> None:
    files = dict(small.row.recipe.files)
    image = f"sha256:{'1' * 64}"
    document = sbom.bom(small.record, small.facts, image=image, patches=sbom.patches_of(files))
    assert sbom.disagreement(document, small.record) == ""
    assert provenance.test_result(small.record)["result"] == "PASSED"
    failed = Check(id="x.y", tier=Tier.STATIC, why="", outcome=Outcome.FAILED, detail="")
    verdict = replace(small.record.verdicts[0], checks=(failed,))
    assert provenance.test_result(replace(small.record, verdicts=(verdict,)))["result"] == "FAILED"
