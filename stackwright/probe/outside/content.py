"""Reads each file once: digests, what is looked for in it, and the few texts that the ledger needs."""

from __future__ import annotations

import _imp
import hashlib
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from stackwright.core.credentials import Search as Shapes
from stackwright.core.ledger.entry import KEPT, TEXT_LIMIT

CHUNK = 2**20
BEGIN = 16
"""Bytes at the head of byte code that say what it was made of (PEP 552)."""

WHEELS = "/opt/stack/"
"""Where files are of wheels, whose lists have SHA-256; all others may be of dpkg, whose lists have MD5."""

SOURCE = re.compile(r"/(?:opt/stack|usr)/lib/python(3\.\d+)/.*\.py")
MAGIC = {"3.11": 3495, "3.12": 3531, "3.13": 3571, "3.14": 3627}
"""Number of the byte code of each Python that hashes sources as we do, which is the hash's key
(Lib/importlib/_bootstrap_external.py). Those before 3.11 use another SipHash."""

OFF_THREAD = 2**17
"""Bytes of a piece from which on another thread is worth its cost."""


class Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Search(Protocol):
    """Looks for something in one file, given piece by piece."""

    def feed(self, piece: bytes, /) -> None: ...
    def found(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """``left``: names of the site's values in it; ``shapes``: kinds of credentials."""

    size: int
    sha256: str
    md5: str
    begin: bytes
    source_hash: bytes
    text: str | None
    left: tuple[str, ...]
    shapes: tuple[str, ...]


class _Digest:
    """Hash pieces in order, large ones on another thread: hashing releases the interpreter."""

    def __init__(self, with_md5: bool, hasher: ThreadPoolExecutor | None) -> None:
        self.hashes = [hashlib.sha256()]
        if with_md5:
            self.hashes.append(hashlib.md5(usedforsecurity=False))
        self._hasher = hasher
        self._last: Future[None] | None = None

    def feed(self, piece: bytes) -> None:
        if self._hasher is None or len(piece) < OFF_THREAD:
            self.wait()
            self._update(piece)
        else:
            self.wait()
            self._last = self._hasher.submit(self._update, piece)

    def wait(self) -> None:
        if self._last is not None:
            self._last.result()
            self._last = None

    def _update(self, piece: bytes) -> None:
        for digest in self.hashes:
            digest.update(piece)


def content(
    path: str, source: Reader, search: Callable[[], Search] | None, hasher: ThreadPoolExecutor | None = None
) -> Content:
    """Read all of a file. ``hasher`` hashes pieces while ``search``, if any, looks into them."""
    digest = _Digest(not path.startswith(WHEELS), hasher)
    sought, shapes = (search(), Shapes(path)) if search else (None, None)
    python = SOURCE.fullmatch(path)
    whole = KEPT.fullmatch(path) is not None or (python is not None and python[1] in MAGIC)
    kept: list[bytes] = []
    begin, size = b"", 0
    while piece := source.read(CHUNK):
        digest.feed(piece)
        if sought and shapes:
            sought.feed(piece)
            shapes.feed(piece)
        begin = begin or piece[:BEGIN]
        size += len(piece)
        if whole and size <= TEXT_LIMIT:
            kept.append(piece)
    digest.wait()
    return Content(
        size=size,
        sha256=digest.hashes[0].hexdigest(),
        md5=digest.hashes[1].hexdigest() if len(digest.hashes) > 1 else "",
        begin=begin if path.endswith(".pyc") else b"",
        source_hash=_source_hash(python[1], b"".join(kept)) if python else b"",
        text=b"".join(kept).decode(errors="surrogateescape") if KEPT.fullmatch(path) else None,
        left=sought.found() if sought else (),
        shapes=shapes.found() if shapes else (),
    )


def _source_hash(python: str, source: bytes) -> bytes:
    """What byte code that is checked by hash has of its source; empty where that Python hashes otherwise."""
    if python not in MAGIC:
        return b""
    return _imp.source_hash(MAGIC[python] | 0x0A0D0000, source)
