"""Reads each file once: digests, what is looked for in it, and the few texts that the ledger needs."""

from __future__ import annotations

import _imp
import hashlib
import io
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from stackwright.core.credentials import OVERLAP
from stackwright.core.credentials import Search as Shapes
from stackwright.core.ledger.entry import ELF, KEPT, TEXT_LIMIT

CHUNK = 2**20
BEGIN = 20
"""Bytes at the head of a file: byte code says in 16 what it was made of (PEP 552), ELF in 20 for which
processor it is."""

WHEELS = "/opt/stack/"
"""Where files are of wheels, whose lists have SHA-256; all others may be of dpkg, whose lists have MD5."""

SOURCE = re.compile(r"/(?:opt/stack|usr)/lib/python(3\.\d+)/.*\.py")
MAGIC = {"3.11": 3495, "3.12": 3531, "3.13": 3571, "3.14": 3627}
"""Number of the byte code of each Python that hashes sources as we do, which is the hash's key
(Lib/importlib/_bootstrap_external.py). Those before 3.11 use another SipHash."""

OFF_THREAD = 2**17
"""Bytes of a piece from which on another thread is worth its cost."""


Bytes = bytes | bytearray


class Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Search(Protocol):
    """Looks for something in one file, given window by window.

    Each window repeats the last ``OVERLAP`` bytes of the one before it.
    """

    def look(self, window: Bytes, /) -> None: ...
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
    """Hash pieces in order, large ones on another thread: hashing releases the interpreter.

    A piece may change only after ``wait``.
    """

    def __init__(self, with_md5: bool, hasher: ThreadPoolExecutor | None) -> None:
        self.hashes = [hashlib.sha256()]
        if with_md5:
            self.hashes.append(hashlib.md5(usedforsecurity=False))
        self._hasher = hasher
        self._last: Future[None] | None = None

    def feed(self, piece: memoryview) -> None:
        if self._hasher is None or len(piece) < OFF_THREAD:
            self._update(piece)
        else:
            self._last = self._hasher.submit(self._update, piece)

    def wait(self) -> None:
        if self._last is not None:
            self._last.result()
            self._last = None

    def _update(self, piece: memoryview) -> None:
        for digest in self.hashes:
            digest.update(piece)


_of_thread = threading.local()


def windows(source: Reader) -> Iterator[tuple[Bytes, int]]:
    """Yield all of a file in windows, each with how many of its bytes the window before had.

    One buffer of the thread holds all of them in turn, so that at most one file is read in it at a time: to
    allocate and to copy 1 MiB again and again took a third of the time of reading an image.
    """
    buffer = vars(_of_thread).setdefault("buffer", bytearray())
    buffer.extend(bytes(OVERLAP + CHUNK - len(buffer)))
    kept = 0
    while count := _fill(source, memoryview(buffer)[kept:]):
        end = kept + count
        yield buffer if end == len(buffer) else buffer[:end], kept
        kept = min(end, OVERLAP)
        buffer[:kept] = buffer[end - kept : end]


def _fill(source: Reader, space: memoryview) -> int:
    if isinstance(source, io.RawIOBase | io.BufferedIOBase):
        return source.readinto(space) or 0
    piece = source.read(len(space))
    space[: len(piece)] = piece
    return len(piece)


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
    for window, known in windows(source):
        new = memoryview(window)[known:]
        digest.feed(new)
        if sought and shapes:
            sought.look(window)
            shapes.look(window, known)
        begin = begin or bytes(new[:BEGIN])
        size += len(new)
        if whole and size <= TEXT_LIMIT:
            kept.append(bytes(new))
        digest.wait()
    return Content(
        size=size,
        sha256=digest.hashes[0].hexdigest(),
        md5=digest.hashes[1].hexdigest() if len(digest.hashes) > 1 else "",
        begin=begin if path.endswith(".pyc") or begin.startswith(ELF) else b"",
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
