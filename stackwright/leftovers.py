"""Looks for what a site said to a build in every layer of an image: also in files that a later layer deletes.

Authorities are told from those of all the world by where else they are: a site's bundle holds many that are
no site's own, and some of them are found in packages, as in programs that bring their own list.

Only the names of what is found are reported, never the values: facts and verdicts are published.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import ssl
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol, cast
from urllib.parse import unquote, urlsplit

import certifi

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.errors import EngineError
from stackwright.host import Site

PUBLIC = re.compile(
    r"localhost|(?:[^.]+\.)*(?:(?:debian|pypi|pythonhosted)\.org|(?:ubuntu|nvidia)\.com|(?:docker|ghcr|nvcr|quay)\.io)"
)
"""Hosts that are no site's own: images name them for good reasons."""

PACKAGED = Path("/usr/share/ca-certificates")
"""Where Debian's package of authorities has its certificates; what is not there is the site's."""

CHUNK = 2**20
SHORTEST = 6
"""Bytes below which a value is found everywhere by chance."""

SHORTEST_TOKEN = 16
"""Characters; a shorter name is of a person, or "anonymous"."""

CERTIFICATE = "certificate "
"""Begin of the name of each one, before a finding is told: then all are the site's "ca"."""

RECORD = re.compile(r"(.*)/[^/]+\.dist-info/RECORD")
"""Where a wheel lists its files with their hashes; the group is the folder that their names begin in."""

MOST = 100
"""Findings that are reported."""


class Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


Needles = Mapping[str, tuple[bytes, ...]]
Place = tuple[str, str]
"""Layer and path."""

File = tuple[Place, bytes]
IsWanted = Callable[[Place], bool]


@dataclass(frozen=True, slots=True)
class Left:
    """``what`` is the name of the site's value; ``layer`` is the engine's or the archive's name of it."""

    what: str
    path: str
    layer: str


def needles(site: Site) -> Needles:
    """What to look for, by a name that tells nothing: values, passwords in them, and hashes."""
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
    return {name: values for name, values in found.items() if values}


def facts(docker: Docker, image: str, site: Site) -> dict[str, Any]:
    """The document that the check of the layers reads. EngineError where there is no such image."""
    wanted = needles(site)
    found = engine.inspect(docker, image)
    if found is None:
        raise EngineError("there is no such image", place=image, hint="build.py build")
    told = json.dumps([found, *(asdict(line) for line in engine.layers(docker, image))]).encode()
    left = [Left(what, "what it says of itself", "the image") for what in _in(io.BytesIO(told), wanted)]
    folders = _folders(docker, found)
    if folders:
        for folder in folders:
            left += _in_folder(folder, tuple(sorted(wanted.items())))
        files = partial(_of_folders, folders)
    else:
        with engine.connected(docker) as client:
            left += in_archive(_Pieces(client.images.get(image).save(chunk_size=CHUNK)), wanted)
        files = partial(_of_image, docker, image)
    entries = [asdict(one) for one in _not_packaged(left, files)[:MOST]]
    return {
        "searched": sorted({_shown(name) for name in wanted}),
        "layers": len(found["RootFS"]["Layers"]),
        "left": entries,
    }


def _not_packaged(left: Sequence[Left], files: Callable[[IsWanted], Iterator[File]]) -> list[Left]:
    """Without authorities that the image's own package of them has: a site's bundle may be older or newer.

    And without those in a file that is as its wheel has it: wheels are installed by the hashes of the lock.
    """
    packaged = {
        one.what for one in left
        if one.what.startswith(CERTIFICATE) and one.path.startswith(f"{PACKAGED.relative_to('/')}/")
    }  # fmt: skip
    others = [one for one in left if one.what not in packaged]
    doubtful = {
        (one.layer, one.path)
        for one in others
        if one.what.startswith(CERTIFICATE) and "-packages/" in one.path
    }
    wheels = _as_recorded(doubtful, files) if doubtful else set()
    return [
        replace(one, what=_shown(one.what))
        for one in others
        if not one.what.startswith(CERTIFICATE) or (one.layer, one.path) not in wheels
    ]


def _as_recorded(places: Set[Place], files: Callable[[IsWanted], Iterator[File]]) -> set[Place]:
    """Those whose content has the hash that the RECORD of a wheel in the same layer has for them."""
    actual: dict[Place, str] = {}
    recorded: dict[Place, str] = {}
    for (layer, path), content in files(lambda place: place in places or bool(RECORD.fullmatch(place[1]))):
        if wheel := RECORD.fullmatch(path):
            lines = csv.reader(content.decode(errors="replace").splitlines())
            recorded |= {(layer, f"{wheel[1]}/{line[0]}"): line[1] for line in lines if len(line) > 1}
        else:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            actual[layer, path] = f"sha256={digest}"
    return {place for place, digest in actual.items() if recorded.get(place) == digest}


def _of_folders(folders: Iterable[Path], wanted: IsWanted) -> Iterator[File]:
    for folder in folders:
        for place, _, names in os.walk(folder, onerror=_unreadable):
            for path in (Path(place) / name for name in names):
                known = (folder.parent.name, str(path.relative_to(folder)))
                if wanted(known) and stat.S_ISREG(path.lstat().st_mode):
                    yield known, path.read_bytes()


def _of_image(docker: Docker, image: str, wanted: IsWanted) -> Iterator[File]:
    with engine.connected(docker) as client:
        for place, content in _in_layers(_Pieces(client.images.get(image).save(chunk_size=CHUNK))):
            if wanted(place):
                yield place, b"".join(iter(partial(content.read, CHUNK), b""))


def _shown(what: str) -> str:
    return "ca" if what.startswith(CERTIFICATE) else what


def _folders(docker: Docker, found: Mapping[str, Any]) -> tuple[Path, ...]:
    """Where the layers lie; empty where they are no folders that this process may read."""
    data: Mapping[str, str] = found.get("GraphDriver", {}).get("Data") or {}
    named = [part for key in ("LowerDir", "UpperDir") for part in data.get(key, "").split(":") if part]
    folders = tuple(Path(part) for part in named)
    readable = docker.host.startswith("unix://") and all(os.access(one, os.R_OK | os.X_OK) for one in folders)
    return folders if readable and os.geteuid() == 0 else ()


@lru_cache(maxsize=1024)  # a layer never changes, and images share most of theirs
def _in_folder(folder: Path, wanted: tuple[tuple[str, tuple[bytes, ...]], ...]) -> tuple[Left, ...]:
    left: list[Left] = []
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        for name in (*folders, *names):
            path = Path(place) / name
            mode = path.lstat().st_mode
            shown = str(path.relative_to(folder))
            if stat.S_ISREG(mode):
                with path.open("rb") as file:
                    left += (Left(what, shown, folder.parent.name) for what in _in(file, dict(wanted)))
            elif stat.S_ISLNK(mode):
                target = io.BytesIO(os.fsencode(path.readlink()))
                left += (Left(what, shown, folder.parent.name) for what in _in(target, dict(wanted)))
    return tuple(left)


def _unreadable(error: OSError) -> None:
    """What was not read must not count as clean."""
    raise EngineError(f"a layer cannot be read: {error.strerror}", place=str(error.filename)) from error


def in_archive(archive: Reader, wanted: Needles) -> tuple[Left, ...]:
    """What is found in the layers of an archive of `docker save`."""
    return tuple(
        Left(what, path, layer)
        for (layer, path), content in _in_layers(archive)
        for what in _in(content, wanted)
    )


def _in_layers(archive: Reader) -> Iterator[tuple[Place, Reader]]:
    """Content of each file, and target of each link. Each is to be read before the next."""
    with tarfile.open(fileobj=cast("IO[bytes]", archive), mode="r|") as outer:
        for member in outer:
            file = outer.extractfile(member)
            head = file.read(512) if file else b""
            if file and _is_layer(head):
                layer = _Pieces(chain((head,), iter(partial(file.read, CHUNK), b"")))
                with tarfile.open(fileobj=cast("IO[bytes]", layer), mode="r|*") as files:
                    for one in files:
                        content = files.extractfile(one) if one.isreg() else io.BytesIO(one.linkname.encode())
                        if content is not None:
                            yield (member.name, one.name), content


def _in(source: Reader, wanted: Needles) -> Iterator[str]:
    """Names of the values that are in there; the end of each piece is read again with the next."""
    overlap = max((len(value) for values in wanted.values() for value in values), default=1) - 1
    left, tail = dict(wanted), b""
    while left and (piece := source.read(CHUNK)):
        text = tail + piece
        hit = [name for name, values in left.items() if any(value in text for value in values)]
        for name in hit:
            del left[name]
        yield from hit
        tail = text[-overlap:] if overlap else b""


def _is_layer(head: bytes) -> bool:
    return head[257:262] == b"ustar" or head.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd"))


class _Pieces:
    """Pieces of any size as a file that is read once."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._rest = iter(pieces), b""

    def read(self, size: int, /) -> bytes:
        parts, length = [self._rest], len(self._rest)
        while length < size and (piece := next(self._pieces, b"")):
            parts.append(piece)
            length += len(piece)
        text = b"".join(parts)
        self._rest = text[size:]
        return text[:size]


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
    """The middle of each certificate that is not one of the public ones, as PEM and as DER have it."""
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
