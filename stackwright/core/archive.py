"""Sources that no package index has: the archive of a repository's tag, known by the hash of its files."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from stackwright.core.facts.provenance import Provenance

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
