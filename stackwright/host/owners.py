"""Who uses what, where several projects share one engine, and several matrices one ``out`` folder.

A project is an ``out`` folder. It marks its images in the engine with a tag of its own, because every project
of an engine can see tags, and an engine keeps an image as long as it has one.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from stackwright.host.files import draft_of, held, replace_file

MARKS = "stackwright-users"
"""Repository of the marks: MARKS/PROJECT:NAME."""

PROJECT_FILE, MATRIX_FILE = ".project", ".matrix"
_PROJECT = re.compile(r"(?P<id>[0-9a-f]{12}) (?P<inode>\d{1,20})\n")
_MARK = re.compile(rf"{MARKS}/(?P<id>[0-9a-f]{{12}}):.+")
_LONGEST_TAG = 128


def project_id(out: Path) -> str:
    """Return the id of the project. It stays when the folder is moved; a copy of the folder has its own.

    A copy of the file has another inode, and so does not hold the id of the copied project.
    """
    path = out / PROJECT_FILE
    with held(out / f"{PROJECT_FILE}.lock", lambda: None):
        known = _read(path)
        if known is None:
            known = secrets.token_hex(6)
            with draft_of(path) as draft:
                draft.touch()
                draft.write_text(f"{known} {_inode(draft)}\n", encoding="ascii")
    return known


def _read(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    match = _PROJECT.fullmatch(text)
    return match["id"] if match and int(match["inode"]) == _inode(path) else None


def _inode(path: Path) -> int:
    return path.stat().st_ino


def mark(project: str, reference: str) -> str:
    """Return the tag by which a project says that it uses an image."""
    name = re.sub(r"[/:]", "-", reference.removeprefix("stackwright/"))
    return f"{MARKS}/{project}:{name[-_LONGEST_TAG:].lstrip('.-')}"


def marked_by(tags: Iterable[str]) -> frozenset[str]:
    """Return the projects whose marks are among an image's tags."""
    return frozenset(match["id"] for tag in tags if (match := _MARK.fullmatch(tag)))


def note_matrix(folder: Path, matrix: Path, out: Path) -> None:
    """Note in the folder of a row's key that this matrix has made it. The caller holds the row's lock."""
    known, name = matrices(folder), _relative(matrix, out)
    if name not in known:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / MATRIX_FILE, "".join(f"{line}\n" for line in sorted({*known, name})).encode())


def matrices(folder: Path) -> frozenset[str]:
    """Return the matrices that have made what is in this folder; none where that is not known."""
    try:
        text = (folder / MATRIX_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(text.splitlines())


def is_of(folder: Path, matrix: Path, out: Path) -> bool:
    return _relative(matrix, out) in matrices(folder)


def _relative(matrix: Path, out: Path) -> str:
    """Return a relative name, so that a project that is moved as a whole keeps its matrices."""
    return os.path.relpath(matrix, out.parent)
