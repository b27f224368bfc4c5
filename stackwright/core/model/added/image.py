"""What a row adds to its image besides distributions: variables, and folders that are copied in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of the image's environment that the row sets, or of its builds."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder next to the matrix that is copied in; ``files`` are paths below ``place``, and content.

    Of a row that is known from an image's label there is no content: ``hashes`` has the SHA-256 by path, and
    ``digest`` is that of the label, where the image has other files.
    """

    source: str
    place: str
    files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    hashes: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    digest: str = ""

    def placed(self) -> Iterator[tuple[str, bytes]]:
        """Yield each path in the image, with its content."""
        for path, content in self.files:
            yield f"{self.place}/{path}", content

    def hashed(self) -> tuple[tuple[str, str], ...]:
        """Return the SHA-256 of each file, by its path below the place."""
        return self.hashes or tuple(
            (path, hashlib.sha256(content).hexdigest()) for path, content in self.files
        )

    def expected(self) -> Iterator[tuple[str, str]]:
        """Yield the paths in the image, with the SHA-256 of each.

        Where the files are not known, no file is as it is expected.
        """
        if self.digest:
            yield self.place, self.digest
        for path, sha256 in self.hashed():
            yield f"{self.place}/{path}", sha256

    @property
    def sha256(self) -> str:
        """Return a digest of all names and all content."""
        lines = (f"{sha256}  {path}\n" for path, sha256 in self.hashed())
        return self.digest or hashlib.sha256("".join(lines).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.source}:{self.place}@{self.sha256[:12]}"
