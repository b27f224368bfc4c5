"""Packages of a distribution's mirror: where one is, and one file of it, without installing it."""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from typing import IO

from stackwright.audit.facts.sources import Sources
from stackwright.core.errors import SiteError
from stackwright.core.facts.distributions import Distribution
from stackwright.core.model.target import AMD64, APT
from stackwright.host.upstream import mirror as suite
from stackwright.host.upstream import web

AR_MAGIC = b"!<arch>\n"
AR_HEADER = 60
FIELD = r"^{}: (\S+)$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    version: str
    url: str
    sha256: str


def mirror(sources: Sources, known: Distribution) -> str:
    address = sources.mirror(known.id)
    if not address:
        raise SiteError(f"no mirror of {known.family} is known here")
    return address.rstrip("/")


def package(sources: Sources, known: Distribution, name: str, *, more: tuple[str, ...] = ()) -> Package:
    """Return the newest one of a name, from the hashed indexes of the release's suites.

    ``more``: components besides those that rows install from.
    """
    address = mirror(sources, known)
    found = None
    for suite_name in known.suites:
        for component in (*suite.COMPONENTS[known.family], *more):
            stanza = stanzas(address, suite_name, component).get(name)
            found = stanza or found
    if found is None:
        raise SiteError(f"{known.id} has no package {name}")
    version, path, sha256 = (_field(found, field) for field in ("Version", "Filename", "SHA256"))
    if ".." in path.split("/") or path.startswith("/"):
        raise SiteError(f"{name} of {known.id} is not below the mirror")
    return Package(version=version, url=f"{address}/{path}", sha256=sha256)


def versions(sources: Sources, known: Distribution) -> dict[str, str]:
    """Return every package of a release with its version."""
    address = mirror(sources, known)
    return {
        name: _field(stanza, "Version")
        for suite_name in known.suites
        for component in suite.COMPONENTS[known.family]
        for name, stanza in stanzas(address, suite_name, component).items()
    }


@lru_cache(maxsize=32)
def stanzas(address: str, suite_name: str, component: str) -> dict[str, str]:
    release = suite.read_release(address, suite_name)
    path = APT.index(component, AMD64)
    packed = suite.fetch(f"{address}/dists/{suite_name}/{path}")
    if hashlib.sha256(packed).hexdigest() != dict(release.indexes).get(path):
        raise SiteError(f"{path} of {suite_name} is not the file that Release names", hint="try again later")
    text = lzma.decompress(packed).decode("utf-8", "replace")
    return {_field(stanza, "Package"): stanza for stanza in text.split("\n\n") if stanza.strip()}


def _field(stanza: str, name: str) -> str:
    match = re.search(FIELD.format(name), stanza, re.MULTILINE)
    if match is None:
        raise SiteError(f"an index of the mirror has a package without {name}")
    return match[1]


class _Part(io.RawIOBase):
    """The next bytes of a stream, as a stream that ends."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        super().__init__()
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        content = self._stream.read(min(len(view), self._left))
        view[: len(content)] = content
        self._left -= len(content)
        return len(content)


def member(stream: IO[bytes], name: re.Pattern[str]) -> bytes:
    """Return a file of a .deb that is read from its beginning, no further than needed."""
    try:
        with tarfile.open(fileobj=_data(stream), mode="r|xz") as data:
            for info in data:
                file = data.extractfile(info) if name.fullmatch(info.name) and info.isreg() else None
                if file:
                    content = file.read(web.MEMBER_LIMIT + 1)
                    break
            else:
                raise SiteError(f"no {name.pattern} in the package")
    except (tarfile.TarError, lzma.LZMAError, OSError, EOFError, HTTPException) as error:
        raise SiteError(f"a package cannot be read: {error}") from error
    if len(content) > web.MEMBER_LIMIT:
        raise SiteError(f"a file of a package has more than {web.MEMBER_LIMIT} bytes")
    return content


def _data(stream: IO[bytes]) -> IO[bytes]:
    """Return the tar archive of a .deb, which is an ar archive of three members (deb(5))."""
    if stream.read(len(AR_MAGIC)) != AR_MAGIC:
        raise SiteError("a package is no ar archive")
    while header := stream.read(AR_HEADER):
        name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), header[48:58].strip()
        if not size.isdigit():
            raise SiteError("a package has a damaged header")
        if name == "data.tar.xz":
            return io.BufferedReader(_Part(stream, int(size)), web.BLOCK)
        stream.read(int(size) + int(size) % 2)
    raise SiteError("a package has no data.tar.xz")
