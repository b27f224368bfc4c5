"""Read what is published for a row now: the image's configuration, and its record."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter

from stackwright.core.checks.observed import dig
from stackwright.core.errors import RecordError
from stackwright.core.model.record import Record
from stackwright.publish import gate
from stackwright.publish.attest.statements.statement import ENVELOPE, PREDICATE_TYPE, Kind
from stackwright.publish.gate import Yesterday
from stackwright.publish.registry.client import Manifest, Registry
from stackwright.publish.tags import Named
from stackwright.records import files as record

_RECORDS = TypeAdapter(Record)


def yesterday(registry: Registry, records: Path, row: str, image: Named, sif: Named) -> Yesterday | None:
    """Return what the row's first moving tag leads to; None where it leads nowhere. ``records`` are ours."""
    found = registry.manifest(image.repository, image.moving[0])
    if found is None:
        return None
    known = _ours(records, row, found.digest) or _attached(registry, image.repository, found.digest)
    return Yesterday(
        digest=found.digest,
        row=gate.declared(_labels(registry, image.repository, found)),
        passed=gate.passed(known) if known else None,
        sif=registry.digest_of(sif.repository, sif.moving[0]) is not None,
    )


def _labels(registry: Registry, repository: str, found: Manifest) -> dict[str, str]:
    """Return the labels of the image; none where the tag leads to no image of Docker's or OCI's."""
    config = dig(found.document, "config", "digest")
    if config is None:
        return {}
    try:
        described = json.loads(registry.read_blob(repository, str(config)))
    except ValueError:
        return {}
    return gate.own_labels(described)


def _ours(records: Path, row: str, digest: str) -> Record | None:
    for path in sorted((records / row).glob("[!.]*.json"), reverse=True):
        with contextlib.suppress(RecordError):
            known = record.load(path)
            if known.image and known.image.digest == digest:
                return known
    return None


def _attached(registry: Registry, repository: str, digest: str) -> Record | None:
    """Return the newest record that was attached to the image.

    Its signature is `build.py verify`'s business.
    """
    found = list(_statements(registry, repository, digest))
    return max(found, key=lambda known: (known.started, known.finished or ""), default=None)


def _statements(registry: Registry, repository: str, digest: str) -> Iterator[Record]:
    for referrer in registry.referrers(repository, digest, ENVELOPE):
        attached = registry.manifest(repository, referrer)
        if attached is None or dig(attached.document, "annotations", PREDICATE_TYPE) != Kind.RECORD:
            continue
        for layer in dig(attached.document, "layers") or ():
            with contextlib.suppress(ValueError, LookupError, TypeError):  # written by another version of us
                envelope = json.loads(registry.read_blob(repository, layer["digest"]))
                statement = json.loads(base64.b64decode(envelope["payload"]))
                yield _RECORDS.validate_json(json.dumps(statement["predicate"]), strict=True)
