"""Whether a SIF is all there. Apptainer reads labels and scripts from a file whose end is missing.

The layout is that of the SIF specification, version 1 (github.com/apptainer/sif, pkg/sif/sif.go).
"""

from __future__ import annotations

import struct
from pathlib import Path

from stackwright.errors import ConvertError

MAGIC = b"SIF_MAGIC\0"
LAUNCH = 32
"""Bytes of the line that makes the file a program, before the magic."""
HEADER = struct.Struct("<32s10s3s3s16s8q")
"""Launch line, magic, version, architecture, UUID; created, modified; descriptors: free, in total, where they
begin, their bytes; data: where it begins, its bytes."""
DESCRIPTOR = struct.Struct("<i?3I7q128s384s")
"""Type, in use, id, group, link; offset, bytes, bytes with padding, created, modified, owner, group; …"""


def require_whole(sif: Path) -> None:
    """ConvertError where the file ends before the objects that its own table lists."""
    try:
        size, end = sif.stat().st_size, _end(sif)
    except OSError as error:
        raise ConvertError(f"cannot be read: {error.strerror}", place=str(sif)) from error
    except (struct.error, ValueError) as error:
        raise ConvertError("is no SIF, or only its begin", place=str(sif), hint="make it anew") from error
    if size < end:
        cause = f"is cut short: {size} bytes are there, of {end}"
        raise ConvertError(cause, place=str(sif), hint="make it anew, or copy it again")


def _end(sif: Path) -> int:
    """Where the last object ends, in bytes from the begin of the file."""
    with sif.open("rb") as file:
        head = HEADER.unpack(file.read(HEADER.size))
        _, total, offset, length = head[7:11]
        if head[1] != MAGIC or not 0 < total < 10_000 or length < total * DESCRIPTOR.size:
            raise ValueError("no header of a SIF")
        file.seek(offset)
        table = file.read(total * DESCRIPTOR.size)
    used = [one for one in DESCRIPTOR.iter_unpack(table) if one[1]]
    if len(table) < total * DESCRIPTOR.size or not used:
        raise ValueError("no objects")
    return max(int(one[5] + one[6]) for one in used)
