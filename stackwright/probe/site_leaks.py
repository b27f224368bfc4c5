"""Search all layers for site settings (CAs, proxies, mirrors, credentials), also in files deleted later.

A site CA is one that is nowhere else: a site's bundle holds many public ones, and some of them are found in
packages, as in programs that bring their own list.

Only the names of what is found are reported, never the values: facts and verdicts are published.
"""

from __future__ import annotations

import hashlib
import json
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import certifi

from stackwright.core.credentials import OVERLAP
from stackwright.core.errors import EngineError
from stackwright.core.ledger import wheels
from stackwright.core.model.site import Site
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.probe.outside import layers
from stackwright.probe.outside.layers import Read

PUBLIC = re.compile(
    r"localhost|(?:[^.]+\.)*(?:(?:debian|pypi|pythonhosted)\.org|(?:ubuntu|nvidia)\.com|(?:docker|ghcr|nvcr|quay)\.io)"
)
"""Hosts that are no site's own: images name them for good reasons."""

PACKAGED = Path("/usr/share/ca-certificates")
"""Where Debian's package of authorities has its certificates; what is not there is the site's."""

SHORTEST = 6
"""Bytes below which a value is found everywhere by chance."""

SHORTEST_TOKEN = 16
"""Characters; a shorter name is of a person, or "anonymous"."""

CERTIFICATE = "certificate "
"""Begin of the name of each one within this module; a finding calls all of them the site's "ca"."""

MOST = 100
"""Findings that are reported."""


Needles = Mapping[str, tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class Left:
    """``what`` is the name of the site's value; ``layer`` is the engine's or the archive's name of it."""

    what: str
    path: str
    layer: str


@dataclass(frozen=True, slots=True)
class Sought:
    """Makes a search for one file. Of the same values it is equal, so that a layer is read once."""

    wanted: tuple[tuple[str, tuple[bytes, ...]], ...]

    def __call__(self) -> _Search:
        return _Search(self.wanted)


class _Search:
    def __init__(self, wanted: tuple[tuple[str, tuple[bytes, ...]], ...]) -> None:
        self._left, self._found = dict(wanted), list[str]()

    def look(self, window: bytes | bytearray) -> None:
        hit = [name for name, values in self._left.items() if any(value in window for value in values)]
        for name in hit:
            del self._left[name]
        self._found += hit

    def found(self) -> tuple[str, ...]:
        return tuple(self._found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What one reading of an image gave. ``layers``: the document that static.site-layers reads."""

    layers: Mapping[str, Any]
    reads: tuple[Read, ...]


def needles(site: Site) -> Needles:
    """Return what to look for, by a name that tells nothing: values, passwords in them, and hashes."""
    found: dict[str, tuple[bytes, ...]] = {}
    for name, text in _values(site):
        parts = dict.fromkeys((*_parts(text), hashlib.sha256(text.encode()).hexdigest()))
        found[name] = (*found.get(name, ()), *(part.encode() for part in parts if len(part) >= SHORTEST))
    bundles = dict.fromkeys(ca for ca in (site.ca, site.registry and site.registry.ca) if ca)
    if bundles:
        found["ca"] = tuple(map(_hash_of, bundles))
        own = chain.from_iterable(map(_own_certificates, bundles))
        found |= {f"{CERTIFICATE}{number}": middles for number, middles in enumerate(own)}
    if site.signing_key:
        lines = site.signing_key.read_bytes().split()
        found["signing key"] = (_hash_of(site.signing_key), *(line for line in lines if len(line) >= 40))
    return {name: tuple(value[:OVERLAP] for value in values) for name, values in found.items() if values}


def search(site: Site) -> Sought:
    return Sought(tuple(sorted(needles(site).items())))


def facts(docker: Docker, image: str, site: Site) -> dict[str, Any]:
    """Return the document that the check of the layers reads. EngineError where there is no such image."""
    return dict(read(docker, image, site).layers)


def searched(site: Site) -> list[str]:
    """Return the names of the values that are looked for, as the document has them."""
    return sorted({_shown(name) for name in needles(site)})


def read(docker: Docker, image: str, site: Site, *, upper: int = 0) -> Outside:
    """All layers, or only so many of the uppermost, and what is left in them of the site.

    EngineError where there is no such image.
    """
    found = engine.inspect(docker, image)
    if found is None:
        raise EngineError("there is no such image", place=image, hint="build.py build")
    sought = search(site)
    told = sought()
    told.look(json.dumps([found, *(asdict(line) for line in engine.layers(docker, image))]).encode())
    left = [Left(what, "its configuration", "the image") for what in told.found()]
    reads = layers.read(docker, image, found, sought, upper=upper)
    left += (
        Left(what, seen.path.lstrip("/"), seen.layer)
        for layer in reads
        for seen in layer.seen
        for what in seen.left
    )
    entries = [asdict(entry) for entry in _not_packaged(left, reads)[:MOST]]
    document = {"searched": searched(site), "layers": len(found["RootFS"]["Layers"]), "left": entries}
    return Outside(layers=document, reads=reads)


def _not_packaged(left: Sequence[Left], reads: Sequence[Read]) -> list[Left]:
    """Without authorities that the image's own package of them has: a site's bundle may be older or newer.

    And without those in a file that is as its wheel has it: wheels are installed by the hashes of the lock.
    """
    packaged = {
        entry.what for entry in left
        if entry.what.startswith(CERTIFICATE) and entry.path.startswith(f"{PACKAGED.relative_to('/')}/")
    }  # fmt: skip
    others = [entry for entry in left if entry.what not in packaged]
    doubtful = {
        (other.layer, f"/{other.path}")
        for other in others
        if other.what.startswith(CERTIFICATE) and "-packages/" in other.path
    }
    right = {place for layer in reads for place in _as_recorded(layer, doubtful)} if doubtful else set()
    return [
        replace(other, what=_shown(other.what))
        for other in others
        if not other.what.startswith(CERTIFICATE) or (other.layer, f"/{other.path}") not in right
    ]


def _as_recorded(read: Read, places: Set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Those whose content has the hash that the RECORD of a wheel in the same layer has for them."""
    layer = read.layer
    listed = wheels.read(layer.texts)
    for entry in layer.entries:
        place = (layer.name, entry.path)
        if place in places and entry.path in listed and entry.sha256 in listed[entry.path].sha256:
            yield place


def _shown(what: str) -> str:
    return "ca" if what.startswith(CERTIFICATE) else what


# -- what to look for ------------------------------------------------------------------------------


def _values(site: Site) -> Iterator[tuple[str, str]]:
    yield from (("mirror", text) for text in (site.mirror, site.ubuntu) if text)
    for name, text in site.pip:
        yield from ((f"index ({name})", word) for word in text.split())
    yield from (("proxy", text) for name, text in site.proxies if name != "no_proxy")
    if site.registry:
        yield "registry", f"{site.registry.host}/{site.registry.repository}"
    if site.cache:
        yield "cache", site.cache
    if site.images:
        yield "image mirror", f"{site.images.host}/{site.images.repository}"


def _parts(text: str) -> Iterator[str]:
    """Of an address: a host that is the site's own, and a password in both ways of writing it.

    An index may take a token for the name of the user, and no password.
    """
    parts = urlsplit(text if "://" in text else f"//{text}")
    server = parts.hostname or ""  # in lower case
    if "." in server and not PUBLIC.fullmatch(server) and not server.startswith("127."):
        yield from (server, parts.netloc.rpartition("@")[2][: len(server)])
    elif not PUBLIC.fullmatch(server) or parts.port:
        yield f"//{(text.partition('://')[2] or text).rpartition('@')[2]}"
    if secret := parts.password or (parts.username if len(parts.username or "") >= SHORTEST_TOKEN else ""):
        yield from (secret, unquote(secret))


def _hash_of(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).hexdigest().encode()


def _own_certificates(bundle: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the middle of each certificate that is not one of the public ones, as PEM and as DER have it."""
    public = _certificates(Path(certifi.where()))
    for path in PACKAGED.rglob("*.crt"):
        public |= _certificates(path)
    for pem in sorted(_certificates(bundle) - public):
        lines = pem.split()
        der = ssl.PEM_cert_to_DER_cert(f"{BEGIN}\n{pem}\n{END}\n")
        yield lines[len(lines) // 2].encode(), der[len(der) // 2 :][:48]


BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def _certificates(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return {"\n".join(part.partition(END)[0].split()) for part in text.split(BEGIN)[1:]}
