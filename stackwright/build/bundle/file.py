"""The file itself: an archive whose members are stored as they are, and can be served from their places.

Nothing of it is used before all of it was compared with the manifest, and the manifest is the first member.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stackwright.build.bundle import manifest as manifests
from stackwright.build.bundle.manifest import AGAIN, NAME, BundledRow, Manifest, Member
from stackwright.core.errors import BundleError, DiskError, UsageError
from stackwright.host.files import draft_of

BLOCK = 1 << 20
MOST = 64 << 20
"""Bytes of a manifest."""

_EARLIEST = (1980, 1, 1, 0, 0, 0)
_UNREADABLE = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    struct.error,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle that was read as a whole, and agrees with its manifest. ``digest`` is the manifest's."""

    path: Path
    manifest: Manifest
    digest: str

    def row(self, id: str, key: str) -> BundledRow:
        """Raise BundleError where the bundle is not of this row, as it is now."""
        found = next((row for row in self.manifest.rows if row.row == id), None)
        if found is None:
            names = ", ".join(row.row for row in self.manifest.rows)
            hint = f"make a bundle of it where there is a network: ./build.py bundle {id}"
            raise BundleError(f"it has no {id}; it has {names}", place=str(self.path), hint=hint)
        if found.key != key:
            cause = (
                f"it was made for {id} of the key {found.key[:12]}, and the row has the key {key[:12]} here"
            )
            hint = "take the matrix, the lock and the Stackwright that it was made with, or make it again"
            raise BundleError(cause, place=str(self.path), hint=hint)
        return found

    @contextmanager
    def opened(self, path: str) -> Iterator[IO[bytes]]:
        """A member, by its path."""
        with zipfile.ZipFile(self.path) as archive, archive.open(path) as file:
            yield file


def members(folder: Path) -> tuple[Member, ...]:
    """Return every file below a folder, in the order of their paths."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple(_member(path, path.relative_to(folder).as_posix()) for path in files)


def _member(path: Path, name: str) -> Member:
    with path.open("rb") as file:
        return Member(
            path=name, sha256=hashlib.file_digest(file, "sha256").hexdigest(), bytes=path.stat().st_size
        )


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Raise DiskError or BundleError where what the block writes there cannot be written."""
    try:
        yield
    except OSError as error:
        kind = DiskError if error.errno == errno.ENOSPC else BundleError
        hint = "check the folder and its disk"
        raise kind(f"cannot be written: {error.strerror}", place=str(target), hint=hint) from error


def write(target: Path, manifest: Manifest, folder: Path) -> str:
    """Write the members, which lie in ``folder``, as one file that appears when it is whole.

    Returns the digest of the manifest. The same members give the same bytes.
    """
    content = manifests.write(manifest)
    with writing(target), draft_of(target) as draft:
        with zipfile.ZipFile(draft, "x", zipfile.ZIP_STORED) as archive:
            archive.writestr(_entry(NAME, len(content)), content)
            for member in manifest.members:
                _add(archive, member, folder / member.path)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def _entry(name: str, size: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EARLIEST)
    entry.external_attr, entry.file_size, entry.create_system = 0o100644 << 16, size, 3
    return entry


def _add(archive: zipfile.ZipFile, member: Member, path: Path) -> None:
    with path.open("rb") as source, archive.open(_entry(member.path, member.bytes), "w") as made:
        while block := source.read(BLOCK):
            made.write(block)


def read(path: Path) -> Bundle:
    """Read all of a bundle. BundleError where it is not whole, or not what its manifest says."""
    if not path.is_file():
        raise UsageError(f"no such file: {path}", hint="./build.py bundle writes one")
    place = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            content = _manifest(archive, place)
            manifest = manifests.read(content, place)
            _require_members(archive, manifest, place)
            for member in manifest.members:
                _require_same(archive, member, place)
    except _UNREADABLE as error:
        cause = f"not a bundle, or a damaged one: {error}"
        raise BundleError(cause, place=place, hint=AGAIN) from error
    return Bundle(path=path.resolve(), manifest=manifest, digest=hashlib.sha256(content).hexdigest())


def _manifest(archive: zipfile.ZipFile, place: str) -> bytes:
    found = [entry for entry in archive.infolist() if entry.filename == NAME]
    if len(found) != 1 or found[0].file_size > MOST:
        raise BundleError(f"not a bundle: it has no {NAME}", place=place, hint="./build.py bundle writes one")
    return archive.read(found[0])


def _require_members(archive: zipfile.ZipFile, manifest: Manifest, place: str) -> None:
    names = [entry.filename for entry in archive.infolist() if entry.filename != NAME]
    wanted = {member.path: member.bytes for member in manifest.members}
    lacks = next((name for name in wanted if name not in set(names)), "")
    more = next((name for name in names if name not in wanted), "")
    if lacks:
        raise BundleError(f"it lacks {lacks}, which its manifest names", place=place, hint=AGAIN)
    if more or len(names) != len(wanted):
        cause = (
            f"it has {more[:80]!r}, which its manifest does not name" if more else "a member is in it twice"
        )
        raise BundleError(cause, place=place, hint=AGAIN)
    for entry in archive.infolist():
        stored = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
        if not stored or wanted.get(entry.filename, entry.file_size) != entry.file_size:
            cause = f"{entry.filename} has another size than its manifest says, or is packed"
            raise BundleError(cause, place=place, hint=AGAIN)


def _require_same(archive: zipfile.ZipFile, member: Member, place: str) -> None:
    digest = hashlib.sha256()
    try:
        with archive.open(member.path) as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except zipfile.BadZipFile:
        digest = hashlib.sha256()
    if digest.hexdigest() != member.sha256:
        cause = f"{member.path} was changed: its sha256 is not the one in the manifest"
        raise BundleError(cause, place=place, hint=AGAIN)
