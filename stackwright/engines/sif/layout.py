"""The layout of a SIF: whether it is all there, and how one is put around a file system.

Apptainer reads labels and scripts from a file whose end is missing, and does not say so.

The layout is that of the SIF specification, version 1 (github.com/apptainer/sif, pkg/sif/sif.go), and of
squashfs 4.0 (the kernel's squashfs_fs.h).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stackwright.core.errors import ConvertError

MAGIC = b"SIF_MAGIC\0"
HEADER = struct.Struct("<32s10s3s3s16s8q")
DESCRIPTOR = struct.Struct("<i?3I7q128s384s")

PARTITION = 0x4004
EXTRA_OF_PARTITION = struct.Struct("<2i3s")
"""File system, purpose, architecture."""
SQUASHFS, PRIMARY = 1, 2
ARCHITECTURES = {"386": b"01\0", "amd64": b"02\0", "arm": b"03\0", "arm64": b"04\0", "ppc64le": b"06\0"}
"""Of the programs in it, by the names that an OCI image has for them."""

SUPERBLOCK = struct.Struct("<4s36xQ")
"""Magic; bytes in use. Each squashfs begins with it."""
OF_SQUASHFS = b"hsqs"


class Header(NamedTuple):
    """Places and lengths are bytes; ``free`` and ``total`` count descriptors."""

    launch: bytes
    magic: bytes
    version: bytes
    architecture: bytes
    uuid: bytes
    created: int
    modified: int
    free: int
    total: int
    offset: int
    length: int
    data_offset: int
    data_length: int


class Descriptor(NamedTuple):
    """Of an object. ``padded`` is ``length`` with the bytes before it that align it."""

    kind: int
    used: bool
    id: int
    group: int
    link: int
    offset: int
    length: int
    padded: int
    created: int
    modified: int
    owner: int
    owners: int
    name: bytes
    extra: bytes

    @property
    def end(self) -> int:
        return self.offset + self.length

    @property
    def is_root(self) -> bool:
        what = EXTRA_OF_PARTITION.unpack_from(self.extra)[:2]
        return self.kind == PARTITION and what == (SQUASHFS, PRIMARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``objects``: where in the file the descriptor of each lies, and the descriptor."""

    header: Header
    objects: tuple[tuple[int, Descriptor], ...]

    @property
    def end(self) -> int:
        return max(descriptor.end for _, descriptor in self.objects)

    @property
    def root(self) -> tuple[int, Descriptor]:
        """The root file system. ValueError where there is none."""
        for where, descriptor in self.objects:
            if descriptor.is_root:
                return where, descriptor
        raise ValueError("no root file system")


def require_whole(sif: Path) -> None:
    """Raise ConvertError where the file ends before the objects that its table lists, or where its root
    file system
    ends before all that is in use of it."""
    try:
        with sif.open("rb") as file:
            table = _table(file)
            end = max(table.end, _end_of_use(file, table.root[1]))
        size = sif.stat().st_size
    except OSError as error:
        raise ConvertError(f"cannot be read: {error.strerror}", place=str(sif)) from error
    except (struct.error, ValueError) as error:
        raise ConvertError("is no SIF, or only its begin", place=str(sif), hint="make it anew") from error
    if size < end:
        cause = f"is cut short: {size} bytes are there, of {end}"
        raise ConvertError(cause, place=str(sif), hint="make it anew, or copy it again")


def root_offset(sif: Path) -> int:
    """Where the root file system begins, in bytes. ConvertError where there is none."""
    require_whole(sif)
    with sif.open("rb") as file:
        return _table(file).root[1].offset


def put_around(skeleton: Path, target: Path, architecture: str) -> None:
    """Make a SIF of ``target``, in which a squashfs lies where ``skeleton`` has its own.

    All that the skeleton has before that place is copied, with the new size. ``architecture`` is the
    image's: Apptainer finds it in the programs, of which a skeleton has none. ConvertError where SIFs have no
    code for it.
    """
    if architecture not in ARCHITECTURES:
        raise ConvertError(f"SIFs know no architecture {architecture!r}", place=str(target))
    code = ARCHITECTURES[architecture]
    with skeleton.open("rb") as file:
        table = _table(file)
        where, root = table.root
        file.seek(0)
        content = bytearray(file.read(root.offset))
    if root.end != table.end:
        raise ConvertError("its root file system is not its last object", place=str(skeleton))
    more = target.stat().st_size - root.end
    extra = EXTRA_OF_PARTITION.pack(SQUASHFS, PRIMARY, code)
    new = root._replace(length=root.length + more, padded=root.padded + more, extra=extra)
    DESCRIPTOR.pack_into(content, where, *new)
    header = table.header._replace(architecture=code, data_length=table.header.data_length + more)
    HEADER.pack_into(content, 0, *header)
    with target.open("r+b") as file:
        file.write(content)


def _table(file: BinaryIO) -> Table:
    file.seek(0)
    header = Header._make(HEADER.unpack(file.read(HEADER.size)))
    size = header.total * DESCRIPTOR.size
    if header.magic != MAGIC or not 0 < header.total < 10_000 or header.length < size:
        raise ValueError("no header of a SIF")
    file.seek(header.offset)
    descriptors = [Descriptor._make(fields) for fields in DESCRIPTOR.iter_unpack(file.read(size))]
    if len(descriptors) < header.total:
        raise ValueError("not all descriptors")
    places = range(header.offset, header.offset + size, DESCRIPTOR.size)
    objects = tuple(
        (where, descriptor) for where, descriptor in zip(places, descriptors, strict=True) if descriptor.used
    )
    if not objects:
        raise ValueError("no objects")
    return Table(header=header, objects=objects)


def _end_of_use(file: BinaryIO, root: Descriptor) -> int:
    """Of the root file system, by its own superblock; 0 where that is beyond the end of the file."""
    file.seek(root.offset)
    head = file.read(SUPERBLOCK.size)
    if len(head) < SUPERBLOCK.size:
        return 0
    magic, used = SUPERBLOCK.unpack(head)
    if magic != OF_SQUASHFS:
        raise ValueError("no squashfs")
    return root.offset + int(used)
