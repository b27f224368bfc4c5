"""NCCL's plugin for libfabric (aws-ofi-nccl): the releases that a row can have, and what a row asks for.

No package index has it. Its source is an archive of its repository, which is known by the hash of its files.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from stackwright.core.facts import entries
from stackwright.core.facts.provenance import Provenance

NAME = "aws-ofi-nccl"
REPOSITORY = "https://github.com/aws/aws-ofi-nccl"
SCRIPT = "scripts/build-ofi-plugin.sh"
OFI = "ofi"
LIBRARY = "/usr/local/lib/libnccl-net-ofi.so"
"""NCCL finds it by the loader where NCCL_NET_PLUGIN is "ofi", and nowhere else: where it is not asked for,
NCCL's own transport for InfiniBand stays the one that is taken."""
PACKAGE = "libfabric1"
"""The distribution's package with libfabric.so.1."""
MEMBERS, BYTES = 20_000, 64 << 20
"""At most, of an archive: files, and bytes of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """``commit`` is what its tag leads to, ``sha256`` that of ``tree``. ``nets`` are the interfaces of NCCL
    that it has, as in ncclNetPlugin_v8. ``libfabric`` and ``nccl`` are the oldest that it works with."""

    version: str
    commit: str
    sha256: str
    nets: tuple[int, ...]
    libfabric: str
    nccl: str
    fact: Provenance

    @property
    def archive(self) -> str:
        """Return the name of the archive in a folder of a site."""
        return f"{NAME}-{self.version}.tar.gz"

    @property
    def address(self) -> str:
        return f"{REPOSITORY}/archive/{self.commit}.tar.gz"


def _release(entry: entries.Entry) -> Release:
    value: dict[str, Any] = {**entry.value, "nets": tuple(entry.value["nets"])}
    return Release(version=entry.key, fact=entry.fact, **value)


RELEASES = tuple(sorted(map(_release, entries.load("ofi-plugins")), key=lambda one: Version(one.version)))
BY_VERSION = {release.version: release for release in RELEASES}
NEWEST = RELEASES[-1]


def asked(fabric: Iterable[str]) -> str:
    """Return the release of the plugin that a row asks for: the newest if it names none, "" without ofi."""
    for word in fabric:
        name, _, version = word.partition("=")
        if name == OFI:
            return version or NEWEST.version
    return ""


def names(fabric: Iterable[str]) -> tuple[str, ...]:
    """Return the fabrics without the releases: ("verbs", "ofi")."""
    return tuple(word.partition("=")[0] for word in fabric)


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
    path, of each link its path and where it leads. scripts/build-ofi-plugin.sh computes the same.
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
