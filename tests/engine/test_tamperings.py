"""What verify must refuse, each for its own reason."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attested import Published, TheSite, certificate, made_key
from tampering import Tampered

from stackwright.core.errors import AttestError
from stackwright.core.model.row import Tier
from stackwright.host.runner import Runner
from stackwright.publish.attest import keys
from stackwright.publish.attest.statements.statement import OF_A_ROW, Kind

pytestmark = pytest.mark.engine


def a_changed_layer(tampered: Tampered) -> None:
    tampered.change_byte(tampered.image["layers"][-1]["digest"])


def a_missing_layer(tampered: Tampered) -> None:
    tampered.blob(tampered.image["layers"][0]["digest"]).unlink()


def another_layer_in_a_manifest_that_fits(tampered: Tampered) -> None:
    tampered.replace_layer()


def another_layer_and_referrers_that_fit(tampered: Tampered) -> None:
    tampered.replace_layer()
    tampered.point_referrers_here()


def other_labels(tampered: Tampered) -> None:
    tampered.change_byte(tampered.image["config"]["digest"])


def another_manifest_under_the_digest(tampered: Tampered) -> None:
    tampered.change_byte(tampered.digest)


def a_changed_statement(tampered: Tampered) -> None:
    def change(envelope: dict[str, Any]) -> None:
        payload = base64.b64decode(envelope["payload"])
        assert b'"result":"PASSED"' in payload
        envelope["payload"] = base64.b64encode(payload.replace(b"PASSED", b"passed")).decode()

    tampered.change_envelope(Kind.VERDICT, change)


def two_statements_in_one_envelope(tampered: Tampered) -> None:
    """Go's JSON, and so cosign, takes the last of "payload" and "Payload": the one that was signed."""

    def change(envelope: dict[str, Any]) -> None:
        signed = base64.b64decode(envelope["payload"])
        envelope["Payload"] = envelope["payload"]
        envelope["payload"] = base64.b64encode(signed.replace(b"PASSED", b"passed")).decode()

    tampered.change_envelope(Kind.VERDICT, change)


def no_sbom(tampered: Tampered) -> None:
    tampered.remove(Kind.SBOM)


def nothing_attached(tampered: Tampered) -> None:
    for kind in OF_A_ROW:
        tampered.remove(kind)


def changed_record(**changes: Any) -> Callable[[Tampered], None]:
    """Signed by the right key for the right image: a publisher with a defect, or with a stolen key."""

    def tamper(tampered: Tampered) -> None:
        tampered.sign_again(Kind.RECORD, lambda record: {**record, **changes})

    return tamper


def failed_check(tampered: Tampered) -> None:
    def fail(record: dict[str, Any]) -> dict[str, Any]:
        record["verdicts"][0]["checks"][0] |= {"outcome": "failed", "detail": "it is broken"}
        return record

    tampered.sign_again(Kind.RECORD, fail)


def drift(tampered: Tampered) -> None:
    tampered.sign_again(
        Kind.RECORD, lambda record: {**record, "found": {**record["found"], "torch": "2.7.1"}}
    )


def another_image_id(tampered: Tampered) -> None:
    identity = {"id": f"sha256:{'0' * 64}"}
    tampered.sign_again(Kind.RECORD, lambda record: {**record, "image": {**record["image"], **identity}})


def another_published_image(tampered: Tampered) -> None:
    published = {"digest": f"sha256:{'0' * 64}"}
    tampered.sign_again(Kind.RECORD, lambda record: {**record, "image": {**record["image"], **published}})


def another_sbom(tampered: Tampered) -> None:
    def older(document: dict[str, Any]) -> dict[str, Any]:
        for component in document["components"]:
            if component["name"] == "torch":
                component |= {"version": "2.5.1", "bom-ref": "pkg:pypi/torch@2.5.1"}
        return document

    tampered.sign_again(Kind.SBOM, older)


def no_patch_in_the_sbom(tampered: Tampered) -> None:
    def bare(document: dict[str, Any]) -> dict[str, Any]:
        for component in document["components"]:
            component.pop("pedigree", None)
        return document

    tampered.sign_again(Kind.SBOM, bare)


def a_fix_that_the_record_does_not_show(tampered: Tampered) -> None:
    """The small row has none of the patches."""

    def fixed(document: dict[str, Any]) -> dict[str, Any]:
        assert {found["status"] for found in document["statements"]} == {"affected"}
        return {**document, "statements": [{**found, "status": "fixed"} for found in document["statements"]]}

    tampered.sign_again(Kind.VEX, fixed)


def another_product(tampered: Tampered) -> None:
    def other(document: dict[str, Any]) -> dict[str, Any]:
        for found in document["statements"]:
            found["products"][0]["hashes"]["sha-256"] = "0" * 64
        return document

    tampered.sign_again(Kind.VEX, other)


def another_origin(tampered: Tampered) -> None:
    def other(document: dict[str, Any]) -> dict[str, Any]:
        document["buildDefinition"]["externalParameters"]["key"] = "f" * 64
        return document

    tampered.sign_again(Kind.PROVENANCE, other)


TAMPERINGS: dict[Callable[[Tampered], None], str] = {
    a_changed_layer: r"layer \d+ of \d+: was changed",
    a_missing_layer: r"layer 1 of \d+: sha256:\w+ is not there",
    another_layer_in_a_manifest_that_fits: "nothing is attached to the image",
    another_layer_and_referrers_that_fit: "it is of another image, sha256:",
    other_labels: "the image's configuration: was changed",
    another_manifest_under_the_digest: "manifest.*: was changed",
    a_changed_statement: "the verdict: changed since it was signed",
    two_statements_in_one_envelope: "the verdict: changed since it was signed",
    no_sbom: "no sbom is attached",
    nothing_attached: "nothing is attached to the image",
    failed_check: "the verdict: the check .* failed: it is broken",
    changed_record(row="cuda13-torch"): "the record: it is of the row 'cuda13-torch', and the image says",
    changed_record(key="e" * 64): "the record: it is of the key eeeeeeeeeeee",
    changed_record(verdicts=[]): "the verdict: the image was never probed",
    changed_record(
        declared={"id": "cuda12-torch"}
    ): "the record: .* is None in it, and .* in the image's label",
    drift: "the record: torch was declared as '2.6.0', and '2.7.1' was found inside",
    another_image_id: "the record: it was made of the image sha256:0000",
    another_published_image: "the record: it was made of the published sha256:0000",
    another_sbom: "the sbom: torch is 2.6.0 in the record, and 2.5.1 in it",
    no_patch_in_the_sbom: "the sbom: Horovod's patches are cxx17.patch in the record, and none in it",
    a_fix_that_the_record_does_not_show: "the vex: CVE-2024-10190 is affected by the record, and fixed in it",
    another_product: "the vex: its statement on CVE-2024-10190 is about another image",
    another_origin: "the provenance: it tells how 'cuda12-torch' ffffffffffff was made",
}


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_a_tampering_is_refused_by_its_name(
    tamper: Callable[[Tampered], None], tampered: Tampered, the_site: TheSite
) -> None:
    tamper(tampered)
    with pytest.raises(AttestError, match=TAMPERINGS[tamper]):
        the_site.verify(tampered.folder, image=tampered.digest)


@pytest.mark.parametrize("kind", OF_A_ROW)
def test_a_statement_of_another_image_of_the_row_is_refused(
    kind: Kind, tampered: Tampered, twin: Published, the_site: TheSite
) -> None:
    other = Tampered(folder=twin.copy, cosign=the_site.cosign, key=the_site.key)
    tampered.put_envelope(kind, other.envelope(kind))
    with pytest.raises(AttestError, match=f"the {kind.word}: it is of another image"):
        the_site.verify(tampered.folder)


def test_another_key_is_refused(
    the_site: TheSite, published: Published, runner: Runner, tmp_path: Path
) -> None:
    other = made_key(tmp_path, "other", runner)
    until = certificate(other, runner, since=timedelta(days=-1), until=timedelta(days=1))
    with pytest.raises(AttestError, match="signed by another key"):
        the_site.verify(published.copy, key=keys.public_key(until, runner))


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [(-9, -1, "the key has expired: it was valid until"), (1, 9, "the key is valid from .* on, and it is")],
)
def test_a_key_out_of_its_time_is_refused(
    since: int,
    until: int,
    message: str,
    the_site: TheSite,
    published: Published,
    runner: Runner,
    tmp_path: Path,
) -> None:
    """The key is the one that signed."""
    shutil.copy(the_site.key, tmp_path / "site.pem")
    made = certificate(
        tmp_path / "site.pem", runner, since=timedelta(days=since), until=timedelta(days=until)
    )
    with pytest.raises(AttestError, match=message):
        the_site.verify(published.copy, key=keys.public_key(made, runner))


def test_what_was_asked_for_beyond_is_held_to(the_site: TheSite, published: Published) -> None:
    with pytest.raises(AttestError, match="and 'cuda13-torch' was asked for"):
        the_site.verify(published.copy, row="cuda13-torch")
    with pytest.raises(AttestError, match="the tier gpu was not run, and it is required"):
        the_site.verify(published.copy, require=(Tier.GPU,))


def test_an_earlier_record_beside_the_last_one_does_not_help(tampered: Tampered, the_site: TheSite) -> None:
    """The image passed once, and was probed again, and failed."""

    def later(record: dict[str, Any]) -> dict[str, Any]:
        record["started"] = "2030-01-01T00:00:00Z"
        record["verdicts"][0]["checks"][0] |= {"outcome": "failed", "detail": "another driver"}
        return record

    tampered.sign_again(Kind.RECORD, later, beside=True)
    with pytest.raises(AttestError, match="failed: another driver"):
        the_site.verify(tampered.folder)


def test_what_others_put_beside_it_is_told_and_not_believed(
    tampered: Tampered, twin: Published, the_site: TheSite
) -> None:
    other = Tampered(folder=twin.copy, cosign=the_site.cosign, key=the_site.key)
    tampered.put_envelope(Kind.SBOM, other.envelope(Kind.SBOM), beside=True)
    (note,) = the_site.verify(tampered.folder).notes
    assert "it is of another image" in note
