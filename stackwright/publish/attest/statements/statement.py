"""What is signed: an in-toto statement about one image, in a DSSE envelope. Values in, values out.

Sources: in-toto attestation framework (Statement v1), secure-systems-lab/dsse (protocol.md, envelope.md).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from stackwright.core.errors import AttestError
from stackwright.publish.attest.jsons import json_object

STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD = "application/vnd.in-toto+json"
ENVELOPE = "application/vnd.dsse.envelope.v1+json"
"""Media type of an envelope, and the artifact type of the manifest that refers to the image."""

PREDICATE_TYPE = "in-toto.io/predicate-type"
"""Annotation of the referring manifest. A reader finds by it, and believes the signed statement alone."""

_DIGEST = re.compile(r"^sha256:[0-9a-f]{64}\Z")


class Kind(StrEnum):
    """Kinds of attestations of an image, by the type of the predicate."""

    SBOM = "https://cyclonedx.org/bom"
    VEX = "https://openvex.dev/ns/v0.2.0"
    PROVENANCE = "https://slsa.dev/provenance/v1"
    VERDICT = "https://in-toto.io/attestation/test-result/v0.1"
    RECORD = "urn:stackwright:record:1"
    LAYER = "urn:stackwright:layer:1"
    """Of a layer on a row's image, and of no row."""

    @property
    def word(self) -> str:
        return self.name.lower()


OF_A_ROW = tuple(kind for kind in Kind if kind is not Kind.LAYER)
"""What each image of a row has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """``payload`` is the statement's bytes, ``content`` an envelope with them and nothing else."""

    content: bytes
    payload: bytes
    keyids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """``subject`` is the digest of the image's manifest, "sha256:…"."""

    kind: Kind
    subject: str
    predicate: Mapping[str, Any]


def encode(kind: Kind, subject: str, name: str, predicate: Mapping[str, Any]) -> bytes:
    """Return the statement's bytes, in the order of its values, so that a record is read back as it was.

    ``name`` is for people.
    """
    algorithm, _, encoded = subject.partition(":")
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {algorithm: encoded}}],
        "predicateType": str(kind),
        "predicate": predicate,
    }
    return json.dumps(statement, separators=(",", ":"), ensure_ascii=False).encode()


def to_be_signed(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the type is signed together with the payload."""
    kind = PAYLOAD.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def enclose(payload: bytes, *, signature: str, keyid: str) -> bytes:
    """``signature`` in base64."""
    document = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": keyid, "sig": signature}],
    }
    return json.dumps(document, sort_keys=True).encode() + b"\n"


def open_envelope(content: bytes, place: str) -> Envelope:
    """Raise AttestError where it is none, or one of something else. The signature is not looked at here.

    Who checks the signature gets what was read here, written anew: Go takes "Payload" for "payload" as well,
    so of a file that has both cosign would check one statement, and we would believe the other. A keyid is
    shown, and must not steer the terminal.
    """
    document = json_object(content, place)
    if document.get("payloadType") != PAYLOAD:
        raise AttestError(f"an envelope of {document.get('payloadType')!r}, not of a statement", place=place)
    signatures = document.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise AttestError("not signed: the envelope has no signature", place=place)
    try:
        payload = base64.b64decode(str(document.get("payload")), validate=True)
    except (binascii.Error, ValueError) as error:
        raise AttestError("the envelope's payload is not base64", place=place) from error
    texts = (
        {name: signature[name] for name in ("keyid", "sig") if isinstance(signature.get(name), str)}
        for signature in signatures if isinstance(signature, dict)
    )  # fmt: skip
    kept = [{name: text for name, text in signature.items() if text.isprintable()} for signature in texts]
    read = {"payloadType": PAYLOAD, "payload": base64.b64encode(payload).decode(), "signatures": kept}
    keyids = tuple(signature["keyid"] for signature in kept if "keyid" in signature)
    return Envelope(content=json.dumps(read).encode(), payload=payload, keyids=keyids)


def read(payload: bytes, place: str) -> Statement:
    """Raise AttestError where it is no statement of a known kind about exactly one thing."""
    document = json_object(payload, place)
    if document.get("_type") != STATEMENT:
        raise AttestError(f"a statement of the type {document.get('_type')!r}", place=place)
    try:
        (subject,) = document["subject"]
        (digest,) = _DIGEST.findall(f"sha256:{subject['digest']['sha256']}")
        kind = Kind(document["predicateType"])
        predicate = document["predicate"]
    except (KeyError, TypeError, ValueError) as error:
        raise AttestError("not a statement about one image", place=place) from error
    if not isinstance(predicate, dict):
        raise AttestError("the statement's predicate is no object", place=place)
    return Statement(kind=kind, subject=digest, predicate=predicate)
