"""Files of a row that the page leads to. Each link is relative to the page, so that `out` can be moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from stackwright.core.model.record import Record
from stackwright.records.files import path_of

SBOM = "sbom.cdx.json"
UP = "../"
"""From the page, which is in `out/report`, to `out`."""


@dataclass(frozen=True, slots=True)
class Link:
    what: str
    to: str


def links(record: Record, out: Path) -> tuple[Link, ...]:
    """Return the files of this record that are there now; ``out`` holds everything that was made."""
    return tuple(
        Link(what, UP + quote(path.relative_to(out).as_posix()))
        for what, path in _candidates(record, out)
        if path.is_file()
    )


def _candidates(record: Record, out: Path) -> Iterator[tuple[str, Path]]:
    made, rendered = out / record.row / record.key[:12], out / "rendered" / record.row
    context, document = made / "context", path_of(record, out / "records")
    yield "Build log", made / "build.log"
    yield "Dockerfile", context / "Dockerfile"
    if _same(rendered / "row.json", context / "row.json"):  # else it was rendered for another image
        yield "Definition file", rendered / f"{record.row}.def"
    yield "Lock, as pip reads it", context / "requirements.txt"
    yield "SBOM", made / SBOM
    for world in ("docker", "sif", "def"):
        yield f"JUnit, {world}", document.with_suffix(f".{world}.xml")
    yield "Record", document


def _same(path: Path, other: Path) -> bool:
    try:
        return path.read_bytes() == other.read_bytes()
    except OSError:
        return False
