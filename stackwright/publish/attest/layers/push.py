"""Pushes a layer to where its parent is, and attests it: the parent's own blobs stay where they are."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stackwright.core.errors import PublishError, UsageError
from stackwright.core.layer.document import parent_of
from stackwright.core.model.site import Site
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.engines.oci_tools import Name
from stackwright.host.runner import Runner
from stackwright.publish.attest import keys
from stackwright.publish.attest.cosign import sign
from stackwright.publish.attest.layers.chain import PARENT
from stackwright.publish.attest.oras import parsed, pinned, to_registry
from stackwright.publish.attest.statements import statement
from stackwright.publish.attest.statements.statement import ENVELOPE, PREDICATE_TYPE, Kind
from stackwright.publish.registry.client import Access, Manifest, Registry

LEVEL = 6
"""Of gzip. The time in its head is 0, so that the same layer has the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """``config`` and ``layer`` are the image's configuration and its added layer, as they are; ``said`` is
    the statement's predicate."""

    config: bytes
    layer: bytes
    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    site: Site
    docker: Docker
    runner: Runner
    say: Callable[[str], None]
    plain: bool = False


def parent_there(reference: str, digest: str, means: Means) -> Manifest:
    """Return the parent's manifest in the repository of ``reference``, which the layer is to be pushed to.

    UsageError where ``reference`` is no tag, PublishError where ``digest`` is not in its repository.
    """
    match = parsed(reference)
    if match["digest"] or not match["tag"]:
        raise UsageError(
            "--push is to a tag", place=reference, hint="HOST/NAME:TAG, with the parent's HOST/NAME"
        )
    found = _registry(match["host"], means).manifest(match["name"], digest) if digest else None
    if found is None:
        hint = "pull the published image, make the layer on that, and push to its repository"
        raise PublishError("the parent is not in this repository", place=reference, hint=hint)
    return found


def push(reference: str, made: Layered, means: Means) -> str:
    """Push and sign; return the reference by its digest. ``reference`` is of the parent's repository."""
    try:
        digest = parent_of(made.said)
    except ValueError:
        digest = ""
    parent = parent_there(reference, digest, means)
    match = parsed(reference)
    registry = _registry(match["host"], means)
    packed = gzip.compress(made.layer, LEVEL, mtime=0)
    manifest = _manifest(parent, made.config, packed)
    with TemporaryDirectory(prefix="stackwright-layer-") as name:
        for content in (made.config, packed):
            digest, path = f"sha256:{hashlib.sha256(content).hexdigest()}", Path(name) / "blob"
            path.write_bytes(content)
            registry.push_blob(match["name"], digest, path)
    registry.put_manifest(match["name"], manifest.digest, manifest)
    fixed = pinned(reference, manifest.digest)
    _attach(fixed, manifest, made.said, means)
    registry.put_manifest(match["name"], match["tag"], manifest)  # its tag comes last
    return fixed


def _registry(host: str, means: Means) -> Registry:
    own = means.site.registry if means.site.registry and means.site.registry.host == host else None
    ca = own.ca.resolve() if own and own.ca else means.site.ca
    plain = (own.plain if own else False) or means.plain
    return Registry(Access(host=host, ca=ca, plain=plain, proxies=means.site.proxies), means.say)


def _manifest(parent: Manifest, configuration: bytes, packed: bytes) -> Manifest:
    """Return that of the parent with one more layer and the new configuration."""
    document = parent.document
    layers = list(document["layers"])
    layers.append({**_blob(packed), "mediaType": layers[0]["mediaType"]})
    config = {**_blob(configuration), "mediaType": document["config"]["mediaType"]}
    whole = {**document, "config": config, "layers": layers}
    return Manifest(content=json.dumps(whole, indent=2).encode(), media_type=parent.media_type)


def _blob(content: bytes) -> dict[str, Any]:
    return {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _attach(reference: str, manifest: Manifest, said: Mapping[str, Any], means: Means) -> None:
    """Sign the statement with the site's key and attach it; without a key the layer is unsigned."""
    site = means.site
    if site.signing_key is None:
        means.say("not signed: the site names no signing_key; see docs/verify.md")
        return
    find = partial(oci_tools.find, runner=means.runner, docker=means.docker, mirror=site.mirror)
    cosign, oras = find(Name.COSIGN), find(Name.ORAS)
    payload = statement.encode(Kind.LAYER, manifest.digest, str(said["parent"]["row"]), said)
    own = site.registry if site.registry and site.registry.host == parsed(reference)["host"] else None
    ca, plain = (own.ca, own.plain or means.plain) if own else (None, means.plain)
    offline = replace(cosign, offline=True)
    with (
        keys.loaded(site.signing_key, offline, site.signing_password) as key,
        to_registry(reference, site, oras, say=means.say, ca=ca, plain=plain) as access,
        TemporaryDirectory(prefix="stackwright-attest-") as name,
    ):
        file = Path(name) / f"{Kind.LAYER.word}.dsse.json"
        file.write_bytes(sign(payload, key, offline))
        told = {
            PREDICATE_TYPE: str(Kind.LAYER), PARENT: parent_of(said),
            "org.opencontainers.image.created": str(said["started"]),
        }  # fmt: skip
        access.attach(reference, ENVELOPE, file, told)
