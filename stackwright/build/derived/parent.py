"""The row that an image was made of: of the matrix where that makes the same key, else of the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stackwright.build.derived.examine import Labelled
from stackwright.core.checks.differences import distributions, packages
from stackwright.core.checks.tables.declared import UNLOCKED
from stackwright.core.errors import LockError, UsageError
from stackwright.core.facts import distributions as systems
from stackwright.core.ledger.entry import Kind, Tree
from stackwright.core.model.row import Lock, Package, Recipe
from stackwright.core.render import labelled
from stackwright.core.render.own_files import places
from stackwright.core.resolve import lockfile
from stackwright.host.project import Planned, Project

NOT_JUDGED: Mapping[str, str] = {
    "static.stack-label": "the row was read from this label",
    "static.labels": "the matrix here does not make this key",
}
"""Checks that compare with what the matrix renders, where the row is known from the image's labels alone."""
WITHOUT_LOCK = "neither the lock nor the parent's layers are here: only the parent's lock says what it has"
OF_THE_LOCK = ("declared.packages", "declared.distribution", "compiled.against")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """``known`` says from where; ``not_judged`` are checks that this leaves nothing to judge by, and why."""

    planned: Planned
    known: str
    not_judged: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What reads an image, where its label does not say enough of the row.

    ``below`` reads the parent's files from the image's lower layers, if they are known, ``whole`` all files.
    ``own`` returns those that our last step puts into an image, given their places.
    """

    below: Callable[[], Tree | None]
    whole: Callable[[], Tree]
    own: Callable[[Mapping[str, str]], Mapping[str, bytes]]


def find(project: Project, rows: Sequence[Planned], image: Labelled, inside: Inside) -> Parent:
    """Return the row as it was when the image was built. UsageError where the labels cannot be read."""
    exact = next((row for row in rows if (row.stack.id, row.recipe.key) == (image.row, image.key)), None)
    if exact is not None:
        return Parent(planned=exact, known="the matrix, which makes this key", not_judged={})
    try:
        lock, known = _lock(project, image, inside.below)
        copied = _copied(inside.below() or inside.whole()) if labelled.copies(image.labels) else {}
        stack = labelled.stack_of(image.labels, lock, copied)
    except (ValueError, LookupError) as error:
        cause = f"its label of the row cannot be read: {error}"
        raise UsageError(cause, place=image.image, hint="use the release that built it") from error
    without = dict.fromkeys(OF_THE_LOCK, WITHOUT_LOCK) if not lock.packages else {}
    recipe = Recipe(id=image.row, key=image.key, files=tuple(inside.own(places(stack)).items()))
    planned = Planned(stack=stack, recipe=recipe)
    return Parent(planned=planned, known=known, not_judged={**NOT_JUDGED, **without})


def _copied(tree: Tree) -> dict[str, str]:
    """Return the SHA-256 of each file: a label has the digest of a folder, and not what is in it."""
    return {path: entry.sha256 for path, entry in tree.entries.items() if entry.kind is Kind.FILE}


def _lock(project: Project, image: Labelled, below: Callable[[], Tree | None]) -> tuple[Lock, str]:
    wanted = labelled.lock_of(image.labels)
    for path in sorted(project.locks.glob("*.txt")):
        if (found := _read(path)) and found.sha256 == wanted:
            return found, f"its labels, and {path.name}, the lock that they name"
    system = systems.known(labelled.base_of(image.labels, "").os)
    base = labelled.base_of(image.labels, system.suite)
    empty = Lock(row=image.row, request="", base=base, packages=(), text="", sha256=wanted)
    tree = below()
    if tree is None:
        return empty, "its labels alone"
    locked = tuple(
        Package(name=name, version=version)
        for name, version in distributions(tree).items()
        if name not in UNLOCKED and " " not in version
    )
    named = tuple(Package(name=name, version=version) for name, version in packages(tree).items())
    return replace(
        empty, packages=locked, base=replace(base, packages=named)
    ), "its labels and its lower layers"


def _read(path: Path) -> Lock | None:
    try:
        return lockfile.read(path)
    except LockError:
        return None
