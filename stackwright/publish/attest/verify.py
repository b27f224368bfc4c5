"""Whether an image is what its row says, by the site's public key alone. No network is asked.

A name proves nothing, so nothing is taken from one: digests are computed, signatures checked, and what was
signed is compared with the image and with itself. Each refusal has a message of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stackwright.core.checks import origin
from stackwright.core.checks.observed import dig
from stackwright.core.errors import AttestError
from stackwright.core.model.labels import KEY, ROW
from stackwright.core.model.record import Record, flatten
from stackwright.core.model.row import Outcome, Tier
from stackwright.engines.oci_tools import Tool
from stackwright.publish.attest import cosign as signing
from stackwright.publish.attest.jsons import json_object
from stackwright.publish.attest.keys import PublicKey
from stackwright.publish.attest.oci_layout import INDEXES, MANIFESTS, SEVERAL, Layout, Manifest
from stackwright.publish.attest.statements import provenance, sbom, statement, vex
from stackwright.publish.attest.statements.statement import ENVELOPE, PREDICATE_TYPE, Kind, Statement
from stackwright.records import files as records
from stackwright.records.report.wording import agrees

REQUIRED = (Tier.STATIC, Tier.LINK, Tier.BUILT, Tier.COLLECTIVE)
"""What every image must have passed; the GPU tier where it is asked for."""

NOT_ATTACHED = "publish the image again; or it was copied without what refers to it: oras copy -r"
_RECORD = TypeAdapter(Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """``vulnerabilities``: id and status. ``notes`` are of statements that were not believed."""

    image: str
    config: str
    layers: int
    bytes: int
    record: Record
    components: int
    vulnerabilities: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """What the key signed about an image, by kind, and why other statements were passed over.

    ``parent`` is the row and key of the image that it was built FROM, or "".
    """

    statements: tuple[Statement, ...]
    refused: tuple[tuple[str, AttestError], ...]
    parent: str = ""

    def of(self, kind: Kind) -> list[Statement]:
        """AttestError, with the reason, where none of a kind holds."""
        found = [signed for signed in self.statements if signed.kind is kind]
        if not found:
            for named, error in self.refused:
                if named in (str(kind), ""):
                    raise error
            cause = (
                f"no {kind.word} is attached to the image" if self.statements or self.refused else UNSIGNED
            )
            if self.parent:
                cause = f"it is derived from {self.parent}, whose labels it has, and not that image: {cause}"
            raise AttestError(cause, hint=NOT_ATTACHED)
        return found


UNSIGNED = (
    "nothing is attached to the image: it was not signed, or it was changed and has a digest of its own"
)


def verify(
    layout: Layout, image: str, key: PublicKey, cosign: Tool, *, at: datetime,
    require: Sequence[Tier] = REQUIRED, row: str = "",
) -> Verified:  # fmt: skip
    """``image`` is the digest of its manifest, ``row`` the one that it is to be, or "".

    AttestError where anything of it does not hold.
    """
    key.require_valid(at)
    manifest = layout.manifest(image)
    config, size = contents(layout, manifest)
    attested = replace(statements_of(layout, manifest, key, cosign), parent=_parent(config))
    seen = SignedImage(manifest=manifest, config=config, record=_newest(attested.of(Kind.RECORD)), row=row)
    for judge in RECORD_CHECKS:
        _refuse(Kind.RECORD, judge(seen))
    _refuse(Kind.VERDICT, _not_passed(seen.record, require))
    agreeing = {kind: _agreeing(kind, attested.of(kind), seen) for kind in AGREEMENT}
    components = agreeing[Kind.SBOM].predicate.get("components")
    return Verified(
        image=image, config=str(dig(manifest.document, "config", "digest")), bytes=size,
        layers=len(manifest.document["layers"]), record=seen.record,
        components=len(components) if isinstance(components, list) else 0,
        vulnerabilities=vex.statuses_of(agreeing[Kind.VEX].predicate),
        notes=tuple(str(error) for _, error in attested.refused),
    )  # fmt: skip


# -- the image -------------------------------------------------------------------------------------


def contents(layout: Layout, manifest: Manifest) -> tuple[Mapping[str, Any], int]:
    """Return the configuration, and the bytes of all layers, each blob checked against its digest and
    size."""
    document = manifest.document
    if document.get("mediaType") in INDEXES or "manifests" in document:
        raise AttestError(SEVERAL, place=manifest.digest, hint="name one of them")
    layers, config = document.get("layers"), document.get("config")
    if document.get("mediaType", MANIFESTS[0]) not in MANIFESTS or not isinstance(layers, list) or not config:
        raise AttestError("not the manifest of an image", place=manifest.digest)
    content = layout.blob(str(dig(config, "digest")), "the image's configuration", dig(config, "size"))
    total = 0
    for number, layer in enumerate(layers, start=1):
        what = f"layer {number} of {len(layers)}"
        size = layout.check(str(dig(layer, "digest")), what)
        if size != dig(layer, "size"):
            raise AttestError(f"has {size} bytes, and {dig(layer, 'size')} are declared", place=what)
        total += size
    return json_object(content, "the image's configuration"), total


def _parent(config: Mapping[str, Any]) -> str:
    """Return the row's image that this one was built FROM, as text; "" where it is one itself."""
    history, labels = config.get("history"), dig(config, "config", "Labels")
    lines = [str(dig(line, "created_by") or "") for line in history] if isinstance(history, list) else []
    if not origin.is_derived(lines) or not isinstance(labels, Mapping):
        return ""
    return f"{labels.get(ROW)} {str(labels.get(KEY))[:12]}"


# -- what was signed -------------------------------------------------------------------------------


def statements_of(layout: Layout, manifest: Manifest, key: PublicKey, cosign: Tool) -> Attested:
    """Read the statements. Skip those that do not verify: a user of the registry can attach anything."""
    statements: list[Statement] = []
    refused: list[tuple[str, AttestError]] = []
    for referrer in layout.referrers(manifest.digest):
        if referrer.document.get("artifactType") != ENVELOPE:
            continue
        named = str(dig(referrer.document, "annotations", PREDICATE_TYPE) or "")
        word = next((kind.word for kind in Kind if kind == named), "attestation")
        try:
            statements.append(
                _statement(layout, referrer, manifest, key=key, cosign=cosign, place=f"the {word}")
            )
        except AttestError as error:
            refused.append((named, error))
    return Attested(statements=tuple(statements), refused=tuple(refused))


def _statement(
    layout: Layout, referrer: Manifest, manifest: Manifest, *, key: PublicKey, cosign: Tool, place: str
) -> Statement:
    layers = referrer.document.get("layers")
    if not isinstance(layers, list) or len(layers) != 1:
        raise AttestError("a referrer of several files, or of none", place=place)
    envelope = statement.open_envelope(layout.blob(str(dig(layers[0], "digest")), place), place)
    found = statement.read(envelope.payload, place)
    if found.subject != manifest.digest:
        cause = f"it is of another image, {found.subject[:19]}…, and this one is {manifest.digest[:19]}…"
        raise AttestError(cause, place=place, hint=NOT_ATTACHED)
    signing.check(envelope, found.kind, manifest.content, key=key, cosign=cosign, place=place)
    return found


def _newest(found: Sequence[Statement]) -> Record:
    """Return the last record: an image that is probed again gets another one, which may have failed.

    One that a machine with a GPU continues has the same start.
    """
    try:
        read = [_RECORD.validate_json(json.dumps(signed.predicate), strict=True) for signed in found]
    except ValidationError as error:
        complaint = error.errors(include_url=False)[0]
        place = ".".join(map(str, complaint["loc"]))
        raise AttestError(f"not a record: {place}: {complaint['msg']}", place="the record") from error
    return max(read, key=lambda record: (record.started, record.finished or ""))


# -- compared --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedImage:
    manifest: Manifest
    config: Mapping[str, Any]
    record: Record
    row: str

    def label(self, name: str) -> str:
        return str(dig(self.config, "config", "Labels", f"org.stackwright.{name}") or "")


def _refuse(kind: Kind, cause: str) -> None:
    if cause:
        raise AttestError(cause, place=f"the {kind.word}", hint="do not use the image; ask who signed it")


def _other_row(seen: SignedImage) -> str:
    record, labels = seen.record, {name: seen.label(name) for name in ("row", "key")}
    if record.row != labels["row"]:
        return f"it is of the row {record.row!r}, and the image says that it is {labels['row']!r}"
    if record.key != labels["key"]:
        return f"it is of the key {record.key[:12]}, and the image says that it is {labels['key'][:12]!r}"
    if seen.row and record.row != seen.row:
        return f"it is of the row {record.row!r}, and {seen.row!r} was asked for"
    return ""


def _other_image(seen: SignedImage) -> str:
    """By the digest that the publisher noted; a record without one, by the digest of the configuration."""
    image, here = seen.record.image, (dig(seen.manifest.document, "config", "digest"), seen.manifest.digest)
    if image and image.digest and image.digest != seen.manifest.digest:
        return f"it was made of the published {image.digest[:19]}…, not of this one"
    if image is None or (not image.digest and image.id not in here):
        return f"it was made of the image {image.id[:19] if image else 'of none'}…, not of this one"
    return ""


def _other_values(seen: SignedImage) -> str:
    """Compare the row in the image's labels with the signed one."""
    try:
        row = json.loads(seen.label("stack"))
        labelled = dict(flatten(row))
    except (ValueError, AttributeError, RecursionError):
        return "the image's own label of its row cannot be read"
    signed = dict(seen.record.declared)
    for name in sorted({*labelled, *signed}):
        if labelled.get(name) != signed.get(name):
            return f"{name} is {signed.get(name)!r} in it, and {labelled.get(name)!r} in the image's label"
    return ""


def _drift(seen: SignedImage) -> str:
    found = dict(seen.record.found)
    for name, declared in seen.record.declared:
        if name in found and not agrees(declared, found[name]):
            return f"{name} was declared as {declared!r}, and {found[name]!r} was found inside"
    return "" if found else "nothing was read back from inside the image"


def _not_passed(record: Record, require: Sequence[Tier]) -> str:
    verdict = record.verdict(provenance.WORLD)
    if verdict is None:
        return "the image was never probed"
    if verdict.failed:
        return f"the check {verdict.failed[0].id} failed: {verdict.failed[0].detail[:200]}"
    for tier in require:
        if verdict.tier(tier) is not Outcome.PASSED:
            return f"the tier {tier} was not run, and it is required"
    return ""


RECORD_CHECKS: tuple[Callable[[SignedImage], str], ...] = (_other_row, _other_image, _other_values, _drift)


def _bom_differs(document: Mapping[str, Any], seen: SignedImage) -> str:
    of = dig(document, "metadata", "component", "bom-ref")
    if of != seen.manifest.digest:
        return f"it is a list of {str(of)[:19]}…"
    return sbom.disagreement(document, seen.record)


def _vex_differs(document: Mapping[str, Any], seen: SignedImage) -> str:
    return vex.disagreement(document, seen.record, seen.manifest.digest)


def _provenance_differs(document: Mapping[str, Any], seen: SignedImage) -> str:
    asked = dig(document, "buildDefinition", "externalParameters")
    row, key = dig(asked, "row"), dig(asked, "key")
    if (row, key) != (seen.record.row, seen.record.key):
        return f"it tells how {row!r} {str(key)[:12]} was made"
    if dig(asked, "declared") != dict(seen.record.declared):
        return "it was asked for other values than the record"
    return _of_another_record(dig(document, "runDetails", "byproducts"), seen)


def _result_differs(document: Mapping[str, Any], seen: SignedImage) -> str:
    wanted = provenance.test_result(seen.record)
    names = ("result", "passedTests", "failedTests")
    different = next((name for name in names if document.get(name) != wanted[name]), "")
    if different:
        return f"its {different} is not that of the record"
    return _of_another_record(document.get("configuration"), seen)


def _of_another_record(named: Any, seen: SignedImage) -> str:
    """Statements of one run name its record by its digest."""
    digests = [dig(entry, "digest", "sha256") for entry in named] if isinstance(named, list) else []
    return "" if provenance.digest(seen.record) in digests else "it belongs to another record"


AGREEMENT: Mapping[Kind, Callable[[Mapping[str, Any], SignedImage], str]] = {
    Kind.SBOM: _bom_differs,
    Kind.VEX: _vex_differs,
    Kind.PROVENANCE: _provenance_differs,
    Kind.VERDICT: _result_differs,
}


def _agreeing(kind: Kind, found: Sequence[Statement], seen: SignedImage) -> Statement:
    """Return one that agrees with the record: those of earlier records may be attached as well."""
    reasons = [AGREEMENT[kind](signed.predicate, seen) for signed in found]
    if "" not in reasons:
        _refuse(kind, reasons[0])
    return found[reasons.index("")]


def document(done: Verified, key: PublicKey) -> dict[str, Any]:
    """``--format json``."""
    verdict = provenance.judged(done.record)
    return {
        "version": 1, "image": done.image, "config": done.config, "layers": done.layers, "bytes": done.bytes,
        "row": done.record.row, "key": done.record.key, "record": done.record.started,
        "signed_by": key.id, "valid_until": records.utc(key.until) if key.until else None,
        "tiers": {str(tier): str(verdict.tier(tier)) for tier in Tier},
        "components": done.components, "vulnerabilities": dict(done.vulnerabilities),
        "not_believed": list(done.notes),
    }  # fmt: skip


def lines(done: Verified, key: PublicKey) -> Iterator[str]:
    """Yield what a person reads."""
    record = done.record
    verdict = provenance.judged(record)
    said = ", ".join(f"{tier} {verdict.tier(tier)}" for tier in Tier)
    until = f"until {key.until:%Y-%m-%d}" if key.until else "without an end: a key, and no certificate"
    yield f"{done.image}: is the row {record.row}, key {record.key[:12]}"
    yield f"  layers      {done.layers}, {done.bytes / 1e6:.1f} MB, each as its digest says"
    yield f"  signed      by {key.id[:16]}…, valid {until}"
    yield f"  verdict     {said}"
    yield f"  record      {record.started}; found as declared: {len(record.found)} values"
    yield f"  components  {done.components} in the SBOM"
    yield f"  known holes {', '.join(f'{name} {status}' for name, status in done.vulnerabilities)}"
    yield from (f"  not believed: {note.splitlines()[0]}" for note in done.notes)
