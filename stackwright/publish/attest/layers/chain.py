"""Whether an image is a layer on a row's image, as its statement says: each link down to it is checked."""

from __future__ import annotations

import gzip
import hashlib
import json
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, cast

from stackwright.core.checks.observed import dig
from stackwright.core.errors import AttestError
from stackwright.core.layer.document import DIGEST, parent_of
from stackwright.core.layer.hidden import WHERE
from stackwright.core.model.labels import KEY, ROW
from stackwright.core.model.row import Outcome, Tier
from stackwright.engines.oci_tools import Tool
from stackwright.publish.attest import verify as images
from stackwright.publish.attest.keys import PublicKey
from stackwright.publish.attest.oci_layout import Layout, Manifest
from stackwright.publish.attest.statements.statement import Kind, Statement
from stackwright.publish.attest.verify import REQUIRED, Verified, contents, statements_of

PARENT = "org.stackwright.layer.parent"
"""Annotation of the statement's manifest: where to look for the parent. A hint, never trusted."""
MOST_LAYERS = 8
WHITEOUT = ".wh."
CHUNK = 2**20
HINT = "do not use the image; ask who signed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """One layer: the image with it, its parent by the digest of its manifest, and what it added.

    ``taken`` are checks that rest on the proof of the parent.
    """

    image: str
    parent: str
    added: Mapping[str, str]
    tiers: Mapping[str, str]
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chained:
    """``above`` are the layers on the row's image, the uppermost first; none where it is that image."""

    row: Verified
    above: tuple[Above, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to hold: as ``verify.verify`` takes it."""

    key: PublicKey
    cosign: Tool
    at: datetime
    require: Sequence[Tier] = REQUIRED
    row: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    manifest: Manifest
    config: Mapping[str, Any]
    said: Mapping[str, Any] = field(default_factory=dict)


def parents(layout: Layout, image: str) -> Iterator[str]:
    """Yield the digests that annotations name as parents."""
    for referrer in layout.referrers(image):
        named = dig(referrer.document, "annotations", PARENT)
        if isinstance(named, str) and DIGEST.fullmatch(named) and named != image:
            yield named


def verify(layout: Layout, image: str, asked: Asked, *, depth: int = 0) -> Chained:
    """Check an image, and where it is a layer, all below it. AttestError where anything does not hold."""
    manifest = layout.manifest(image)
    config, _ = contents(layout, manifest)
    attested = statements_of(layout, manifest, asked.key, asked.cosign)
    found = [statement for statement in attested.statements if statement.kind is Kind.LAYER]
    if not found:
        row = images.verify(
            layout, image, asked.key, asked.cosign, at=asked.at, require=asked.require, row=asked.row
        )
        return Chained(row=row)
    if depth >= MOST_LAYERS:
        raise AttestError(f"more than {MOST_LAYERS} layers are on the row's image", place=image)
    asked.key.require_valid(asked.at)
    link = _Link(manifest=manifest, config=config, said=_newest(found).predicate)
    _refuse(_not_proven(link.said, asked.require))
    parent = _parent(layout, link)
    below = verify(layout, parent.manifest.digest, asked, depth=depth + 1)
    _refuse(_other_parent(link, parent) or _other_row(link, below.row))
    _refuse(_hides(layout, link))
    above = Above(
        image=image, parent=parent.manifest.digest, added=_texts(link.said.get("added")),
        tiers=_texts(link.said.get("tiers")), taken=_taken(link.said),
    )  # fmt: skip
    return Chained(row=below.row, above=(above, *below.above))


def _newest(found: Sequence[Statement]) -> Statement:
    return max(found, key=lambda statement: str(statement.predicate.get("started")))


def _refuse(cause: str) -> None:
    if cause:
        raise AttestError(cause, place="the layer", hint=HINT)


def _texts(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, Mapping) else {}


def _taken(said: Mapping[str, Any]) -> tuple[str, ...]:
    found = said.get("taken_over")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _not_proven(said: Mapping[str, Any], require: Sequence[Tier]) -> str:
    failed, tiers = said.get("failed"), said.get("tiers")
    if failed != []:
        return f"checks of it failed: {failed}"[:200]
    for tier in require:
        if dig(tiers, str(tier)) != Outcome.PASSED:
            return f"the tier {tier} was not run with the layer, and it is required"
    return "" if dig(said, "layer", "hides") == [] else "it hides files of its parent"


def _parent(layout: Layout, link: _Link) -> _Link:
    try:
        digest = parent_of(link.said)
    except ValueError as error:
        raise AttestError(str(error), place="the layer", hint=HINT) from error
    if not layout.path(digest, "the parent").is_file():
        hint = "copy it together with its parent; build.py verify of the registry does"
        raise AttestError(f"its parent {digest[:19]}… is not here", place="the layer", hint=hint)
    manifest = layout.manifest(digest, "the parent's manifest")
    return _Link(manifest=manifest, config=contents(layout, manifest)[0])


def _other_parent(link: _Link, parent: _Link) -> str:
    """The parent's layers are the first ones, by the digests of what is sent and of what is unpacked."""
    mine, others = (list(dig(image.manifest.document, "layers") or []) for image in (link, parent))
    if [dig(layer, "digest") for layer in mine[:-1]] != [dig(layer, "digest") for layer in others]:
        return "it is not one layer on the parent that its statement names"
    unpacked, below = (list(dig(image.config, "rootfs", "diff_ids") or []) for image in (link, parent))
    if unpacked[:-1] != below or unpacked[-1:] != [dig(link.said, "layer", "digest")]:
        return "its configuration names other layers than its statement"
    if dig(link.manifest.document, "config", "digest") != link.said.get("image"):
        return "its statement is of another image"
    proven = (dig(parent.manifest.document, "config", "digest"), parent.manifest.digest)
    if _taken(link.said) and dig(link.said, "taken_from", "image") not in proven:
        return "it takes over the proof of another image than its parent"
    return ""


def _other_row(link: _Link, row: Verified) -> str:
    labels = dig(link.config, "config", "Labels")
    named = (dig(labels, ROW), dig(labels, KEY))
    if named != (row.record.row, row.record.key):
        return f"its labels name {named[0]!r} {str(named[1])[:12]}, and its parent is {row.record.row!r}"
    return ""


def _hides(layout: Layout, link: _Link) -> str:
    """Read the added layer: it is the one of its statement, takes nothing away, and is below /opt/stack."""
    path = layout.path(str(link.manifest.document["layers"][-1]["digest"]), "the added layer")
    try:
        with path.open("rb") as packed, _unpacked(packed) as unpacked:
            content = _Digest(unpacked)
            with tarfile.open(fileobj=content, mode="r|") as archive:  # type: ignore[call-overload]
                odd = next(filter(None, (_odd(member.name) for member in archive)), "")
            while not odd and content.read(CHUNK):
                pass
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        return f"the added layer cannot be read: {error}"
    if not odd and f"sha256:{content.sha256.hexdigest()}" != dig(link.said, "layer", "digest"):
        return "the added layer is another one than its statement is of"
    return odd


def _odd(member: str) -> str:
    name = posixpath.normpath(f"/{member}")
    if posixpath.basename(name).startswith(WHITEOUT):
        return f"it takes {json.dumps(name)} of its parent away"
    if not (name.startswith(f"{WHERE}/") or f"{WHERE}/".startswith(f"{name}/")):
        return f"it has {json.dumps(name)}, which is not below {WHERE}"
    return ""


class _Digest:
    """A file that is read once, with the digest of what was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self.sha256.update(piece)
        return piece


def _unpacked(file: BinaryIO) -> BinaryIO:
    head = file.read(2)
    file.seek(0)
    return cast("BinaryIO", gzip.GzipFile(fileobj=file)) if head == b"\x1f\x8b" else file


def document(done: Chained, key: PublicKey) -> dict[str, Any]:
    """``--format json``: that of the row's image, and the layers on it."""
    above = [
        {
            "image": above.image,
            "parent": above.parent,
            "added": dict(above.added),
            "tiers": dict(above.tiers),
            "taken_over": list(above.taken),
        }
        for above in done.above
    ]
    return {**images.document(done.row, key), **({"layers_on_it": above} if above else {})}


def lines(done: Chained, key: PublicKey) -> Iterator[str]:
    """Yield what a person reads, from the uppermost layer down."""
    for above in done.above:
        yield f"{above.image}: a layer on {above.parent}, and no file of that is hidden"
        yield f"  added       {', '.join(f'{name} {version}' for name, version in above.added.items())}"
        tiers = ", ".join(f"{tier} {said}" for tier, said in above.tiers.items())
        yield f"  verdict     {tiers}, with the layer"
        if above.taken:
            yield f"  taken over  {len(above.taken)} checks of the parent's files, which stay as they are"
    yield from images.lines(done.row, key)
