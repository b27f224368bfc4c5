"""An image's files as one stream, for those who can neither mount its layers nor read the engine's folders.

A container is created, never started, and exported. What the engine puts into every container is exchanged on
the way for what the image has there, and what Apptainer adds to an image is added: nothing goes to the disk.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stackwright.core.errors import ConvertError, EngineError
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner

MADE_FILES = (".dockerenv", "dev/console", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf")
MADE_FOLDERS = ("dev/pts", "dev/shm")
"""What the engine puts into each container: files over those of the image, folders where there are none
(github.com/moby/moby, daemon/initlayer/setup_unix.go). It makes /proc and /sys as well, as Apptainer does."""

EMPTIED = ("etc/hosts", "etc/resolv.conf")
"""What Apptainer empties and makes readable, where it is a file, and leaves to its owner."""

ASKED = """\
FROM {image} AS image
FROM scratch
COPY --from=image /.dockeren[v] /
COPY --from=image /de[v]/ /dev/
COPY --from=image /et[c]/ /etc/
"""
"""A pattern may match nothing; a name may not. Links in a folder stay links, named ones are followed."""

BLOCK = tarfile.BLOCKSIZE
END = bytes(BLOCK)
OF_THE_NEXT = (b"x", b"L", b"K")
"""Kinds of members that say more of the member after them."""
PIPE = 2**20
"""Bytes that the pipe holds: what an ordinary user may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Of a tar: its headers and, for a file, its content, whole blocks."""

    name: str
    raw: bytes

    @classmethod
    def of(cls, info: tarfile.TarInfo, content: bytes = b"") -> Member:
        info.size = len(content)
        padding = bytes(-len(content) % BLOCK)
        return cls(name=info.name, raw=info.tobuf(tarfile.PAX_FORMAT) + content + padding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """``left_out``: paths that are not the image's. ``instead``: what it has of them. ``added``: what it gets
    where it has no such path."""

    left_out: frozenset[str]
    instead: tuple[Member, ...]
    added: tuple[Member, ...]


def corrections(docker: Docker, runner: Runner, image: str, folder: Path, of_apptainer: bytes) -> Corrections:
    """``of_apptainer``: the lines of `unsquashfs -pf` for the files that Apptainer adds. EngineError."""
    asked, answer = folder / "asked", folder / "answer.tar"
    asked.mkdir()
    (asked / "Dockerfile").write_text(ASKED.format(image=image))
    words = ("--quiet", "--network", "none", "--output", f"type=tar,dest={answer}", asked)
    done = runner(docker.build(*words), timeout=600)
    if not done.ok:
        raise EngineError(done.stderr.strip() or "docker buildx build failed", place=image)
    with tarfile.open(answer) as tar:
        found = {member.name: member for member in tar}
        instead = {
            name: _member(tar, found[name])
            for name in MADE_FILES
            if name in found and not found[name].isdir()
        }
    answer.unlink()
    made = {name for name in (*MADE_FILES, *MADE_FOLDERS) if name in instead or name not in found}
    added = listed(of_apptainer)
    overwritten = {member.name for member in added if member.name.startswith(".singularity.d/")}
    folders = {str(Path(name).parent) for name in overwritten} | {".singularity.d/libs"}
    return Corrections(
        left_out=frozenset(made | (overwritten - folders)), instead=tuple(instead.values()), added=added
    )


def _member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    file = tar.extractfile(info) if info.isreg() or info.islnk() else None
    content = file.read() if file else b""
    if file and info.name in EMPTIED:
        content, info.mode = b"", 0o644
    if info.islnk():
        info.type, info.linkname = tarfile.REGTYPE, ""
    return Member.of(info, content)


def listed(pseudo_files: bytes) -> tuple[Member, ...]:
    """Return what `unsquashfs -pf` writes, without the root folder.

    ValueError for what Apptainer never adds.
    """
    lines, _, content = pseudo_files.partition(b"#\n# START OF DATA - DO NOT MODIFY\n#\n")
    found = []
    for line in lines.decode().splitlines():
        name, kind, mtime, mode, user, group, *more = line.split(" ", 6)
        info = tarfile.TarInfo(name)
        info.mtime, info.mode, info.uid, info.gid = int(mtime), int(mode, 8), int(user), int(group)
        data = b""
        if kind == "R":
            size, offset = (int(word) for word in more[0].split()[:2])
            data = content[offset : offset + size]
        elif kind == "S":
            info.type, info.linkname = tarfile.SYMTYPE, more[0]
        elif kind == "D":
            info.type = tarfile.DIRTYPE
        else:
            raise ValueError(f"no file of Apptainer's: {line}")
        if name != "/":
            found.append(Member.of(info, data))
    return tuple(found)


# -- on the way -------------------------------------------------------------------------------------


class _Blocks:
    """Bytes by count, from chunks of any size. ConvertError where they end too early."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = iter(chunks)
        self.rest = memoryview(b"")

    def parts(self, count: int) -> Iterator[memoryview]:
        while count:
            if not self.rest:
                self.rest = memoryview(self._next())
            part, self.rest = self.rest[:count], self.rest[count:]
            count -= len(part)
            yield part

    def take(self, count: int) -> bytes:
        if len(self.rest) >= count:
            part, self.rest = self.rest[:count], self.rest[count:]
            return bytes(part)
        return b"".join(self.parts(count))

    def _next(self) -> bytes:
        try:
            return next(self.chunks)
        except StopIteration:
            cause = "the engine's stream of the image ended too early"
            raise ConvertError(cause, hint="try again; the engine's log says more") from None


def corrected(chunks: Iterable[bytes], wanted: Corrections) -> Iterator[bytes | memoryview]:
    """Yield the tar with the corrections made. Its own members are not held in memory."""
    blocks = _Blocks(chunks)
    missing = {member.name: member for member in (*wanted.added, *wanted.instead)}
    before = b""
    more: dict[str, str] = {}
    while (header := blocks.take(BLOCK)) != END:
        size = int(more["size"]) if "size" in more else tarfile.nti(header[124:136])  # type: ignore[attr-defined]
        padded = size + -size % BLOCK
        if header[156:157] in OF_THE_NEXT:
            content = blocks.take(padded)
            before += header + content
            more |= _extended(content[:size]) if header[156:157] == b"x" else {}
            continue
        name = more.get("path", _name(header)).strip("/")
        if name in wanted.left_out:
            for _ in blocks.parts(padded):
                pass
        else:
            missing.pop(name, None)
            yield before + header
            yield from blocks.parts(padded)
        before, more = b"", {}
    yield b"".join(member.raw for member in missing.values()) + 2 * END


def _name(header: bytes) -> str:
    prefix, name = (field.partition(b"\0")[0] for field in (header[345:500], header[:100]))
    return (prefix + b"/" + name if prefix else name).decode(errors="surrogateescape")


def _extended(content: bytes) -> Mapping[str, str]:
    """Return the records of a PAX header, "LENGTH NAME=VALUE\\n" each."""
    found = {}
    while content:
        length = int(content.partition(b" ")[0])
        name, _, value = content[:length].partition(b" ")[2].partition(b"=")
        found[name.decode()] = value[:-1].decode(errors="surrogateescape")
        content = content[length:]
    return found


def feed(chunks: Iterable[bytes | memoryview], pipe: Path, *, ended: Callable[[], bool]) -> None:
    """Write the chunks into a named pipe, as long as it is read. ``ended``: its reader has ended."""
    with contextlib.suppress(BrokenPipeError), _opened(pipe, ended) as file:
        if file is not None:
            for chunk in chunks:
                file.write(chunk)


@contextlib.contextmanager
def _opened(pipe: Path, ended: Callable[[], bool]) -> Iterator[BinaryIO | None]:
    """To open a pipe for writing waits for its reader, without an end where the reader could not start."""
    while not ended():
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            time.sleep(0.02)
            continue
        os.set_blocking(descriptor, True)
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE)
        with os.fdopen(descriptor, "wb", buffering=PIPE) as file:
            yield file
        return
    yield None
