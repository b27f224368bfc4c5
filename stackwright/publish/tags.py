"""Tags from the templates of ``matrix.yaml``. Pure: what cannot be a tag is found before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from stackwright.core.errors import MatrixError
from stackwright.core.model.matrix import Publish
from stackwright.core.model.site import REPOSITORY

TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""OCI distribution-spec 1.1, "Pulling manifests"."""

PLACEHOLDER = re.compile(r"\{(row|date|key)(?::\.([0-9]{1,2}))?\}")
SIF_SUFFIX = ".sif"
"""Of the tags of a row's SIF, which lies in the same repository as its image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """``fixed`` tags come first; ``moving`` ones were another image's yesterday."""

    repository: str
    fixed: tuple[str, ...]
    moving: tuple[str, ...]


def named(scheme: Publish, base: str, row: str, key: str, day: date, *, sif: bool = False) -> Named:
    """Where a row goes below ``base``, the repository of the site. MatrixError for what no registry takes."""
    values = {"row": row, "date": day.strftime("%Y%m%d"), "key": key}
    suffix = SIF_SUFFIX if sif else ""
    below = _expanded(scheme.repository, values)
    repository = "/".join(part for part in (base, below) if part)
    if not REPOSITORY.fullmatch(repository):
        hint = "lower-case letters, digits and single separators; see publish.repository of the matrix"
        raise MatrixError(f"{repository!r} cannot be the name of a repository", place=row, hint=hint)
    return Named(
        repository=repository,
        fixed=tuple(_tag(template, values, suffix) for template in scheme.tags),
        moving=tuple(_tag(template, values, suffix) for template in scheme.moving),
    )


def refuse_shared(named_rows: Iterable[tuple[str, Named]]) -> None:
    """Raise MatrixError where two rows would get one tag: the last one would get it."""
    owners: dict[tuple[str, str], str] = {}
    for row, names in named_rows:
        for tag in (*names.fixed, *names.moving):
            owner = owners.setdefault((names.repository, tag), row)
            if owner != row:
                cause = f"{owner} and {row} would both be {names.repository}:{tag}"
                raise MatrixError(
                    cause, place="publish", hint="write {row} into the tag, or into 'repository'"
                )


def refuse_indexes(scheme: Publish, named_rows: Iterable[tuple[str, Named]]) -> None:
    """Raise MatrixError where a tag for several rows is not possible, or leads to something else as well."""
    owners = [("all rows", scheme.set)] if scheme.set else []
    owners += [(f"the platforms of {group.rows[0]}", group.tag) for group in scheme.platforms]
    if not owners:
        return
    if scheme.repository:
        key = "set" if scheme.set else "platforms"
        hint = f"leave out 'repository', or {key!r}"
        raise MatrixError(f"{key!r} needs one repository for all rows", place="publish", hint=hint)
    rows = ((row, tag) for row, names in named_rows for tag in (*names.fixed, *names.moving))
    known: dict[str, str] = {}
    for owner, tag in (*rows, *owners):
        other = known.setdefault(tag, owner)
        if other != owner:
            cause = f"{tag!r} is a tag of {other}, and of {owner}"
            raise MatrixError(cause, place="publish", hint=f"write another tag for {owner}")


def _tag(template: str, values: dict[str, str], suffix: str) -> str:
    text = _expanded(template, values) + suffix
    if not TAG.fullmatch(text):
        hint = "letters, digits, '_', '.' and '-', at most 128, and the first no '.' or '-'"
        raise MatrixError(f"{text!r} cannot be a tag", place=values["row"], hint=hint)
    return text


def _expanded(template: str, values: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        return values[found[1]][: int(found[2])] if found[2] else values[found[1]]

    return PLACEHOLDER.sub(value, template)
