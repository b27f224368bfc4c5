"""Tags that lead to several images: an index of all rows, and one of the same row for each platform.

Tags of rows move one after the other; an index is replaced by one request. A user who must not mix the rows
of two nights reads that of all rows. Of one for platforms, a host pulls the image of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from stackwright.core.model.target import Platform
from stackwright.publish.registry.client import Manifest

INDEX = "application/vnd.oci.image.index.v1+json"
ROW, NAME = "org.stackwright.row", "org.opencontainers.image.ref.name"
"""Annotations of an entry: its row, and the first of the tags that move to it."""

Entry = Mapping[str, Any]


def entry(row: str, name: str, manifest: Manifest, platform: Platform | None = None) -> Entry:
    """Return the entry of an image; hosts choose one by its ``platform``, where it has one."""
    described: dict[str, Any] = {
        "mediaType": manifest.media_type, "digest": manifest.digest, "size": len(manifest.content),
        "annotations": {ROW: row, NAME: name},
    }  # fmt: skip
    if platform:
        described["platform"] = {"os": platform.os, "architecture": platform.architecture}
    return described


def kept(before: Manifest | None, rows: Collection[str], without: Collection[str]) -> tuple[Entry, ...]:
    """Entries of yesterday's index that stay: of rows that it still is for, but for some.

    Of a row that is published now none stays: its SIF of yesterday is not one of today's image.
    """
    listed = before.document.get("manifests") or () if before else ()
    staying = set(rows) - set(without)
    return tuple(
        described for described in listed if _said(described, ROW) in staying and _said(described, NAME)
    )


def index(entries: Iterable[Entry]) -> Manifest:
    """Return the index; the same entries give the same bytes."""
    ordered = sorted(entries, key=lambda described: _said(described, NAME))
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": ordered}
    return Manifest(content=json.dumps(document, indent=1, sort_keys=True).encode(), media_type=INDEX)


def _said(described: Entry, name: str) -> str:
    return str((described.get("annotations") or {}).get(name, ""))
