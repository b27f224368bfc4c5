"""What ``matrix.yaml`` says, checked but not yet multiplied out. Lines and columns count from 1."""

from __future__ import annotations

from dataclasses import dataclass

from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.added.image import Folder, Variable
from stackwright.core.model.row import Mpi

Value = (
    str
    | bool
    | None
    | tuple[str, ...]
    | tuple[Addition, ...]
    | tuple[Variable, ...]
    | tuple[Folder, ...]
    | Folder
    | Mpi
)
"""Of one field. None was written as ``null`` and means the same as leaving the field out."""

Fields = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in the file."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry of ``include``; ``fields`` are its own, without the defaults."""

    id: str
    fields: Fields
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    field: str
    values: tuple[Value, ...]
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """One entry of ``exclude``: a row made from the axes that has all these values is dropped."""

    fields: Fields
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One entry of ``select``: the id of a row, or a glob."""

    text: str
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformTag:
    """One tag that leads each host to the row of its platform."""

    tag: str
    rows: tuple[str, ...]
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """``require``: tiers that must have passed. The others are templates: {row}, {date}, {key}, {key:.N}.

    ``repository`` is below the one of the site; empty where all rows share that one. ``set`` is one tag for
    all rows together, or empty. ``platforms`` are tags of rows for several platforms.
    """

    require: tuple[str, ...] = ("static", "link", "built", "collective")
    repository: str = ""
    tags: tuple[str, ...] = ("{row}-{date}", "{row}-{key:.12}")
    moving: tuple[str, ...] = ("{row}",)
    set: str = ""
    platforms: tuple[PlatformTag, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The whole file. Each value fullmatches the notation of its field."""

    path: str
    defaults: Fields
    axes: tuple[Axis, ...]
    include: tuple[Row, ...]
    exclude: tuple[Exclusion, ...]
    patterns: tuple[Pattern, ...]
    publish: Publish = Publish()

    @property
    def select(self) -> tuple[str, ...]:
        """The rows that a run takes when the command line names none; empty means all."""
        return tuple(pattern.text for pattern in self.patterns)
