"""An image and what refers to it, in a folder in the OCI layout: every blob is checked against its digest.

A registry is read through such a folder as well, so that there is one way to verify.
Source: opencontainers/image-spec, image-layout.md and manifest.md (``subject``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackwright.core.errors import AttestError
from stackwright.publish.attest.jsons import json_object

MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
TAG = "org.opencontainers.image.ref.name"
PARENT = "parent-"
"""How the tags of images begin that the named one is a layer on."""
LIMIT = 64 * 2**20
"""Bytes of a blob that is read as a whole; layers are only hashed."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
SEVERAL = "an index of several images"
COPY = "copy the image again, with all that refers to it: oras copy -r"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``content`` are the bytes that ``digest`` is of."""

    digest: str
    content: bytes
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    folder: Path

    def entries(self) -> tuple[Mapping[str, Any], ...]:
        """Those of index.json itself."""
        index = json_object(_read(self.folder / "index.json", str(self.folder)), f"{self.folder}/index.json")
        listed = index.get("manifests")
        return tuple(entry for entry in listed if isinstance(entry, dict)) if isinstance(listed, list) else ()

    def descriptors(self) -> tuple[Mapping[str, Any], ...]:
        """Those of index.json, and of the indexes of referrers that it names (the tag schema's)."""
        return tuple(self._flat({"manifests": list(self.entries())}, 0))

    def _flat(self, index: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
        listed = index.get("manifests")
        for entry in listed if isinstance(listed, list) else ():
            if not isinstance(entry, dict):
                continue
            yield entry
            if entry.get("mediaType") in INDEXES and depth < 2:
                content = self.blob(str(entry.get("digest")), "index")
                yield from self._flat(json_object(content, str(entry.get("digest"))), depth + 1)

    def blob(self, digest: str, what: str, size: object = None) -> bytes:
        """Raise AttestError where it is absent, too large, or not what its digest says."""
        content = _read(self.path(digest, what), what)
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise AttestError(f"was changed: it does not match {digest}", place=what, hint=COPY)
        if size is not None and size != len(content):
            raise AttestError(f"has {len(content)} bytes, and {size} are declared", place=what, hint=COPY)
        return content

    def check(self, digest: str, what: str) -> int:
        """Hold a blob of any size to its digest; its bytes."""
        path = self.path(digest, what)
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise AttestError(f"{digest} is not there", place=what, hint=COPY) from error
        if f"sha256:{found}" != digest:
            raise AttestError(f"was changed: it does not match {digest}", place=what, hint=COPY)
        return path.stat().st_size

    def path(self, digest: str, what: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise AttestError(f"not a digest: {digest[:80]!r}", place=what)
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def manifest(self, digest: str, what: str = "the image's manifest") -> Manifest:
        content = self.blob(digest, what)
        return Manifest(digest=digest, content=content, document=json_object(content, what))

    def referrers(self, digest: str) -> Iterator[Manifest]:
        """Yield the manifests whose own ``subject`` is the image: where they are listed says nothing."""
        for referrer in {str(descriptor.get("digest")): descriptor for descriptor in self.descriptors()}:
            if referrer == digest or not _DIGEST.fullmatch(referrer):
                continue
            found = self.manifest(referrer, f"referrer {referrer[:19]}…")
            subject = found.document.get("subject")
            if isinstance(subject, dict) and subject.get("digest") == digest:
                yield found


def split(reference: str) -> tuple[Path | None, str]:
    """Folder, and tag or digest, of FOLDER, FOLDER:TAG or FOLDER@DIGEST; None where no such folder is."""
    for mark in ("", "@", ":"):
        folder, _, wanted = reference.partition("@") if mark == "@" else reference.rpartition(":")
        path, named = (Path(folder), wanted) if mark else (Path(reference), "")
        if (path / "oci-layout").is_file() and (path / "index.json").is_file():
            return path, named
    return None, ""


def image_of(layout: Layout, wanted: str = "") -> str:
    """Return the digest of the one image in it, or of that with the tag or digest ``wanted``.

    A tag is what index.json itself says. An index that it names was written by a user who may write to the
    registry, and could call a signed image by the tag that leads others to another one.
    """
    images: dict[str, list[str]] = {}
    for entry in layout.entries():
        if entry.get("mediaType") in MANIFESTS and _is_image(layout, str(entry.get("digest"))):
            images.setdefault(str(entry["digest"]), []).append(_tag(entry))
    own = (
        {digest: tags for digest, tags in images.items() if not _only_parent(tags)} if not wanted else images
    )
    named = [digest for digest, tags in own.items() if not wanted or wanted in (digest, *tags)]
    if len(named) == 1:
        return named[0]
    place, hint = str(layout.folder), _names(images)
    if wanted:
        cause = SEVERAL if _is_index(layout, wanted) else f"no image {wanted!r} in it"
        raise AttestError(cause, place=place, hint=hint)
    hint = f"name one of them: FOLDER:TAG or FOLDER@DIGEST; {hint}"
    raise AttestError(f"{len(images)} images are in it", place=place, hint=hint)


def _only_parent(tags: list[str]) -> bool:
    """Tell whether it was copied as the parent of a layer alone."""
    return bool(tags) and all(tag.startswith(PARENT) for tag in tags)


def _is_index(layout: Layout, wanted: str) -> bool:
    indexes = (entry for entry in layout.entries() if entry.get("mediaType") in INDEXES)
    return any(wanted in (index.get("digest"), _tag(index)) for index in indexes)


def _is_image(layout: Layout, digest: str) -> bool:
    return "subject" not in layout.manifest(digest, f"the manifest {digest[:19]}…").document


def _tag(described: Mapping[str, Any]) -> str:
    annotations = described.get("annotations")
    return str(annotations.get(TAG, "")) if isinstance(annotations, dict) else ""


def _names(images: Mapping[str, Sequence[str]]) -> str:
    names = (", ".join(filter(None, tags)) or digest for digest, tags in images.items())
    return "it has " + (", ".join(names) or "none")


def _read(path: Path, what: str) -> bytes:
    try:
        if path.stat().st_size > LIMIT:
            raise AttestError(f"larger than {LIMIT} bytes", place=what)
        return path.read_bytes()
    except OSError as error:
        raise AttestError(f"{path.name[:19]} is not there", place=what, hint=COPY) from error
