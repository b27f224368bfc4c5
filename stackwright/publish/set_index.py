"""One tag for all rows together: an index of their images, which one request replaces by another.

Tags of rows move one after the other. A user who must not mix two nights' rows reads this.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from stackwright.publish.registry.client import Manifest

INDEX = "application/vnd.oci.image.index.v1+json"
ROW, NAME = "org.stackwright.row", "org.opencontainers.image.ref.name"
"""Annotations of an entry: its row, and the first of the tags that move to it."""

Entry = Mapping[str, Any]


def entry(row: str, name: str, manifest: Manifest) -> Entry:
    return {
        "mediaType": manifest.media_type, "digest": manifest.digest, "size": len(manifest.content),
        "annotations": {ROW: row, NAME: name},
    }  # fmt: skip


def kept(before: Manifest | None, rows: Collection[str], without: Collection[str]) -> tuple[Entry, ...]:
    """Entries of yesterday's index that stay: of rows that the matrix still has, but for some.

    Of a row that is published now none stays: its SIF of yesterday is not one of today's image.
    """
    listed = before.document.get("manifests") or () if before else ()
    staying = set(rows) - set(without)
    return tuple(one for one in listed if _said(one, ROW) in staying and _said(one, NAME))


def index(entries: Iterable[Entry]) -> Manifest:
    """Return the index; the same entries give the same bytes."""
    ordered = sorted(entries, key=lambda one: _said(one, NAME))
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": ordered}
    return Manifest(content=json.dumps(document, indent=1, sort_keys=True).encode(), media_type=INDEX)


def _said(one: Entry, name: str) -> str:
    return str((one.get("annotations") or {}).get(name, ""))
