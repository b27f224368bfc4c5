"""The lists of an image, opened: who owns which name. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stackwright.core.ledger import debian, wheels
from stackwright.core.ledger.debian import Distribution
from stackwright.core.ledger.declared import EXPECTED, OF_A_DEFINITION, OF_A_SIF, Expected
from stackwright.core.ledger.entry import Entry, Kind, Tree
from stackwright.core.ledger.wheels import Listed
from stackwright.core.model.row import World
from stackwright.core.model.target import AMD64, Platform

BY_WORLD = {
    World.DOCKER: EXPECTED,
    World.SIF: (*EXPECTED, *OF_A_SIF),
    World.DEFINITION: (*EXPECTED, *OF_A_SIF, *OF_A_DEFINITION),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the ledger has to know of the row. ``files``: paths in the image to the SHA-256 of what our steps
    put there. ``benchmarks``: those that it has."""

    gcc: str
    world: World = World.DOCKER
    platform: Platform = AMD64
    files: Mapping[str, str] = field(default_factory=dict)
    benchmarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    tree: Tree
    distribution: Distribution
    wheels: Mapping[str, Listed]
    links: Mapping[str, debian.Choice]
    """Of update-alternatives: the name in the system, and that in /etc/alternatives."""
    names: Mapping[str, Mapping[int, str]]
    """Of users and of groups, by their number."""
    inhabited: frozenset[str]
    """Folders that something is in which belongs to the image."""
    row: Row


def open_books(tree: Tree, row: Row) -> Books:
    distribution, listed = debian.read(tree), wheels.read(tree.texts)
    links: dict[str, debian.Choice] = {}
    for choice in distribution.choices:
        links[debian.real_path(tree, choice.link)] = choice
        links[f"/etc/alternatives/{choice.name}"] = choice
    names = {name: _names(tree.texts.get(f"/etc/{name}", "")) for name in ("passwd", "group")}
    books = Books(
        tree=tree, distribution=distribution, wheels=listed, links=links, names=names, inhabited=frozenset(),
        row=row,
    )  # fmt: skip
    inhabited = {"/"}
    for entry in tree.entries.values():
        path = entry.path
        if entry.kind is not Kind.FOLDER and owner(entry, books) is not None:
            while (path := posixpath.dirname(path)) not in inhabited:
                inhabited.add(path)
    return replace(books, inhabited=frozenset(inhabited))


def _names(text: str) -> Mapping[int, str]:
    lines = (line.split(":") for line in text.splitlines())
    found: dict[int, str] = {}
    for line in lines:
        if len(line) > 3 and line[2].isdecimal():
            found.setdefault(int(line[2]), line[0])
    return found


def owner(entry: Entry, books: Books) -> str | None:
    """The owner's kind and name, by the path alone. None: it belongs to nothing."""
    path = entry.path
    if (found := _listed(path, books)) is not None:
        return found
    if path in books.links:
        return "alternative"
    if path in books.row.files or expected(entry, books):
        return "declared"
    return "folder" if entry.kind is Kind.FOLDER and path in books.inhabited else None


def _listed(path: str, books: Books) -> str | None:
    if (owned := books.distribution.owned.get(path)) is not None:
        return f"package {min(owned.packages)}"
    if (listed := books.wheels.get(path)) is not None:
        return f"wheel {min(listed.wheels)}"
    source = wheels.source_of(path) or ""
    if source in books.wheels:
        return f"byte-code {min(books.wheels[source].wheels)}"
    if source in books.distribution.owned:
        return f"byte-code {min(books.distribution.owned[source].packages)}"
    return None


def expected(entry: Entry, books: Books) -> tuple[Expected, re.Match[str]] | None:
    for declared in BY_WORLD[books.row.world]:
        if declared.of and declared.of not in (*books.row.benchmarks, *books.distribution.packages):
            continue
        if declared.kind is entry.kind and (match := declared.path.fullmatch(entry.path)):
            package = match.groupdict().get("package")
            if package is None or package in books.distribution.packages or package == "format":
                return declared, match
    return None
