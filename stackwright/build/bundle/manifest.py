"""The manifest of a bundle: rows, base images, and every member with its hash. It may be hostile."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError

from stackwright.core.errors import BundleError

NAME = "manifest.json"
PACKAGES, PYTHON, BASES, CONTEXTS = "packages", "python", "base", "context"
"""Folders of a bundle: what mirrors gave, by the distribution; what indexes gave, by the project; images that
a build starts from; and the contexts that were built, with their patches."""

AGAIN = "make the bundle again, or copy it again"

_PART = re.compile(r"[A-Za-z0-9._@+~%:=!,^-]{1,200}", re.ASCII)


def is_path(text: str) -> bool:
    """Return whether it names a member: relative, with plain characters, and it leaves no folder."""
    parts = text.split("/")
    plain = all(_PART.fullmatch(part) and part.strip(".") for part in parts)
    return plain and len(parts) > 1 and parts[0] in (PACKAGES, PYTHON, BASES, CONTEXTS)


def _path(text: str) -> str:
    if not is_path(text):
        raise ValueError(f"not a path in a bundle: {text[:80]!r}")
    return text


MemberPath = Annotated[str, AfterValidator(_path)]
Hex = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{64}\z")]
Digest = Annotated[str, StringConstraints(pattern=r"\Asha256:[0-9a-f]{64}\z")]
Name = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\z")]
Argument = Annotated[str, StringConstraints(pattern=r"\A[A-Z]{1,20}_IMAGE\z")]
ImageName = Annotated[
    str,
    StringConstraints(pattern=r"\A[a-z0-9][a-z0-9._/-]{0,200}:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\z"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An image that a build starts from: ``argument`` of the build, and its layers, as digests of what is
    unpacked."""

    argument: Argument
    name: ImageName
    path: MemberPath
    layers: tuple[Digest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledRow:
    """``layers`` are those of the image that was built while the bundle was made. ``ca``: whether its steps
    were given certificates. A step that gets some has the folder of their mount in its layer."""

    row: Name
    key: Hex
    bases: tuple[Base, ...]
    layers: tuple[Digest, ...]
    ca: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    path: MemberPath
    sha256: Hex
    bytes: Annotated[int, Field(ge=0, le=2**40)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    rows: tuple[BundledRow, ...]
    members: tuple[Member, ...]
    version: Literal[1] = 1

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members)

    def count(self, folder: str) -> tuple[int, int]:
        """Return how many members a folder has, and their bytes."""
        found = [member.bytes for member in self.members if member.path.startswith(f"{folder}/")]
        return len(found), sum(found)


_MANIFEST = TypeAdapter(Manifest)


def write(manifest: Manifest) -> bytes:
    """Return the manifest as it is in the file: the same members give the same bytes."""
    return _MANIFEST.dump_json(manifest, indent=1) + b"\n"


def read(content: bytes, place: str) -> Manifest:
    """Raise BundleError where it is none, or contradicts itself."""
    try:
        manifest = _MANIFEST.validate_json(content, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        where = ".".join(map(str, found["loc"]))
        cause = f"its manifest is not one: {where or 'the whole'}: {found['msg']}"
        raise BundleError(cause, place=place, hint=AGAIN) from error
    if cause := _contradiction(manifest):
        raise BundleError(f"its manifest contradicts itself: {cause}", place=place, hint=AGAIN)
    return manifest


def _contradiction(manifest: Manifest) -> str:
    paths = [member.path for member in manifest.members]
    bases = {base.path for row in manifest.rows for base in row.bases}
    if twice := _twice(paths):
        return f"{twice} is in it twice"
    if twice := _twice(row.row for row in manifest.rows):
        return f"the row {twice} is in it twice"
    if absent := sorted(bases - set(paths)):
        return f"{absent[0]} is a base, and no member"
    return "" if manifest.rows else "it names no row"


def _twice(names: Iterable[str]) -> str:
    return next((name for name, number in Counter(names).items() if number > 1), "")
