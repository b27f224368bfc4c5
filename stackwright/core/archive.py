"""Sources that no package index has: the archive of a repository's tag, known by the hash of its files."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from stackwright.core.facts.provenance import Provenance
from stackwright.core.rules.rule import Answer, Clash, Ruling

MEMBERS, BYTES = 20_000, 64 << 20
"""At most, of an archive: files, and bytes of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of ``NAME``, whose repository is ``REPOSITORY``. ``commit`` is what its tag leads to,
    ``sha256`` that of ``tree``."""

    NAME: ClassVar[str]
    REPOSITORY: ClassVar[str]

    version: str
    commit: str
    sha256: str
    fact: Provenance

    @property
    def archive(self) -> str:
        """Return the name of the archive in a folder of a site."""
        return f"{self.NAME}-{self.version}.tar.gz"

    @property
    def address(self) -> str:
        return f"{self.REPOSITORY}/archive/{self.commit}.tar.gz"

    @property
    def named(self) -> bytes:
        """Return the line of the file next to the archive."""
        return f"{self.archive} {self.address} {self.sha256}\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What an archive of the repository holds. ``texts`` are files by their paths, ``commit`` is noted in its
    head."""

    sha256: str
    commit: str
    texts: dict[str, str]


def source(archive: bytes, wanted: Iterable[str] = ()) -> Source:
    """Read an archive. ValueError where it is none, or too large.

    The hash is that of a list as sha256sum and find write it, sorted by bytes: of each file its own hash and
    path, of each link its path and where it leads. The scripts that compile a source compute the same.
    """
    lines: list[bytes] = []
    texts, total = dict[str, str](), 0
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            for number, member in enumerate(tar):
                total += member.size
                if number >= MEMBERS or total > BYTES:
                    raise ValueError(f"it has more than {MEMBERS} files or {BYTES} bytes")
                path = member.name.partition("/")[2]
                if member.issym():
                    lines.append(f"./{path} -> {member.linkname}\n".encode())
                elif member.isfile() and (file := tar.extractfile(member)):
                    content = file.read()
                    lines.append(f"./{path} {hashlib.sha256(content).hexdigest()}\n".encode())
                    if path in wanted:
                        texts[path] = content.decode("utf-8", "replace")
            commit = tar.pax_headers.get("comment", "")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(str(error) or "it is no archive") from error
    tree = hashlib.sha256(b"".join(sorted(lines))).hexdigest()
    return Source(sha256=tree, commit=commit if re.fullmatch("[0-9a-f]{40}", commit) else "", texts=texts)


def asked(words: Iterable[str], called: str, newest: Release) -> str:
    """Return the release that a row asks for by "called" or "called=VERSION": the newest if it names none, ""
    where it does not ask."""
    for word in words:
        name, _, version = word.partition("=")
        if name == called:
            return version or newest.version
    return ""


def known(release: str, table: Mapping[str, Release], field: str) -> Answer:
    """Return whether a row's release is one of the table: the source of another could not be compared."""
    if not release or release in table:
        return Ruling.FITS if release else Ruling.SILENT
    name = next(iter(table.values())).NAME
    reason = f"the hash of its source is in no table; there are {', '.join(table)}"
    return Clash(values=((field, f"{name} {release}"),), reason=reason)
