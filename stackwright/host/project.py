"""Where things are, and the pure stages run over the project's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackwright.core.components.table import FILES, PATCHED, TEMPLATES
from stackwright.core.config import expand, load
from stackwright.core.errors import UsageError
from stackwright.core.facts import patches
from stackwright.core.model.row import Cell, Lock, Notice, Recipe, Rejection, Stack
from stackwright.core.render import dockerfile
from stackwright.core.render.sources import Sources
from stackwright.core.resolve import lockfile, resolve
from stackwright.host import owners
from stackwright.host.shipped import IN_CHECKOUT, ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """``root`` holds the templates, patches, probes and locks; everything made goes below ``out``."""

    root: Path
    matrix: Path
    out: Path

    @property
    def own(self) -> bool:
        """Whether the matrix is in a repository of one's own, and not in the checkout of Stackwright."""
        return self.matrix.parent != self.root

    @property
    def locks(self) -> Path:
        """Locks are in `locks/` next to their matrix."""
        return self.matrix.parent / "locks"

    @property
    def records(self) -> Path:
        return self.out / "records"

    @property
    def room(self) -> Path:
        """What conversions have claimed of the disk."""
        return self.out / "room"

    @property
    def id(self) -> str:
        """What this project is called in an engine that others use too."""
        return owners.project_id(self.out)

    def note(self, recipe: Recipe) -> None:
        """Note that this matrix makes the row. The caller holds the row's lock."""
        owners.note_matrix(self.folder(recipe), self.matrix, self.out)

    def folder(self, recipe: Recipe) -> Path:
        return self.out / recipe.id / recipe.key[:12]

    def lock_path(self, cell: Cell) -> Path:
        return self.locks / f"{cell.id}.txt"


VARIABLE = "STACKWRIGHT_MATRIX"
MATRIX = "matrix.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    matrix: Path
    out: Path


def places(
    matrix: Path | None, out: Path | None, environ: Mapping[str, str], here: Path | None = None
) -> Places:
    """Return where the matrix is and where everything made goes.

    The matrix is the one that is named, else the variable's, else the one in the folder ``here``, else the
    checkout's own. What is made of a matrix in ``here`` goes below it; a checkout keeps everything else.
    """
    here = here or Path.cwd()
    named = matrix or (Path(environ[VARIABLE]) if environ.get(VARIABLE) else None)
    own = here / MATRIX
    found = named or (own if own.is_file() or not IN_CHECKOUT else ROOT / MATRIX)
    beside = ROOT if IN_CHECKOUT and found != own else found.parent
    return Places(matrix=found, out=out or beside / "out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    stack: Stack
    recipe: Recipe
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rows: tuple[Planned, ...]
    rejections: tuple[Rejection, ...]


def cells(project: Project, rows: Sequence[str] = (), where: Sequence[str] = ()) -> tuple[Cell, ...]:
    """Return the rows of the matrix that are asked for: all of them if nothing is."""
    every = expand.expand(load.load(project.matrix))
    return expand.select(every, rows, where) if rows or where else every


def default_rows(project: Project) -> tuple[str, ...]:
    """Return the patterns of the matrix' own ``select``, which ``run`` takes when nothing is named."""
    return load.load(project.matrix).select


def sources(project: Project) -> Sources:
    """Return the project's own files that end up in a context."""
    series = patches.load_series(project.root / "patches" / PATCHED.name)
    return Sources.load(project.root, series, project.matrix.name, files=FILES, templates=TEMPLATES)


def plan(project: Project, wanted: Sequence[Cell], locks: Mapping[str, Lock] | None = None) -> Plan:
    """Resolve and render every wanted row. Reads files; needs no network and no engine.

    ``locks``, by row, take the place of the project's files.
    """
    found = sources(project)
    stacks: list[tuple[Stack, tuple[Notice, ...]]] = []
    rejections: list[Rejection] = []
    for cell in wanted:
        known = _read_lock(project, cell) if locks is None else locks.get(cell.id)
        answer = resolve.resolve(cell, known, found.series)
        if isinstance(answer, Rejection):
            rejections.append(answer)
        else:
            stacks.append((answer, resolve.notices(cell, known)))
    rows = tuple(
        Planned(stack=stack, recipe=dockerfile.render(stack, found), notices=notices)
        for stack, notices in stacks
    )
    return Plan(rows=rows, rejections=resolve.suggest(rejections, [stack for stack, _ in stacks], wanted))


def _read_lock(project: Project, cell: Cell) -> Lock | None:
    path = project.lock_path(cell)
    return lockfile.read(path) if path.exists() else None


def require_rows(planned: Plan) -> None:
    """Raise UsageError when nothing is left to work on."""
    if not planned.rows and not planned.rejections:
        raise UsageError("no row is selected", hint="./build.py plan lists the rows")
