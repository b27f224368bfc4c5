"""Attach signed attestations to a published image, stored as OCI referrers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from stackwright.core.checks.observed import Facts, dig, found
from stackwright.core.errors import AttestError, PublishError
from stackwright.core.model.record import Record
from stackwright.engines.oci_tools import Tool
from stackwright.host.project import Planned
from stackwright.publish.attest.cosign import check, sign
from stackwright.publish.attest.jsons import json_object
from stackwright.publish.attest.keys import Loaded, PublicKey, keyid
from stackwright.publish.attest.oci_layout import LIMIT
from stackwright.publish.attest.oras import Access, pinned
from stackwright.publish.attest.statements import provenance, sbom, statement, vex
from stackwright.publish.attest.statements.statement import ENVELOPE, OF_A_ROW, PREDICATE_TYPE, Kind
from stackwright.records import files as records

RECORD = "org.stackwright.records.files"
"""Annotation of a referring manifest: the sha256 of the record that it belongs to."""

SIGNER = "org.stackwright.signer"
"""Annotation of a referring manifest: the id of the key that signed. A hint, never trusted: it saves work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """``new`` were attached by this call; the others of the kinds were there."""

    image: str
    new: tuple[Kind, ...]


def attach(
    reference: str, row: Planned, record: Record, facts: Facts, *, key: Loaded, cosign: Tool, access: Access
) -> Attached:
    """Attach every statement to an image that the registry has, and be done where it has them already.

    ``facts`` are those of the record's own probing (``probe.gather`` of the row's folder). AttestError where
    the image is not the one that was probed: nothing is signed then.
    """
    manifest = access.manifest(reference)
    image = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    require_probed(row, record, facts, json_object(manifest, reference), image)
    record = replace(record, reason="")  # why a .sif could not be made, which may name a host of the site
    predicates = _predicates(row, record, facts, image)
    fixed = pinned(reference, image)
    ours = {RECORD: provenance.digest(record), SIGNER: keyid(key.public)}
    payloads = {kind: statement.encode(kind, image, record.row, predicates[kind]) for kind in OF_A_ROW}
    candidates = tuple(
        (digest, told) for digest, told in access.attached(fixed, ENVELOPE) if ours.items() <= told.items()
    )
    signed = _Signed(
        access=access, reference=fixed, manifest=manifest, key=key, cosign=cosign, candidates=candidates
    )
    missing = tuple(kind for kind in OF_A_ROW if not signed.has(kind, payloads[kind]))
    with TemporaryDirectory(prefix="stackwright-attest-") as name:
        for kind in missing:
            file = Path(name) / f"{kind.word}.dsse.json"
            file.write_bytes(sign(payloads[kind], key, cosign))
            annotations = {
                PREDICATE_TYPE: str(kind), **ours,
                "org.opencontainers.image.created": record.finished or record.started,
            }  # fmt: skip
            access.attach(fixed, ENVELOPE, file, annotations)
    return Attached(image=image, new=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """``manifest`` is the image's, ``reference`` names it.

    Every user of the registry may write an annotation, and so leave an image without a statement:
    ``candidates``, by digest with their annotations, are only where to look.
    """

    access: Access
    reference: str
    manifest: bytes
    key: Loaded
    cosign: Tool
    candidates: tuple[tuple[str, Mapping[str, str]], ...]

    def has(self, kind: Kind, payload: bytes) -> bool:
        """Return whether this statement is there, signed by this key."""
        named = (digest for digest, told in self.candidates if told.get(PREDICATE_TYPE) == kind)
        return any(self._brings(digest, kind, payload) for digest in named)

    def _brings(self, referrer: str, kind: Kind, payload: bytes) -> bool:
        try:
            found = json_object(self.access.manifest(pinned(self.reference, referrer)), referrer)
            (layer,) = found["layers"]
            if layer["size"] > LIMIT:
                return False
            content = self.access.blob(pinned(self.reference, layer["digest"]))
            envelope = statement.open_envelope(content, referrer)
            public = PublicKey(pem=self.key.public, place=str(self.key.path))
            check(envelope, kind, self.manifest, key=public, cosign=self.cosign, place=referrer)
        except (AttestError, PublishError, KeyError, TypeError, ValueError):
            return False  # it is signed again, which also says what is wrong with the registry
        return envelope.payload == payload


def require_probed(
    row: Planned, record: Record, facts: Facts, manifest: Mapping[str, object], image: str
) -> None:
    """Raise AttestError unless row, record, facts and manifest are all of one image: what is signed was
    probed.

    A digest in the record is the publisher's, who compared what it sent with what was probed: in containerd's
    store the engine's own id is not one that a registry knows.
    """
    config = dig(manifest, "config", "digest")
    seen = record.image
    if seen and seen.digest and seen.digest != image:
        cause = f"the record is of the published {seen.digest}, and the registry has {image}"
    elif seen is None or (not seen.digest and seen.id not in (config, image)):
        cause = f"the record is of the image {seen.id if seen else 'of none'}, and the registry has {config}"
    elif (record.row, record.key) != (row.stack.id, row.recipe.key):
        of = f"{row.stack.id} {row.recipe.key[:12]}"
        cause = f"the record is of {record.row} {record.key[:12]}, not of {of}"
    elif found(row.stack, facts) != record.found:
        cause = "the facts are of another probing than the record"
    else:
        return
    raise AttestError(f"nothing is signed: {cause}", place=record.row, hint=f"./build.py probe {record.row}")


def _predicates(row: Planned, record: Record, facts: Facts, image: str) -> dict[Kind, Mapping[str, object]]:
    files = dict(row.recipe.files)
    patches = sbom.patches_of(files)
    return {
        Kind.SBOM: sbom.bom(record, facts, image=image, patches=patches),
        Kind.VEX: vex.vex(record, image=image, patches=patches),
        Kind.PROVENANCE: provenance.provenance(record, row.stack, files),
        Kind.VERDICT: provenance.test_result(record),
        Kind.RECORD: records.as_json(record),
    }
