"""Changes a signed image in a folder in the OCI layout, as one who may write to a registry could."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackwright.engines.oci_tools import Tool
from stackwright.publish.attest import cosign as signing
from stackwright.publish.attest import keys, oras
from stackwright.publish.attest.oci_layout import Layout, image_of
from stackwright.publish.attest.statements import statement
from stackwright.publish.attest.statements.statement import PREDICATE_TYPE, Kind

Document = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Tampered:
    """``digest`` is that of the image's manifest: it moves on when the manifest is replaced."""

    folder: Path
    cosign: Tool
    key: Path
    digest: str = ""

    def __post_init__(self) -> None:
        self.digest = image_of(Layout(folder=self.folder), oras.COPIED)

    @property
    def image(self) -> Document:
        return self._json(self.digest)

    def blob(self, digest: str) -> Path:
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def change_byte(self, digest: str) -> None:
        content = bytearray(self.blob(digest).read_bytes())
        content[len(content) // 2] ^= 1
        self.blob(digest).write_bytes(content)

    def replace_layer(self) -> None:
        """Another layer, in a manifest that is whole, under the name that the image had."""
        image = self.image
        image["layers"][-1] |= self._put(b"another layer")
        self._replace(self.digest, image)

    def point_referrers_here(self) -> None:
        for old in self._referrers():
            document = self._json(old)
            document["subject"] |= {"digest": self.digest, "size": self.blob(self.digest).stat().st_size}
            self._replace(old, document)

    # -- statements --------------------------------------------------------------------------------

    def envelope(self, kind: Kind) -> bytes:
        return self.blob(self._json(self._referrer(kind))["layers"][0]["digest"]).read_bytes()

    def put_envelope(self, kind: Kind, content: bytes, *, beside: bool = False) -> None:
        """In the place of the one of its kind, or ``beside`` it."""
        old = self._referrer(kind)
        document = self._json(old)
        document["layers"][0] |= self._put(content)
        self._replace("" if beside else old, document)

    def change_envelope(self, kind: Kind, change: Callable[[Document], None]) -> None:
        document = json.loads(self.envelope(kind))
        change(document)
        self.put_envelope(kind, json.dumps(document).encode())

    def sign_again(self, kind: Kind, change: Callable[[Document], Document], *, beside: bool = False) -> None:
        """Another predicate about the same image, signed by the site's own key."""
        payload = statement.open_envelope(self.envelope(kind), "").payload
        predicate = change(dict(statement.read(payload, "").predicate))
        with keys.loaded(self.key, self.cosign) as key:
            changed = statement.encode(kind, self.digest, "x", predicate)
            self.put_envelope(kind, signing.sign(changed, key, self.cosign), beside=beside)

    def remove(self, kind: Kind) -> None:
        self._listed(lambda listed: [entry for entry in listed if entry["digest"] != self._referrer(kind)])

    # -- the folder --------------------------------------------------------------------------------

    def _json(self, digest: str) -> Document:
        document: Document = json.loads(self.blob(digest).read_bytes())
        return document

    def _put(self, content: bytes) -> Document:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blob(digest).write_bytes(content)
        return {"digest": digest, "size": len(content)}

    def _referrers(self) -> list[str]:
        digests = [
            manifest["digest"]
            for manifest in json.loads((self.folder / "index.json").read_text())["manifests"]
        ]
        return [digest for digest in digests if "subject" in self._json(digest)]

    def _referrer(self, kind: Kind) -> str:
        wanted = {PREDICATE_TYPE: str(kind)}.items()
        return next(
            referrer
            for referrer in self._referrers()
            if wanted <= self._json(referrer)["annotations"].items()
        )

    def _replace(self, old: str, document: Document) -> None:
        """The new manifest takes the place of the old one in the index, or the end of it."""
        new = self._put(json.dumps(document).encode())
        kept = {"mediaType": document["mediaType"], **new}

        def listed(found: list[Document]) -> list[Document]:
            if not old:
                return [*found, kept]
            return [{**document, **new} if document["digest"] == old else document for document in found]

        self._listed(listed)
        if old == self.digest:
            self.digest = new["digest"]

    def _listed(self, change: Callable[[list[Document]], list[Document]]) -> None:
        path = self.folder / "index.json"
        index = json.loads(path.read_text())
        index["manifests"] = change(index["manifests"])
        path.write_text(json.dumps(index))
