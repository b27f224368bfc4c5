"""What is attested of a layer: its parent by digest, what was added, and that no file is hidden. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stackwright.core.layer.taken import Taken, names
from stackwright.core.model.row import Package, Tier, Verdict

DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """The parent: ``id`` is the engine's or that of the file, ``digest`` of the published manifest, or "".

    ``layers`` are the digests of its unpacked layers; a SIF has none.
    """

    row: str
    key: str
    world: str
    id: str
    digest: str = ""
    layers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """``digest`` is that of the layer unpacked, or of the overlay's file; ``wanted`` was asked for."""

    digest: str
    files: int
    bytes: int
    wanted: tuple[str, ...]
    there: tuple[Package, ...]
    new: tuple[Package, ...]
    pins: str


def document(
    below: Below, added: Added, verdict: Verdict, *, image: str, started: str, parent: Taken | None = None
) -> dict[str, Any]:
    """``image`` is the id of both together; empty for an overlay, which is a file of its own.

    ``parent`` is what was not read again of the parent's files.
    """
    rests = {"image": parent.parent, "record": parent.started} if parent else None
    return {
        "version": VERSION,
        "image": image,
        "started": started,
        "parent": {
            "row": below.row, "key": below.key, "world": below.world, "id": below.id, "digest": below.digest,
            "layers": list(below.layers),
        },
        "layer": {"digest": added.digest, "files": added.files, "bytes": added.bytes, "hides": []},
        "asked": list(added.wanted),
        "there": _versions(added.there),
        "added": _versions(added.new),
        "pins": added.pins,
        "checks": {check.id: str(check.outcome) for check in verdict.checks},
        "tiers": {str(tier): str(verdict.tier(tier)) for tier in Tier},
        "failed": [check.id for check in verdict.failed],
        "taken_over": list(names(verdict)) if parent else [],
        **({"taken_from": rests} if rests else {}),
    }  # fmt: skip


def _versions(found: Sequence[Package]) -> dict[str, str]:
    return {package.name: package.version for package in found}


def parent_of(said: Mapping[str, Any]) -> str:
    """Return the digest of the parent's manifest. ValueError where the document names none."""
    below = said.get("parent")
    digest = below.get("digest") if isinstance(below, Mapping) else None
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise ValueError("it names no published parent")
    return digest
