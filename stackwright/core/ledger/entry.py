"""One name in a file system, as it was read from outside: of a layer, of a whole image, or of a SIF."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    DEVICE = "device"
    PIPE = "pipe"
    SOCKET = "socket"
    WHITEOUT = "whiteout"
    """In a layer only: the name is no longer there."""
    OPAQUE = "opaque folder"
    """In a layer only: of this folder nothing is seen that lower layers have in it."""


KIND_OF_MODE: Final = {
    stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK, stat.S_IFCHR: Kind.DEVICE,
    stat.S_IFBLK: Kind.DEVICE, stat.S_IFIFO: Kind.PIPE, stat.S_IFSOCK: Kind.SOCKET,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """``path`` begins with a slash; ``mode`` has no bits of the kind; ``mtime`` is in whole seconds.

    ``sha256`` and ``md5`` are hexadecimal, and empty but for files; dpkg knows files by MD5. ``begin`` is
    the first bytes of byte code and of ELF files. ``capability`` is the extended attribute
    security.capability. ``again``: a second name of a file.
    """

    path: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int = 0
    mtime: int = 0
    target: str = ""
    sha256: str = ""
    md5: str = ""
    begin: bytes = b""
    source_hash: bytes = b""
    capability: bool = False
    again: bool = False
    layer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """All names of a file system, and the text of those files that say what belongs to it."""

    entries: Mapping[str, Entry]
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one layer adds and takes away."""

    name: str
    entries: tuple[Entry, ...]
    texts: Mapping[str, str]


TAKES_AWAY = frozenset({Kind.WHITEOUT, Kind.OPAQUE})

ELF = b"\x7fELF"
"""How programs and libraries begin (elf.h)."""

KEPT = re.compile(
    r"/var/lib/dpkg/(status|diversions|info/[^/]+\.(list|md5sums)|alternatives/[^/]+)|/etc/(?!ssl/certs/.*\.pem).+"
    r"|/usr/share/(base-passwd/(passwd|group)\.master|libc-bin/nsswitch\.conf|ca-certificates/.+\.crt)|/usr/local/share/ca-certificates/.+"
    r"|/opt/stack/lib/python3\.\d+/site-packages/[^/]+\.dist-info/RECORD"
    r"|/opt/stack/(pyvenv\.cfg|\.gitignore|bin/[Aa]ctivate[.\w]*)|/usr/lib/python3\.\d+/venv/scripts/[^/]+/[^/]+"
    r"|/(run|dev)/[^/]+|/var/lib/python/[^/]+"
)
"""Files whose text is kept: lists of what belongs, and what scripts and our own steps write."""

TEXT_LIMIT = 32 * 2**20
"""Bytes of a kept text; torch's RECORD has 1.2 million."""


def final(layers: Iterable[Layer]) -> Tree:
    """The layers, lowest first, laid over each other."""
    entries: dict[str, Entry] = {}
    texts: dict[str, str] = {}
    for layer in layers:
        _remove(
            entries, texts, {entry.path: entry.kind for entry in layer.entries if entry.kind in TAKES_AWAY}
        )
        for entry in layer.entries:
            if entry.kind in TAKES_AWAY:
                continue
            below = entries.get(entry.path)
            if below is not None and below.kind is Kind.FOLDER and entry.kind is not Kind.FOLDER:
                _remove(entries, texts, {entry.path: Kind.WHITEOUT})
            texts.pop(entry.path, None)
            entries[entry.path] = entry
        texts |= layer.texts
    return Tree(entries=entries, texts=texts)


def _remove(entries: dict[str, Entry], texts: dict[str, str], gone: Mapping[str, Kind]) -> None:
    """The paths and all that is below them; of an opaque folder only what is below."""
    if not gone:
        return
    for path in [path for path in entries if gone.get(path) is Kind.WHITEOUT or _is_below(path, gone)]:
        del entries[path]
        texts.pop(path, None)


def _is_below(path: str, folders: Mapping[str, Kind]) -> bool:
    while (path := posixpath.dirname(path)) != "/":
        if path in folders:
            return True
    return "/" in folders
