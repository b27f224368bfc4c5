"""Reads the layers of an image in the engine, lowest first: as root in its folders, else from an archive.

Each file is read once, whatever is asked of it.
"""

from __future__ import annotations

import json
import os
import posixpath
import stat
import tarfile
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from stackwright.core.errors import EngineError
from stackwright.core.ledger.entry import KIND_OF_MODE, Entry, Kind, Layer, Tree, final
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.probe.outside.content import CHUNK, Content, Reader, Search, content

Searching = Callable[[], Search]

AT_ONCE = 3
"""Files that are read at the same time: hashing and reading leave the interpreter to the search."""

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
"""How a layer in an archive takes names away (github.com/opencontainers/image-spec, layer.md)."""

OPAQUE_FOLDER, CAPABILITY = "trusted.overlay.opaque", "security.capability"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What a search found in one file or in the target of a link."""

    path: str
    layer: str
    left: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    sha256: str = ""
    md5: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    layer: Layer
    seen: tuple[FileFacts, ...]


@dataclass(slots=True, kw_only=True)
class Collected:
    """A layer while it is read."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    seen: list[FileFacts] = field(default_factory=list)

    def add(self, entry: Entry, found: Content | None = None) -> None:
        if found is None:
            entry = replace(entry, layer=self.name)
        else:
            entry = replace(
                entry, layer=self.name, size=found.size, sha256=found.sha256, md5=found.md5,
                begin=found.begin, source_hash=found.source_hash,
            )  # fmt: skip
            if found.text is not None:
                self.texts[entry.path] = found.text
            if found.left or found.shapes:
                self.seen.append(FileFacts(
                    path=entry.path, layer=self.name, left=found.left, shapes=found.shapes,
                    sha256=found.sha256, md5=found.md5,
                ))  # fmt: skip
        self.entries.append(entry)

    def link(self, entry: Entry, search: Searching) -> None:
        sought = search()
        sought.look(os.fsencode(entry.target))
        if left := sought.found():
            self.seen.append(FileFacts(path=entry.path, layer=self.name, left=left))
        self.add(entry)

    @property
    def done(self) -> Read:
        layer = Layer(name=self.name, entries=tuple(self.entries), texts=self.texts)
        return Read(layer=layer, seen=tuple(self.seen))


def read(
    docker: Docker, image: str, found: Mapping[str, Any], search: Searching, *, upper: int = 0
) -> tuple[Read, ...]:
    """``found`` is the engine's description of the image. ``search`` is hashable.

    ``upper``: so many of the uppermost layers alone; 0: all. EngineError where one cannot be read as a whole.
    """
    folders = _folders(docker, found)
    if folders:
        return tuple(in_folder(folder, search) for folder in folders[-upper:])
    with engine.connected(docker) as client:
        return in_archive(Pieces(client.images.get(image).save(chunk_size=CHUNK)), search)[-upper:]


def names(docker: Docker, found: Mapping[str, Any], kept: Container[str]) -> Tree | None:
    """Return the names of an image, and the texts of files that are ``kept``; no other content is read.

    None where its layers are no folders that this process may read.
    """
    folders = _folders(docker, found)
    return final(_named_in(folder, kept) for folder in folders) if folders else None


def _named_in(folder: Path, kept: Container[str]) -> Layer:
    entries: list[Entry] = []
    texts: dict[str, str] = {}
    for place, below, files in os.walk(folder, onerror=_raise):
        for name in (*below, *files):
            path = os.path.join(place, name)  # noqa: PTH118 (of each of 50,000 files)
            entry = _entry(path, str(folder), os.lstat(path))
            entries.append(entry)
            if entry.kind is Kind.FOLDER and OPAQUE_FOLDER in _attributes(path):
                entries.append(replace(entry, kind=Kind.OPAQUE))
            if entry.kind is Kind.FILE and entry.path in kept:
                texts[entry.path] = Path(path).read_text(errors="surrogateescape")
    return Layer(name=folder.parent.name, entries=tuple(entries), texts=texts)


def clean(found: Mapping[str, Any], search: Searching) -> Mapping[str, Entry]:
    """Return the files of an image in which nothing was found; none where its layers were not read before."""
    folders = _named(found)
    if not all((folder, search) in _KNOWN for folder in folders):
        return {}
    reads = [in_folder(folder, search) for folder in folders]
    suspected = {seen.path for read in reads for seen in read.seen}
    entries = final(read.layer for read in reads).entries
    return {
        path: entry for path, entry in entries.items() if entry.kind is Kind.FILE and path not in suspected
    }


# -- folders of the engine --------------------------------------------------------------------------


def _folders(docker: Docker, found: Mapping[str, Any]) -> tuple[Path, ...]:
    """Where the layers lie, lowest first; empty where they are no folders that this process may read."""
    folders = _named(found)
    readable = docker.host.startswith("unix://") and all(
        os.access(folder, os.R_OK | os.X_OK) for folder in folders
    )
    return folders if readable and os.geteuid() == 0 else ()


_KNOWN: set[tuple[Path, Searching]] = set()
"""Layers that this process has read, and by what search."""


def _named(found: Mapping[str, Any]) -> tuple[Path, ...]:
    data: Mapping[str, str] = found.get("GraphDriver", {}).get("Data") or {}
    named = [part for key in ("UpperDir", "LowerDir") for part in data.get(key, "").split(":") if part]
    return tuple(Path(part) for part in reversed(named))


@lru_cache(maxsize=128)  # a layer never changes, and images share most layers
def in_folder(folder: Path, search: Searching) -> Read:
    collected = Collected(name=folder.parent.name)
    files: list[Entry] = []
    first, again = dict[int, str](), list[tuple[Entry, str]]()
    for place, folders, names in os.walk(folder, onerror=_raise):
        for name in (*folders, *names):
            path = os.path.join(place, name)  # noqa: PTH118 (of each of 50,000 files)
            info = os.lstat(path)
            entry = _entry(path, str(folder), info)
            if entry.kind is Kind.FILE and info.st_nlink > 1 and info.st_ino in first:
                again.append((entry, first[info.st_ino]))
            elif entry.kind is Kind.FILE:
                first[info.st_ino] = entry.path
                files.append(entry)
            elif entry.kind is Kind.LINK:
                collected.link(entry, search)
            else:
                collected.add(entry)
                if OPAQUE_FOLDER in _attributes(f"{folder}{entry.path}"):
                    collected.add(replace(entry, kind=Kind.OPAQUE))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        every = pool.map(partial(_content, folder, search), files, chunksize=1)
        for entry, found in zip(files, every, strict=True):
            collected.add(entry, found)
    known = {entry.path: entry for entry in collected.entries} if again else {}
    collected.entries += [replace(known[path], path=entry.path, again=True) for entry, path in again]
    _KNOWN.add((folder, search))
    return collected.done


def _content(folder: Path, search: Searching, entry: Entry) -> Content:
    path = f"{folder}{entry.path}"
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return content(entry.path, file, search)
    except OSError as error:
        raise _unreadable(error) from error


def _entry(path: str, folder: str, info: os.stat_result) -> Entry:
    kind = KIND_OF_MODE[stat.S_IFMT(info.st_mode)]
    if kind is Kind.DEVICE and info.st_rdev == 0 and stat.S_ISCHR(info.st_mode):
        kind = Kind.WHITEOUT
    attributes = _attributes(path) if kind is Kind.FILE else ()
    return Entry(
        path=path[len(folder) :], kind=kind, mode=stat.S_IMODE(info.st_mode), uid=info.st_uid,
        gid=info.st_gid, size=info.st_size if kind is Kind.FILE else 0, mtime=int(info.st_mtime),
        target=os.readlink(path) if kind is Kind.LINK else "",  # noqa: PTH115
        capability=CAPABILITY in attributes,
    )  # fmt: skip


def _attributes(path: str) -> Sequence[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:  # a file system without them
        return ()


def _raise(error: OSError) -> None:
    raise _unreadable(error) from error


def _unreadable(error: OSError) -> EngineError:
    """What was not read must not count as clean."""
    return EngineError(f"a layer cannot be read: {error.strerror}", place=str(error.filename))


# -- an archive of `docker save` --------------------------------------------------------------------


class Pieces:
    """Pieces of any size as a file that is read once."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._piece, self._at = iter(pieces), b"", 0

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        while size and self._more():
            part = self._piece[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def line(self) -> bytes:
        """To the end of a line, and with it."""
        parts: list[bytes] = []
        while self._more() and not (parts and parts[-1].endswith(b"\n")):
            end = self._piece.find(b"\n", self._at) + 1 or len(self._piece)
            parts.append(self._piece[self._at : end])
            self._at = end
        return b"".join(parts)

    def _more(self) -> bool:
        if self._at == len(self._piece):
            self._piece, self._at = next(self._pieces, b""), 0
        return bool(self._piece)


def in_archive(archive: Reader, search: Searching) -> tuple[Read, ...]:
    """The layers in the order of the archive's manifest. EngineError where one of them is not there."""
    found: dict[str, Read] = {}
    order: list[str] = []
    with tarfile.open(fileobj=cast("IO[bytes]", archive), mode="r|") as outer:
        for member in outer:
            file = outer.extractfile(member) if member.isreg() else None  # Podman has links to its layers
            head = file.read(512) if file else b""
            if file and member.name == "manifest.json":
                order = json.loads(head + file.read())[0]["Layers"]
            elif file and _is_layer(head):
                layer = Pieces(chain((head,), iter(partial(file.read, CHUNK), b"")))
                found[member.name] = _in_layer(member.name, layer, search)
    missing = [name for name in order if name not in found]
    if missing or not order:
        raise EngineError(f"the saved image lacks the layer {(*missing, 'list')[0]}")
    return tuple(found[name] for name in order)


def _is_layer(head: bytes) -> bool:
    return head[257:262] == b"ustar" or head.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd"))


def _in_layer(name: str, layer: Reader, search: Searching) -> Read:
    collected, by_path = Collected(name=name), dict[str, Entry]()
    with (
        ThreadPoolExecutor(1) as beside,
        tarfile.open(fileobj=cast("IO[bytes]", layer), mode="r|*") as files,
    ):
        for member in files:
            entry = _of_member(member, by_path)
            if entry.path == "/":  # of which the engine's folders have nothing
                continue
            if entry.kind is Kind.LINK:
                collected.link(entry, search)
            elif member.isreg():
                file = files.extractfile(member)
                assert file is not None, "it is a regular file"
                collected.add(entry, content(entry.path, file, search, beside))
                entry = collected.entries[-1]
            else:
                collected.add(entry)
            by_path[entry.path] = entry
    return collected.done


def _of_member(member: tarfile.TarInfo, known: Mapping[str, Entry]) -> Entry:
    path = posixpath.normpath(f"/{member.name.strip('/')}")
    folder, _, name = path.rpartition("/")
    if member.islnk() and (same := known.get(posixpath.normpath(f"/{member.linkname.strip('/')}"))):
        return replace(same, path=path, again=True)
    kind = KIND_OF_MODE.get(_type(member), Kind.FILE)
    if name == OPAQUE:
        path, kind = folder or "/", Kind.OPAQUE
    elif name.startswith(WHITEOUT):
        path, kind = f"{folder}/{name.removeprefix(WHITEOUT)}", Kind.WHITEOUT
    return Entry(
        path=path, kind=kind, mode=member.mode & 0o7777, uid=member.uid, gid=member.gid,
        mtime=int(member.mtime), target=member.linkname if kind is Kind.LINK else "",
        capability=f"SCHILY.xattr.{CAPABILITY}" in member.pax_headers,
    )  # fmt: skip


def _type(member: tarfile.TarInfo) -> int:
    kinds = {
        tarfile.DIRTYPE: stat.S_IFDIR, tarfile.SYMTYPE: stat.S_IFLNK, tarfile.CHRTYPE: stat.S_IFCHR,
        tarfile.BLKTYPE: stat.S_IFBLK, tarfile.FIFOTYPE: stat.S_IFIFO,
    }  # fmt: skip
    return kinds.get(member.type, stat.S_IFREG)
