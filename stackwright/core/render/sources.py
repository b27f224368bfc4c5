"""The files of the project that end up in a context, read once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from stackwright.core.facts.patches import Series

SHIPPED_MATRIX = "matrix.yaml"
ARCHIVE = "archive.txt"
"""In a folder of a context: an archive's name, where it is, and the hash of what is in it. The archive itself
is no part of a recipe; a site's own is put next to this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """``files`` are those that components compile from, by their path. ``image``: those of the folder of that
    name. ``companions`` go next to a
    definition file: the probes, what judges them, and the examples. ``matrix`` is the source that a rendered
    file names.
    """

    templates: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, bytes], ...]
    image: tuple[tuple[str, bytes], ...]
    series: Series
    companions: tuple[tuple[str, bytes], ...] = ()
    matrix: str = SHIPPED_MATRIX

    @classmethod
    def load(
        cls,
        root: Path,
        series: Series,
        matrix: str = SHIPPED_MATRIX,
        *,
        files: Iterable[str] = (),
        templates: Iterable[tuple[str, str]] = (),
    ) -> Sources:
        """``files`` and ``templates`` are those of the components."""
        beside = [*root.glob("probes/*.py"), *root.glob("examples/*.py"), root / "singularity" / "judge.py"]
        return cls(
            templates=(
                *_templates(root / "dockerfiles", ""),
                *_templates(root / "singularity", "singularity/"),
                *_templates(root / "steps", "steps/"),
                *templates,
            ),
            companions=tuple(
                (path.relative_to(root).as_posix(), path.read_bytes()) for path in sorted(beside)
            ),
            files=tuple((path, (root / path).read_bytes()) for path in files),
            image=tuple(
                (path.name, path.read_bytes())
                for path in sorted((root / "image").iterdir())
                if path.is_file()
            ),
            series=series,
            matrix=matrix if re.fullmatch(r"[A-Za-z0-9._-]{1,60}", matrix) else "its matrix",
        )

    def with_file(self, path: str, content: bytes) -> Sources:
        """Return the same with another content of one of ``files``."""
        return replace(self, files=tuple({**dict(self.files), path: content}.items()))


def _templates(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.j2")):
        yield prefix + path.name, path.read_text()
