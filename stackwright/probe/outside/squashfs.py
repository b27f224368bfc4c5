"""Reads the files of a SIF from outside, as root would: what the probes may not read is seen here too.

`unsquashfs -pf` writes the list of all names, and then the content of all files in the order of the list,
here into a pipe: nothing is unpacked on the disk, and no root is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from stackwright.core.errors import EngineError
from stackwright.core.ledger.entry import Entry, Kind, Tree
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import IMAGE
from stackwright.engines.docker import Docker, Mount
from stackwright.engines.sif.layout import root_offset
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Completed, Runner
from stackwright.probe.outside.content import content
from stackwright.probe.outside.layers import Collected, Pieces, Read, Searching

KINDS = {
    "R": Kind.FILE, "D": Kind.FOLDER, "S": Kind.LINK, "C": Kind.DEVICE, "B": Kind.DEVICE, "I": Kind.PIPE,
    "L": Kind.FILE,
}  # fmt: skip
END_OF_LIST = b"#\n# START OF DATA - DO NOT MODIFY\n#\n"
NAME = re.compile(rb"((?:[^\\ ]|\\.)+) ", re.DOTALL)
LIST_LIMIT = 2**28
"""Bytes of the list: 40,000 names take 5 million."""

TIMEOUT = 1800
PIPE_SIZE = 2**20

Clean = Mapping[str, Entry]
"""By their paths, files in which nothing was found that is searched for, with size and SHA-256."""

_NONE: Clean = {}


class OtherContentError(EngineError):
    """A file that was not searched differs from the one of its name and size that was."""


def read(
    sif: Path, search: Searching, *, docker: Docker | None, runner: Runner, clean: Clean = _NONE
) -> Read:
    """Read all files. Those of ``clean`` are hashed alone: nothing was found in the same bytes before.

    EngineError where its files cannot be read as a whole; ConvertError where the file is no SIF.
    """
    try:
        return _read(sif, search, clean, docker, runner)
    except OtherContentError:
        return _read(sif, search, _NONE, docker, runner)


def names(sif: Path, *, docker: Docker | None, runner: Runner) -> Tree:
    """Return the names of a SIF's files; no content is read. It raises what ``read`` does."""
    found = _listed(sif, lambda source: _List(_head(source)), docker, runner, whole=False)
    same = {path: replace(found.entries[first], path=path, again=True) for path, first in found.same.items()}
    return Tree(entries={**found.entries, **same}, texts={})


def _read(sif: Path, search: Searching, clean: Clean, docker: Docker | None, runner: Runner) -> Read:
    return _listed(sif, lambda source: of_list(source, sif.name, search, clean), docker, runner)


T = TypeVar("T")


def _listed(
    sif: Path, take: Callable[[Pieces], T], docker: Docker | None, runner: Runner, *, whole: bool = True
) -> T:
    """Return what ``take`` makes of the list and the content; where it is not ``whole``, of its beginning."""
    offset = root_offset(sif)
    with tempfile.TemporaryDirectory(prefix="stackwright-sif-") as folder, ThreadPoolExecutor(1) as pool:
        pipe = Path(folder) / "files"
        os.mkfifo(pipe)
        words = ("-quiet", "-no-progress", "-offset", str(offset), "-pf", str(pipe), str(sif.resolve()))
        writer = pool.submit(_unsquash, words, (sif.resolve(), pipe.parent), docker, runner)
        descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        failure: EngineError | None = None
        try:
            found = take(Pieces(_pieces(descriptor, writer)))
        except EngineError as error:
            failure = error
        finally:
            os.close(descriptor)  # a process that still writes ends by that
        done = writer.result()
        if failure and (done.ok or isinstance(failure, OtherContentError)):
            raise failure
        if not done.ok and (whole or failure):
            raise EngineError(f"its files cannot be read: {last_line(done)}", place=str(sif)) from failure
        return found


def _unsquash(
    words: tuple[str, ...], folders: tuple[Path, Path], docker: Docker | None, runner: Runner
) -> Completed:
    """In Apptainer's own image, else by the host's program, which Apptainer needs as well."""
    if docker is not None and docker.host.startswith("unix://") and engine.image_exists(docker, IMAGE):
        sif, scratch = (Mount(source=folder, target=str(folder)) for folder in folders)
        mounts = (sif, replace(scratch, read_only=False))
        job = engine.Job(image=IMAGE, argv=("unsquashfs", *words), mounts=mounts, network=False)
        return engine.run(docker, job, timeout=TIMEOUT)
    program = shutil.which("unsquashfs")
    if program is None:
        raise EngineError("there is no unsquashfs to read its files with", place=str(folders[0]))
    return runner([program, *words], timeout=TIMEOUT)


def _pieces(descriptor: int, writer: Future[Completed]) -> Iterator[bytes]:
    """What is written into the pipe, until its writer closes it or ends without a word."""
    begun = False
    while True:
        try:
            piece = os.read(descriptor, PIPE_SIZE)
        except BlockingIOError:
            if not begun:
                time.sleep(0.01)
                begun = True
                os.set_blocking(descriptor, True)
            continue
        if piece:
            begun = True
            os.set_blocking(descriptor, True)
            yield piece
        elif begun or writer.done():
            return
        else:
            time.sleep(0.02)


def of_list(source: Pieces, name: str, search: Searching, clean: Clean = _NONE) -> Read:
    """What `unsquashfs -pf` writes. EngineError where list and content do not fit together."""
    listed = _List(_head(source))
    collected = Collected(name=name)
    for entry in listed.entries.values():
        if entry.kind is Kind.LINK:
            collected.link(entry, search)
        elif entry.kind is not Kind.FILE:
            collected.add(entry)
    at, known = 0, dict[str, Entry]()
    with ThreadPoolExecutor(1) as beside:
        for where, _, path in sorted(
            (where, listed.entries[path].size, path) for path, where in listed.places.items()
        ):
            part, same = _Part(source, listed.entries[path].size), clean.get(path)
            skipped = same is not None and same.size == part.left
            collected.add(listed.entries[path], content(path, part, None if skipped else search, beside))
            if where != at or part.left:
                raise EngineError("the list of its files does not fit their content", place=path)
            if skipped and same and collected.entries[-1].sha256 != same.sha256:
                raise OtherContentError("a file differs from the image's", place=path)
            at += collected.entries[-1].size
            known[path] = collected.entries[-1]
    for path, target in listed.same.items():
        if target not in known:
            raise EngineError("a hard link leads to no file", place=path)
        collected.add(replace(known[target], path=path, again=True))
    return collected.done


class _Part:
    """One file in the stream of all."""

    def __init__(self, source: Pieces, size: int) -> None:
        self._source, self.left = source, size

    def read(self, size: int, /) -> bytes:
        piece = self._source.read(min(size, self.left))
        self.left -= len(piece)
        return piece


def _head(source: Pieces) -> bytes:
    """The list, to the line before the content. It is read by lines, for what follows is content."""
    head = bytearray()
    while not head.endswith(END_OF_LIST):
        line = source.line()
        if not line or len(head) > LIST_LIMIT:
            raise EngineError("there is no list of its files")
        head += line
    return bytes(head[: -len(END_OF_LIST)])


class _List:
    """``places``: where in the content each file begins. ``same``: hard links, to the file's first name."""

    def __init__(self, head: bytes) -> None:
        self.entries: dict[str, Entry] = {}
        self.places: dict[str, int] = {}
        self.same: dict[str, str] = {}
        at = 0
        while at < len(head):
            name = NAME.match(head, at)
            end = head.find(b"\n", name.end() if name else at)
            end = len(head) if end < 0 else end
            if name is None:
                raise EngineError("a line of the list of its files cannot be read")
            self._add(_path(name[1]), head[name.end() : end])
            at = end + 1

    def _add(self, path: str, line: bytes) -> None:
        kind, _, rest = line.decode(errors="surrogateescape").partition(" ")
        if kind == "x" and path in self.entries:
            found = rest.startswith("security.capability=")
            self.entries[path] = replace(
                self.entries[path], capability=found or self.entries[path].capability
            )
        elif path in self.entries or path in self.same or kind not in KINDS:
            raise EngineError("the list of its files is not one", place=path)
        elif kind == "L":
            self.same[path] = _path(os.fsencode(rest))
        else:
            try:
                self.entries[path] = self._entry(path, kind, rest)
            except (ValueError, IndexError) as error:
                raise EngineError("a line of the list of its files cannot be read", place=path) from error

    def _entry(self, path: str, kind: str, line: str) -> Entry:
        mtime, mode, uid, gid, *more = line.split(" ", 4)
        entry = Entry(
            path=path, kind=KINDS[kind], mode=int(mode, 8), uid=int(uid), gid=int(gid), mtime=int(mtime)
        )
        if kind == "S":
            return replace(entry, target=more[0])
        if kind == "R":
            size, self.places[path], _ = map(int, more[0].split())
            return replace(entry, size=size)
        return entry


def _path(name: bytes) -> str:
    """A name as the list has it: from the root, with a backslash before some characters."""
    return "/" + os.fsdecode(re.sub(rb"\\(.)", rb"\1", name, flags=re.DOTALL)).strip("/")
