"""What is in a squashfs, file by file, and in what two differ.

It is read as `unsquashfs -pf -` writes it: a line for each file, and after them what is in the files.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, NamedTuple

from stackwright.core.errors import EngineError
from stackwright.engines.apptainer import IMAGE
from stackwright.engines.docker import Docker
from stackwright.engines.sif.layout import root_offset

START_OF_DATA = b"# START OF DATA - DO NOT MODIFY\n"
CHUNK = 2**20
_LINE = re.compile(rb"(?P<name>(?:\\.|[^ \\])+) (?P<kind>[RDSCBILx]) ?(?P<rest>.*)\n", re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


class Difference(NamedTuple):
    """``what``: path, kind, mode, owner, link, device, xattr, content, time."""

    path: str
    what: str
    one: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """``kind`` is the listing's: R file, D folder, S symbolic link, C and B devices, I pipe, L hard link."""

    kind: str
    mode: str = ""
    owner: str = ""
    link: str = ""
    device: str = ""
    xattrs: frozenset[str] = field(default_factory=frozenset)
    sha256: str = ""
    time: int = 0


def without_origin(content: bytes) -> bytes:
    """.singularity.d/Singularity without where the image came from: a path on the machine that made it."""
    return b"".join(line for line in content.splitlines(keepends=True) if not line.startswith(b"from:"))


def without_date(content: bytes) -> bytes:
    """.singularity.d/labels.json without the time of the conversion and where the image came from."""
    labels = {
        name: text
        for name, text in json.loads(content).items()
        if not name.endswith(("label-schema.build-date", "usage.singularity.deffile.from"))
    }
    return json.dumps(labels, sort_keys=True).encode()


OF_EACH_CONVERSION: Mapping[str, Callable[[bytes], bytes]] = {
    ".singularity.d/Singularity": without_origin,
    ".singularity.d/labels.json": without_date,
}
"""No two conversions give the same in these files, Apptainer's own neither: what is left is compared."""


def of_sif(docker: Docker, sif: Path) -> dict[str, Entry]:
    """The root file system of a SIF. ConvertError where it is not whole, EngineError where it is damaged."""
    sif = sif.resolve()
    bind = f'type=bind,"source={sif.parent}",target=/in,readonly'
    unsquashfs = ("unsquashfs", "-quiet", "-no-progress", "-offset", str(root_offset(sif)), "-pf", "-")
    options = ("--rm", "--network", "none", "--log-driver", "none", "--mount", bind)
    argv = docker.command("run", *options, IMAGE, *unsquashfs, f"/in/{sif.name}")
    # Not by the runner, which keeps all output: this one is as large as the image.
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout
        found = read(child.stdout)
    if child.returncode:
        raise EngineError("unsquashfs failed", place=str(sif))
    return found


def read(listing: IO[bytes]) -> dict[str, Entry]:
    """Every path with what it is. ValueError where the listing ends before the content of all files."""
    found: dict[str, Entry] = {}
    files: list[tuple[str, int, int]] = []
    for name, kind, rest in _lines(listing):
        if kind == "x":
            found[name] = replace(found[name], xattrs=found[name].xattrs | {rest})
            continue
        found[name] = _entry(kind, rest)
        if kind == "R":
            size, begin = (int(word) for word in rest.split()[4:6])
            files.append((name, size, begin))
    at = 0
    for name, size, begin in sorted(files, key=lambda file: file[2]):
        if begin != at:
            raise ValueError(f"{name} begins at {begin}, and {at} bytes were read")
        found[name] = replace(found[name], sha256=_hashed(listing, size, OF_EACH_CONVERSION.get(name)))
        at += size
    return found


def _lines(listing: IO[bytes]) -> Iterator[tuple[str, str, str]]:
    """Name, kind and the rest of each line; a name may have line breaks, with a backslash before."""
    line = b""
    for part in listing:
        if part == START_OF_DATA:
            listing.readline()
            return
        line += part
        if part.endswith(b"\\\n") or part == b"#\n":
            line = b"" if part == b"#\n" else line
            continue
        parsed = _LINE.fullmatch(line)
        if not parsed:
            raise ValueError(f"cannot be read: {line!r}")
        name = _ESCAPED.sub(rb"\1", parsed["name"])
        yield _text(name), _text(parsed["kind"]), _text(parsed["rest"])
        line = b""
    raise ValueError("the listing ends before its files")


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")


def _entry(kind: str, rest: str) -> Entry:
    if kind == "L":
        return Entry(kind=kind, link=rest)
    time, mode, user, group, *more = rest.split(" ", 4)
    entry = Entry(kind=kind, mode=mode, owner=f"{user}:{group}", time=int(time))
    if kind == "S":
        return replace(entry, link=more[0])
    return replace(entry, device=more[0]) if kind in "CBI" else entry


def _hashed(content: IO[bytes], size: int, cleaned: Callable[[bytes], bytes] | None) -> str:
    digest = hashlib.sha256()
    kept = b""
    while size:
        chunk = content.read(min(size, CHUNK))
        if not chunk:
            raise ValueError("the listing ends within a file")
        size -= len(chunk)
        if cleaned:
            kept += chunk
        else:
            digest.update(chunk)
    if cleaned:
        digest.update(cleaned(kept))
    return digest.hexdigest()


def differences(one: Mapping[str, Entry], other: Mapping[str, Entry]) -> Iterator[Difference]:
    """In what two contents differ, path by path."""
    for path in sorted(one.keys() | other.keys()):
        if path not in one or path not in other:
            there = ("there", "not there") if path in one else ("not there", "there")
            yield Difference(path, "path", *there)
        else:
            yield from _changed(path, one[path], other[path])


def _changed(path: str, entry: Entry, other: Entry) -> Iterator[Difference]:
    for what in ("kind", "mode", "owner", "link", "device", "xattrs", "sha256", "time"):
        mine, yours = getattr(entry, what), getattr(other, what)
        if mine != yours:
            name = {"xattrs": "xattr", "sha256": "content"}.get(what, what)
            shown = (" ".join(sorted(value)) if what == "xattrs" else str(value) for value in (mine, yours))
            yield Difference(path, name, *shown)
