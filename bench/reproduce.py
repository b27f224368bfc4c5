"""What differs between two images that should be the same: layer by layer, file by file, with the cause.

An image is an archive of ``docker save`` or ``buildx --output type=oci``, or a folder in the OCI layout.

    .venv/bin/python bench/reproduce.py FIRST SECOND [--json]

Exit code 0: the same layers; 1: they differ; 2: one of them cannot be read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

SHOWN = 5
"""Paths of one cause and layer that are printed; --json has them all."""

CAUSES: tuple[tuple[str, str], ...] = (
    (r"/__pycache__/|\.pyc$", "byte code that holds the time or the path of its source"),
    (r"^var/log/|\.log$", "a log"),
    (r"^var/cache/ldconfig/aux-cache$", "ldconfig's cache of inodes"),
    (r"^etc/ld\.so\.cache$", "the loader's cache"),
    (r"^var/cache/(apt|debconf|fontconfig|man)/", "a package manager's cache"),
    (r"^var/lib/(dpkg|apt|systemd|pam|ucf|python)/", "the state of a package manager"),
    (r"^etc/(passwd|shadow|group|gshadow|subuid|subgid)-?$", "an account: shadow notes the day"),
    (r"^etc/ssl/certs/|^etc/ssl/", "certificates, written anew by update-ca-certificates"),
    (r"^etc/machine-id$", "the machine's own number"),
    (r"^etc/ssh/ssh_host_", "a key of the host, made while packages were installed"),
    (r"(^|/)(direct_url\.json|RECORD|INSTALLER|REQUESTED)$", "what pip notes of its installation"),
    (r"^(tmp|var/tmp|run)/", "a temporary file"),
)
"""Where a file lies says why its content changes; the first expression that is found in the path wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member of a layer. ``time`` in seconds since 1970, ``extra`` the unusual PAX headers."""

    kind: str
    mode: int
    owner: tuple[int, int]
    time: float
    size: int
    link: str
    sha256: str
    extra: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """``digest`` of the blob as it lies there, ``diff_id`` of the tar in it, ``entries`` in their order."""

    digest: str
    diff_id: str
    created_by: str
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """``layer`` counts from 1; ``what`` is what of the entry differs; ``path`` "" means the whole layer."""

    layer: int
    path: str
    what: tuple[str, ...]
    cause: str


# -- reading ---------------------------------------------------------------------------------------


class Blobs:
    """The blobs of an image, in a folder or in an archive of one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = None if path.is_dir() else tarfile.open(path)  # noqa: SIM115 (lives as long as we do)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        file = (self.path / name).open("rb") if self.archive is None else self.archive.extractfile(name)
        if file is None:
            raise KeyError(name)
        with file:
            yield file

    def json(self, name: str) -> Any:
        with self.open(name) as file:
            return json.load(file)


def blob(digest: str) -> str:
    algorithm, _, encoded = digest.partition(":")
    return f"blobs/{algorithm}/{encoded}"


def layers(path: Path) -> Iterator[Layer]:
    """The layers of the one image at ``path``, read one at a time: they are large."""
    blobs = Blobs(path)
    images = [
        manifest for manifest in blobs.json("index.json")["manifests"] if "artifactType" not in manifest
    ]
    manifest = blobs.json(blob(images[0]["digest"]))
    config = blobs.json(blob(manifest["config"]["digest"]))
    made = [line.get("created_by", "") for line in config["history"] if not line.get("empty_layer")]
    for number, (described, diff_id) in enumerate(
        zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True)
    ):
        with blobs.open(blob(described["digest"])) as file:
            entries = read(file)
        yield Layer(
            digest=described["digest"], diff_id=diff_id, entries=entries,
            created_by=made[number] if number < len(made) else "",
        )  # fmt: skip


def read(file: IO[bytes]) -> dict[str, Entry]:
    """The members of a layer's tar, packed or not, by path."""
    found: dict[str, Entry] = {}
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            known = {"path", "linkpath", "size", "mtime", "uid", "gid", "uname", "gname"}
            found[member.name.removeprefix("./")] = Entry(
                kind=member.type.decode(), mode=member.mode, owner=(member.uid, member.gid),
                time=float(member.mtime), size=member.size, link=member.linkname,
                sha256=hashlib.file_digest(content, "sha256").hexdigest() if content else "",  # type: ignore[arg-type]
                extra=tuple(sorted(pair for pair in member.pax_headers.items() if pair[0] not in known)),
            )  # fmt: skip
    return found


# -- comparing -------------------------------------------------------------------------------------


def compare(first: Sequence[Layer], second: Sequence[Layer]) -> Iterator[Difference]:
    if len(first) != len(second):
        what = f"{len(first)} and {len(second)} layers"
        yield Difference(layer=0, path="", what=(what,), cause="another Dockerfile, or another base")
        return
    for number, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        if one.diff_id != other.diff_id:
            yield from compare_layers(number, one, other)
        elif one.digest != other.digest:
            cause = "the same files, packed by another program or level"
            yield Difference(layer=number, path="", what=("packing",), cause=cause)


def compare_layers(number: int, layer: Layer, other: Layer) -> Iterator[Difference]:
    differs = False
    for path in sorted({*layer.entries, *other.entries}):
        what = changed(layer.entries.get(path), other.entries.get(path))
        if what:
            differs = True
            yield Difference(layer=number, path=path, what=what, cause=cause_of(path, what))
    if not differs:
        order = list(layer.entries) != list(other.entries)
        cause = "the order of the files" if order else "the tar's own notation"
        yield Difference(layer=number, path="", what=("order" if order else "tar",), cause=cause)


def changed(one: Entry | None, other: Entry | None) -> tuple[str, ...]:
    """What of an entry differs, the content first; its absence on one side says all."""
    if one is None or other is None:
        return ("only in the second",) if one is None else ("only in the first",)
    before, after = asdict(one), asdict(other)
    names = {"sha256": "content", "kind": "kind", "link": "link", "size": "size", "mode": "mode"}
    names |= {"owner": "owner", "extra": "attributes", "time": "time"}
    return tuple(word for name, word in names.items() if before[name] != after[name])


def cause_of(path: str, what: tuple[str, ...]) -> str:
    if what == ("time",):
        return "the time of the build in the file's time"
    return next((cause for pattern, cause in CAUSES if re.search(pattern, path)), "not known")


# -- telling ---------------------------------------------------------------------------------------


def report(first: Sequence[Layer], second: Sequence[Layer], found: Sequence[Difference]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(first, second, strict=False), start=1):
        word = "same" if one.digest == other.digest else "DIFFERENT"
        yield f"layer {number}: {word}, {len(one.entries)} entries: {one.created_by[:80] or 'the base'}"
        mine = [difference for difference in found if difference.layer == number]
        for cause, count in Counter(difference.cause for difference in mine).most_common():
            yield f"  {count:6} {cause}"
            some = [difference for difference in mine if difference.cause == cause][:SHOWN]
            yield from (
                f"         {difference.path or '-'} ({', '.join(difference.what)})" for difference in some
            )
    yield from (f"{difference.what[0]}: {difference.cause}" for difference in found if difference.layer == 0)


def main(arguments: Sequence[str]) -> int:
    paths = [Path(word) for word in arguments if word != "--json"]
    if len(paths) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        first, second = (list(layers(path)) for path in paths)
    except (OSError, KeyError, IndexError, ValueError, tarfile.TarError) as error:
        print(f"error: not an image in the OCI layout: {error}", file=sys.stderr)
        return 2
    found = list(compare(first, second))
    if "--json" in arguments:
        print(json.dumps([asdict(difference) for difference in found], indent=1))
    else:
        print("\n".join(report(first, second, found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
