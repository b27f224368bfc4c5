"""Statements, SBOM and provenance from values alone; what is signed with them is in tests/engine."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any, cast

import image_facts
import jsonschema
import pytest
import report_samples
import rows
from cyclonedx import schema
from referencing import Registry, Resource

from stackwright.build.contents import write_sbom
from stackwright.core.checks.observed import found
from stackwright.core.errors import AttestError, UsageError
from stackwright.core.model.record import Record, flatten
from stackwright.core.model.row import Outcome
from stackwright.core.model.site import Site
from stackwright.core.render import dockerfile
from stackwright.engines.oci_tools import Name, Tool
from stackwright.host.runner import Completed, Runner
from stackwright.publish.attest import oci_layout, source, verify
from stackwright.publish.attest import oras as access
from stackwright.publish.attest.keys import PublicKey
from stackwright.publish.attest.statements import provenance, sbom, statement
from stackwright.publish.attest.statements.statement import Kind
from stackwright.records import files as record

IMAGE = f"sha256:{'1' * 64}"
STACK = rows.stack(patches=("cxx17.patch",))
RECIPE = dockerfile.render(STACK, rows.SOURCES)
FILES = dict(RECIPE.files)
FACTS = image_facts.docker_facts(STACK)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def of_row(**changes: Any) -> Record:
    whole = replace(
        report_samples.built(row=STACK.id), key=RECIPE.key, found=found(STACK, FACTS),
        declared=flatten(dockerfile.declared(STACK)),
    )  # fmt: skip
    return replace(whole, **changes)


def bom(**changes: Any) -> dict[str, Any]:
    facts = changes.pop("facts", FACTS)
    return sbom.bom(of_row(**changes), facts, image=IMAGE, patches=sbom.patches_of(FILES))


# -- SBOM ------------------------------------------------------------------------------------------


def test_the_sbom_of_a_proven_image_is_a_file_and_that_of_another_is_none(tmp_path: Path) -> None:
    path = tmp_path / "sbom.cdx.json"
    assert write_sbom(path, of_row(), FACTS, FILES) == ""
    image = report_samples.image_of(of_row()).id
    patches = sbom.patches_of(FILES)
    assert json.loads(path.read_text()) == sbom.bom(of_row(), FACTS, image=image, patches=patches)
    for known, facts, why in (
        (of_row(verdicts=()), FACTS, "not proven"),
        (report_samples.broken(), FACTS, "not proven"),
        (of_row(), {}, "the facts name no packages"),
    ):
        path.write_text("of an earlier run")
        assert why in write_sbom(path, known, facts, FILES) and not path.exists()


def component(document: dict[str, Any], reference: str) -> dict[str, Any]:
    return next(dict(entry) for entry in document["components"] if entry["bom-ref"] == reference)


def test_the_sbom_is_valid_by_the_schema_of_its_specification() -> None:
    folder = resources.files(schema) / "_res"

    def document(name: str) -> Any:
        return json.loads((folder / name).read_text())

    named = {"bom-1.6.SNAPSHOT.schema.json", "spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json"}
    known = [Resource.from_contents(document(name)) for name in sorted(named)]
    registry: Registry[Any] = Registry().with_resources((str(resource.id()), resource) for resource in known)
    validator = jsonschema.Draft7Validator(document("bom-1.6.SNAPSHOT.schema.json"), registry=registry)
    validator.validate(bom())
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**bom(), "serialNumber": 5})


def test_the_same_image_has_the_same_sbom_and_another_one_another() -> None:
    assert bom() == bom()
    assert bom(started="2026-03-03T02:00:00Z")["serialNumber"] != bom()["serialNumber"]


def test_it_lists_every_package_and_what_people_know_by_name() -> None:
    document = bom()
    assert component(document, "pkg:deb/debian/bash@5.2-1?distro=debian-13")["version"] == "5.2-1"
    assert component(document, "pkg:pypi/torch@2.6.0")
    assert component(document, "pkg:pypi/nvidia-nccl-cu12@2.21.5")["supplier"]["name"] == "NVIDIA"
    nccl = component(document, "nvidia/nccl")
    assert (nccl["version"], nccl["properties"][0]["value"]) == ("2.21.5", image_facts.NCCL)
    assert component(document, "os") | {"version": "13"} == component(document, "os")
    packages = len(FACTS["system"]["distribution_packages"]) + len(FACTS["system"]["python_packages"])
    assert len(document["components"]) == packages + len(sbom.NVIDIA_LIBRARIES) + 1


def test_horovod_comes_with_the_text_of_its_patches() -> None:
    patches = component(bom(), "pkg:pypi/horovod@0.28.1")["pedigree"]["patches"]
    assert [Path(patch["diff"]["url"]).name for patch in patches] == sorted(STACK.patches)
    texts = "".join(patch["diff"]["text"]["content"] for patch in patches)
    for name in STACK.patches:
        assert (rows.ROOT / "patches" / "horovod" / name).read_text() in texts
    with pytest.raises(AttestError, match="no text of the patch"):
        sbom.bom(of_row(), FACTS, image=IMAGE, patches={})


def test_a_package_that_is_there_twice_is_listed_twice() -> None:
    system = {**FACTS["system"], "python_packages": {"numpy": "1.26 and 2.0"}}
    document = bom(facts={**FACTS, "system": system})
    assert component(document, "pkg:pypi/numpy@1.26") and component(document, "pkg:pypi/numpy@2.0")


def test_facts_without_packages_make_no_sbom() -> None:
    with pytest.raises(AttestError, match="the facts name no packages"):
        bom(facts={"system": {"distribution_packages": None}})


@pytest.mark.parametrize(
    ("field", "value"), [("nccl", "2.27.7"), ("torch", "2.8.0"), ("horovod", "0.29"), ("patches", "x.patch")]
)
def test_an_sbom_that_says_otherwise_than_the_record_is_seen(field: str, value: str) -> None:
    assert sbom.disagreement(bom(), of_row()) == ""
    changed = of_row(found=tuple({**dict(of_row().found), field: value}.items()))
    assert value in sbom.disagreement(bom(), changed)


@pytest.mark.parametrize("components", [None, 5, [7], [{"bom-ref": 3}], [{"pedigree": {"patches": [None]}}]])
def test_an_sbom_of_nonsense_disagrees(components: object) -> None:
    assert sbom.disagreement({"components": components}, of_row())


# -- provenance and verdict ------------------------------------------------------------------------


def test_the_provenance_names_every_file_of_the_build_by_its_digest() -> None:
    made = provenance.provenance(of_row(), STACK, FILES)
    named = {item["name"]: item.get("digest", {}) for item in made["buildDefinition"]["resolvedDependencies"]}
    assert set(FILES) <= set(named)
    assert named[f"locks/{STACK.id}.txt"] == {"sha256": STACK.lock.sha256}
    assert made["buildDefinition"]["externalParameters"]["key"] == RECIPE.key
    assert made["runDetails"]["byproducts"][0]["digest"]["sha256"] == provenance.digest(of_row())


def test_a_base_of_a_registry_is_named_with_its_digest() -> None:
    image = of_row().image
    assert image
    pinned = replace(image, base=f"nvidia/cuda:12@sha256:{'a' * 64}")
    made = provenance.provenance(of_row(image=pinned), STACK, FILES)
    base = made["buildDefinition"]["resolvedDependencies"][0]
    assert (base["uri"], base["digest"]) == ("docker:nvidia/cuda:12", {"sha256": "a" * 64})


def test_the_release_of_the_lock_is_named_where_the_base_was_made_of_it() -> None:
    image = of_row().image
    assert image

    def named(base: str) -> str:
        made = provenance.provenance(of_row(image=replace(image, base=base)), STACK, FILES)
        return json.dumps(made["buildDefinition"]["resolvedDependencies"])

    assert STACK.base.digest in named(f"stackwright/base:debian-13-{STACK.base.date}")
    assert STACK.base.digest not in named("stackwright/base:debian-13-20991231T000000Z")


def test_a_check_that_was_not_run_is_not_among_those_that_passed() -> None:
    made = provenance.test_result(of_row())
    assert "gpu.allreduce" not in made["passedTests"] + made["failedTests"]
    assert made["result"] == "PASSED"
    verdict = report_samples.verdict("docker", link__import="no")
    failed = provenance.test_result(of_row(verdicts=(verdict,)))
    assert (failed["result"], failed["failedTests"]) == ("FAILED", ["link.import"])
    ids = {check.id for check in verdict.checks if check.outcome is Outcome.PASSED}
    assert set(failed["passedTests"]) == ids


def test_without_a_verdict_there_is_nothing_to_attest() -> None:
    with pytest.raises(AttestError, match="was not probed"):
        provenance.test_result(of_row(verdicts=(report_samples.verdict("sif"),)))


def test_the_last_record_counts_also_where_it_went_on_from_the_one_before() -> None:
    """The image was published, then proven on a GPU, and published again: both began at the same time."""
    last, first = (of_row(finished=f"2026-03-02T0{hour}:00:00Z") for hour in (9, 7))
    told = [
        statement.Statement(kind=Kind.RECORD, subject=IMAGE, predicate=record.as_json(known))
        for known in (first, last)
    ]
    assert verify._newest(told) == verify._newest(told[::-1]) == last


# -- envelopes -------------------------------------------------------------------------------------


def envelope(**changes: Any) -> bytes:
    payload = statement.encode(Kind.VERDICT, IMAGE, "row", {"result": "PASSED"})
    document = json.loads(statement.enclose(payload, signature="c2ln", keyid="k"))
    return json.dumps({**document, **changes}).encode()


def test_what_is_enclosed_comes_out_again() -> None:
    opened = statement.open_envelope(envelope(), "x")
    read = statement.read(opened.payload, "x")
    assert (read.kind, read.subject, read.predicate) == (Kind.VERDICT, IMAGE, {"result": "PASSED"})
    assert opened.keyids == ("k",)


def test_the_encoding_is_that_of_the_specification() -> None:
    """The example of dsse/protocol.md, with the type of a statement."""
    assert statement.to_be_signed(b"hello world") == b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"


def test_who_checks_the_signature_sees_no_other_statement_than_who_reads_it() -> None:
    """Go's JSON does not tell "Payload" from "payload", and takes the last of them."""
    another = base64.b64encode(b"what was really signed").decode()
    opened = statement.open_envelope(envelope(Payload=another, PAYLOADTYPE="x"), "x")
    document = json.loads(opened.content)
    assert set(document) == {"payloadType", "payload", "signatures"}
    assert base64.b64decode(document["payload"]) == opened.payload
    assert statement.read(opened.payload, "x").predicate == {"result": "PASSED"}


@pytest.mark.parametrize("keyid", ["\x1b[2J", "a\n  next: all is well", "\ud800", None, []])
def test_a_keyid_does_not_steer_the_terminal(keyid: object) -> None:
    opened = statement.open_envelope(envelope(signatures=[{"keyid": keyid, "sig": "c2ln"}, 5]), "x")
    assert opened.keyids == ()
    assert json.loads(opened.content)["signatures"] == [{"sig": "c2ln"}]


def test_what_a_registry_says_does_not_steer_the_terminal() -> None:
    said = "Error response from registry: denied: \x1b[2Jall is well"
    done = Completed(argv=(), returncode=1, stdout="", stderr=said)
    assert "\x1b" not in str(access._failure(done, "host/name:1", "read"))


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"\xff", "not JSON"),
        (b"[" * 10**5, "not JSON"),
        (b"[]", "no JSON object"),
        (envelope(payloadType="text/plain"), "an envelope of 'text/plain'"),
        (envelope(signatures=[]), "not signed"),
        (envelope(payload="?"), "not base64"),
    ],
)
def test_what_is_no_envelope_is_refused(content: bytes, cause: str) -> None:
    with pytest.raises(AttestError, match=cause):
        statement.open_envelope(content, "x")


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"_type": "https://in-toto.io/Statement/v0.1"}, "a statement of the type"),
        ({"subject": []}, "about one image"),
        ({"subject": [{"digest": {"sha512": "1"}}]}, "about one image"),
        ({"subject": [{}, {}]}, "about one image"),
        ({"subject": [{"digest": {"sha256": "\x1b[2J"}}]}, "about one image"),
        ({"predicateType": "https://example.org"}, "about one image"),
        ({"predicate": []}, "no object"),
    ],
)
def test_what_is_no_statement_is_refused(change: dict[str, Any], cause: str) -> None:
    payload = base64.b64decode(json.loads(envelope())["payload"])
    changed = {**json.loads(payload), **change}
    with pytest.raises(AttestError, match=cause):
        statement.read(json.dumps(changed).encode(), "x")


# -- keys, folders, references ---------------------------------------------------------------------


def test_a_key_is_held_to_its_dates_and_a_bare_one_has_none() -> None:
    day = timedelta(days=1)
    key = PublicKey(pem=b"", place="site.crt", since=NOON - day, until=NOON + day)
    key.require_valid(NOON)
    with pytest.raises(AttestError, match="has expired"):
        key.require_valid(NOON + 2 * day)
    with pytest.raises(AttestError, match=r"from 2026-11-19 12:00 UTC on"):
        key.require_valid(NOON - 2 * day)
    PublicKey(pem=b"", place="site.pub").require_valid(NOON + 99999 * day)


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: None,
        lambda folder: (folder / "index.json").write_text("{"),
        lambda folder: (folder / "index.json").write_text("[]"),
        lambda folder: (folder / "index.json").write_text('{"manifests": 5}'),
        lambda folder: (folder / "index.json").write_text('{"manifests": [5, {"mediaType": "x"}]}'),
        lambda folder: (folder / "index.json").write_text(
            json.dumps(
                {"manifests": [{"mediaType": oci_layout.MANIFESTS[0], "digest": "sha256:../../etc/passwd"}]}
            )
        ),
    ],
)
def test_a_folder_that_holds_no_image_is_refused(write: Callable[[Path], Any], tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(AttestError):
        oci_layout.image_of(oci_layout.Layout(folder=tmp_path))


def test_a_folder_is_named_with_a_tag_or_a_digest_or_alone(tmp_path: Path) -> None:
    (tmp_path / "oci-layout").write_text("{}")
    (tmp_path / "index.json").write_text("{}")
    assert oci_layout.split(str(tmp_path)) == (tmp_path, "")
    assert oci_layout.split(f"{tmp_path}:1") == (tmp_path, "1")
    assert oci_layout.split(f"{tmp_path}@{IMAGE}") == (tmp_path, IMAGE)
    assert oci_layout.split("host/name:1") == (None, "")


def written(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Into a folder in the OCI layout; its descriptor."""
    content = json.dumps(document).encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest.removeprefix("sha256:")).write_bytes(content)
    kind = (oci_layout.INDEXES if "manifests" in document else oci_layout.MANIFESTS)[0]
    return {"mediaType": kind, "digest": digest, "size": len(content)}


def called(described: dict[str, Any], tag: str) -> dict[str, Any]:
    return {**described, "annotations": {oci_layout.TAG: tag}}


def test_an_index_of_somebody_else_gives_no_image_its_tag(tmp_path: Path) -> None:
    """Docker finds the other one under that tag, by its platform."""
    good, other = (written(tmp_path, {"layers": [name]}) for name in ("good", "other"))
    inner = written(tmp_path, {"manifests": [called(good, "verified")]})
    outer = written(tmp_path, {"manifests": [other, inner]})
    top = [called(outer, "verified"), other, good, inner]  # as oras writes it: only the first has a tag
    (tmp_path / "index.json").write_text(json.dumps({"manifests": top}))
    folder = oci_layout.Layout(folder=tmp_path)
    with pytest.raises(AttestError, match="an index of several images"):
        oci_layout.image_of(folder, "verified")
    assert oci_layout.image_of(folder, good["digest"]) == good["digest"]


def test_an_image_may_have_two_tags(tmp_path: Path) -> None:
    image, other = (written(tmp_path, {"layers": [name]}) for name in ("image", "other"))
    top = [called(image, "1"), called(image, "latest"), called(other, "2")]
    (tmp_path / "index.json").write_text(json.dumps({"manifests": top}))
    folder = oci_layout.Layout(folder=tmp_path)
    assert oci_layout.image_of(folder, "1") == oci_layout.image_of(folder, "latest") == image["digest"]
    with pytest.raises(AttestError, match="2 images are in it") as caught:
        oci_layout.image_of(folder)
    assert "1, latest, 2" in caught.value.hint


def test_several_images_are_refused_before_they_are_copied(tmp_path: Path) -> None:
    """The tag for all rows leads to such an index, and its images have hundreds of GB."""
    seen: list[str] = []

    def oras(argv: list[str | Path], **_: object) -> Completed:
        seen.append(str(argv[1]))
        Path(argv[argv.index("--output") + 1]).write_text('{"manifests": []}')
        return Completed(argv=(), returncode=0, stdout="", stderr="")

    tool = Tool(name=Name.ORAS, runner=cast("Runner", oras))
    site = Site(mirror=None, ca=None, pip=(), proxies=())
    with (
        pytest.raises(AttestError, match="an index of several images") as caught,
        source.opened(
            "host.example/hpc:all", site=lambda: site, oras=lambda: tool, say=print, keep=tmp_path / "kept"
        ),
    ):
        pass
    assert seen == ["manifest"] and not (tmp_path / "kept").exists()
    assert "host.example/hpc@sha256:" in caught.value.hint


@pytest.mark.parametrize("text", ["name", "host/Name:1", "host/name:1 --x", "-x/y", "host/name@sha256:1", ""])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a reference"):
        access.parsed(text)


def test_a_reference_is_pinned_to_a_digest() -> None:
    assert access.pinned("host:5000/a/b:tag", IMAGE) == f"host:5000/a/b@{IMAGE}"
    assert access.pinned(f"host/a:tag@{IMAGE}", IMAGE) == f"host/a@{IMAGE}"
