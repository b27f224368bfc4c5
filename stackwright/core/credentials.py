"""Searches for credentials by their shape, which needs no list of what is secret.

For all that an image shows: its files, also those that a later layer removes, its settings, its history, its
labels. Pure. What is reported are kinds and places, never values.

One text, as a value of ENV or a line of the history:

    kinds(text)               # ("password",)
    redact(text)              # the text with "[redacted: password]" instead of the value

Files, in windows, each file with a search of its own:

    search = Search(path)     # its path from the root: it separates source code from settings
    for window in windows:    # in order, of 512 bytes at least but for the last
        search.look(window, known)  # as many of its bytes were the end of the last window, OVERLAP at most
    search.found()            # ("private key",): the kinds of what is in it, once each

``found`` leaves out what ``EXCEPTIONS`` has a reason for. Text, tar archives and compressed files are
searched for every shape, at 20 to 50 MB/s; programs for keys alone, at 2 GB/s. A file that is a package's or
a wheel's by its hash is public, and need not be searched.
"""

from __future__ import annotations

import bz2
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from stackwright.core.shapes import FIRST_BYTES, KEYS, LOGINS, SETS, TOKENS, Shape, compiled

OVERLAP = 4096
"""Bytes at the end of a window that are searched again at the begin of the next."""

REDACTED = "[redacted: "
"""What a mark begins with."""

SETTINGS_LIMIT = 2**18
"""Bytes: files of settings are smaller."""

UNPACKED_LIMIT = 2**26
"""Bytes of a compressed file that are unpacked: a small one can hold a disk."""

SOURCE = (
    r"(?is).*\.(py|pyi|pyx|pxd|pyc|c|cc|cpp|cu|cuh|cxx|h|hh|hpp|inc|js|mjs|ts|css|html?|md|rst|tex|pot?|p[lmh]|el|lua|go"
    r"|rs|java|svg|xml|xsd|dtd|ipynb|cmake|m4)|/usr/(local/)?(bin|sbin|lib|libexec|include|share|src)/.*"
    r"|.*/[^/]+-packages/.*|/var/lib/dpkg/.*"
)
"""Files in which ``password = …`` is code, or tells how something is used."""

PROGRAMS = KEYS[:2]
"""What is looked for in files that are no text."""

FILES = (*KEYS, *TOKENS, *LOGINS)
"""What is looked for in files that are text, source code among them."""

TEXTS = (*FILES, *SETS)
"""What is looked for in settings: a value of ENV, a line of the history, a label, a small file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Where a value is, in bytes of what was searched."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Files of our images that have the shape of a credential and are none. ``path``: from the root."""

    path: str
    kinds: frozenset[str]
    why: str


PACKAGES = r"/opt/stack/lib/python3[0-9.]*/site-packages"

EXCEPTIONS: tuple[Known, ...] = (
    Known(path=r"/etc/nsswitch\.conf", kinds=frozenset({"password"}),
          why="passwd is the name of a database there, and what follows is where to look it up"),
    Known(path=r"/etc/ssl/openssl\.cnf", kinds=frozenset({"password"}),
          why="an example of a certificate authority (insta) that is the same in every OpenSSL"),
    Known(path=r"/usr/share/man/(\w+/)?man[57]/.*\.gz",
          kinds=frozenset({"private key", "login in an address", "netrc"}),
          why="pages of the manual show how such files are written"),
    Known(path=rf"{PACKAGES}/fsspec/implementations/github\.py",
          kinds=frozenset({"login in an address"}),
          why="github://organisation:repository@commit is fsspec's notation, and has no password"),
    Known(path=rf"{PACKAGES}/tornado/test/test\.key", kinds=frozenset({"private key"}),
          why="the key of tornado's own tests, which everyone has who has tornado"),
)  # fmt: skip


def hits(data: bytes | bytearray, shapes: Iterable[Shape] = TEXTS) -> Iterator[Hit]:
    for shape in shapes:
        if not any(hint in data for hint in shape.hints):
            continue
        for match in shape.pattern.finditer(data):
            if shape.word and match.start() and data[match.start() - 1 : match.start()].isalnum():
                continue
            group = match.lastgroup or 0  # a shape has one value, by whichever of its groups
            if shape.is_real(match[group]):
                yield Hit(kind=shape.kind, start=match.start(group), end=match.end(group))


def kinds(text: str) -> tuple[str, ...]:
    """Names of what is in a text, once each; nothing of what it says."""
    return tuple(dict.fromkeys(hit.kind for hit in hits(text.encode(errors="surrogateescape"))))


def holds(text: str) -> bool:
    """Whether there is a credential in a text, or was before it was redacted."""
    return REDACTED in text or bool(kinds(text))


def redact(text: str) -> str:
    """Return the text, with a mark instead of each credential."""
    data = text.encode(errors="surrogateescape")
    found = sorted(hits(data), key=lambda hit: (hit.start, -hit.end))
    if not found:
        return text
    parts, at = [], 0
    for hit in found:
        if hit.start >= at:
            parts += [data[at : hit.start], f"{REDACTED}{hit.kind}]".encode()]
        at = max(at, hit.end)
    return b"".join([*parts, data[at:]]).decode(errors="surrogateescape")


def texts(document: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Each text of a document in JSON types, with its place; a name precedes its value, as in ENV."""
    if isinstance(document, str):
        yield place, document
    elif isinstance(document, Mapping):
        for name, value in document.items():
            below = f"{place}/{name}" if place else str(name)
            if isinstance(value, str) and "\n" not in value:
                yield below, f"{name}={value}"
            else:
                yield from texts(value, below)
    elif isinstance(document, list | tuple):
        for number, value in enumerate(document, start=1):
            name = re.match(ASSIGNED, value) if isinstance(value, str) else None
            yield from texts(value, f"{place}/{name[0] if name else number}")


ASSIGNED = r"[A-Za-z_]\w*(?==)"


def found_in(document: Any) -> dict[str, Any]:
    """What the check of an image's settings reads: kinds and places of credentials, and how many texts."""
    every = list(texts(document))
    found = [{"kind": kind, "place": place} for place, text in every for kind in kinds(text)]
    return {"texts": len(every), "found": found}


def redacted_json(content: bytes) -> bytes:
    """A file of JSON with its texts redacted; the same bytes where there is nothing to redact."""
    if not kinds(content.decode(errors="surrogateescape")):
        return content
    document = json.loads(content)
    clean = redacted(document)
    return content if clean == document else json.dumps(clean, indent=2).encode() + b"\n"


def redacted(document: Any) -> Any:
    """A document in JSON types with all its texts redacted; also what the value of a telling name is."""
    joined = "\n".join(text for _, text in texts(document))
    return _redacted(document) if kinds(joined) else document


def _redacted(document: Any) -> Any:
    if isinstance(document, str):
        return redact(document)
    if isinstance(document, Mapping):
        return {redact(str(name)): _of_name(str(name), _redacted(value)) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [_redacted(value) for value in document]
    return document


def _of_name(name: str, value: Any) -> Any:
    """An environment is a document of names and values: the name is what tells the value."""
    if not isinstance(value, str) or "\n" in value:
        return value
    head = f"{name}="
    told = redact(head + value)
    return told[len(head) :] if told.startswith(head) else value


# -- files ------------------------------------------------------------------------------------------


class Unpacks(Protocol):
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


PACKED: tuple[tuple[bytes, Callable[[], Unpacks]], ...] = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(31)),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\0", lzma.LZMADecompressor),
)
"""The first bytes of a compressed file, and what unpacks it."""


class Search:
    """What one file holds. See the top of the module."""

    def __init__(self, path: str) -> None:
        self._path = "/" + path.lstrip("/")
        self._kinds: dict[str, None] = {}
        self._shapes: tuple[Shape, ...] = ()
        self._tail, self._read = b"", 0
        self._unpack: Unpacks | None = None

    def look(self, window: bytes | bytearray, known: int = 0) -> None:
        """The next window of the file. The first ``known`` of its bytes were the end of the one before."""
        if not window:
            return
        if not self._read:
            self._begin(window)
        self._read += len(window) - known
        if self._read > SETTINGS_LIMIT and self._shapes is TEXTS:
            self._shapes = FILES
        if self._unpack is None:
            self._search(window)
        elif self._read < UNPACKED_LIMIT:
            unpacked = self._tail + self._unpacked(bytes(window[known:]))
            self._search(unpacked)
            self._tail = unpacked[-OVERLAP:]

    def found(self) -> tuple[str, ...]:
        """Kinds, but for those that this file is known for."""
        known = (exception.kinds for exception in EXCEPTIONS if re.fullmatch(exception.path, self._path))
        return tuple(sorted(set(self._kinds).difference(*known)))

    def _begin(self, piece: bytes | bytearray) -> None:
        self._kinds |= {kind: None for kind, pattern in FIRST_BYTES if compiled(pattern).match(piece)}
        unpack = next((make for magic, make in PACKED if piece.startswith(magic)), None)
        if unpack:
            self._unpack = unpack()
        self._shapes = self._shapes_of(piece)

    def _shapes_of(self, piece: bytes | bytearray) -> tuple[Shape, ...]:
        if b"\0" in piece[:8192] and piece[257:262] != b"ustar" and self._unpack is None:
            return PROGRAMS
        if re.fullmatch(SOURCE, self._path) or self._unpack:
            return FILES
        return TEXTS

    def _search(self, data: bytes | bytearray) -> None:
        self._kinds |= {hit.kind: None for hit in hits(data, self._shapes)}

    def _unpacked(self, piece: bytes) -> bytes:
        """What a piece of a compressed file holds; nothing where it is damaged."""
        assert self._unpack is not None
        try:
            return self._unpack.decompress(piece, UNPACKED_LIMIT)
        except (zlib.error, OSError, EOFError, lzma.LZMAError):
            self._unpack = None
            self._shapes = PROGRAMS
            return b""
