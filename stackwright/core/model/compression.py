"""How a SIF's file system is compressed: a choice of the user's, and what disk it needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stackwright.core.errors import UsageError

CHOICES = "zstd:LEVEL (1 to 22), gzip:LEVEL (1 to 9), lz4 or none"

_NAME = re.compile(r"(?P<kind>zstd|gzip)(:(?P<level>[1-9][0-9]?))?|lz4|none")
_USUAL = {"zstd": 3, "gzip": 9}
_HIGHEST = {"zstd": 22, "gzip": 9}

_SHARE = {"zstd": 0.65, "gzip": 0.65, "lz4": 0.80, "none": 1.05}
"""Of the image's bytes, what its file system may take.

The rows took 0.50 to 0.57 with zstd:1 (docs/results), and at most 0.70 with lz4; an eighth is added. Where an
image is harder to compress, the disk may get full, which leaves no bad file and is said.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """``name`` is complete ("gzip:9", never "gzip"): what is compared with the record of an older file."""

    name: str

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]

    @property
    def options(self) -> tuple[str, ...]:
        """Of mksquashfs."""
        if self.kind == "none":
            return ("-no-compression",)
        level = self.name.partition(":")[2]
        return ("-comp", self.kind, *(("-Xcompression-level", level) if level else ()))

    def most(self, image_bytes: int) -> int:
        """Bytes that the file may have, for an image of this size."""
        return int(image_bytes * _SHARE[self.kind])


def compression(text: str) -> Compression:
    """Raise UsageError where it is none of the choices."""
    match = _NAME.fullmatch(text)
    kind = match["kind"] if match else None
    level = int(match["level"] or _USUAL[kind]) if match and kind else 0
    if not match or (kind and level > _HIGHEST[kind]):
        raise UsageError(f"no such compression: {text!r}", place="--sif-compression", hint=CHOICES)
    return Compression(name=f"{kind}:{level}" if kind else text)


DEFAULT = compression("zstd:3")
"""As small as gzip:9 at a twelfth of its time; kernels since 4.14 read it (docs/singularity.md)."""
