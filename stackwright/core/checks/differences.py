"""What an image has otherwise than the one that it was built FROM: distributions, packages, files. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stackwright.core.checks.tables.declared import normal
from stackwright.core.ledger.books import Row, open_books, owner
from stackwright.core.ledger.debian import STATUS
from stackwright.core.ledger.entry import Entry, Kind, Tree

DISTRIBUTION = re.compile(r"(?P<site>.*)/(?P<name>[^/~][^/]*?)-(?P<version>[^/-]+)\.(dist|egg)-info")
OF_PACKAGES = "/usr/lib/"
"""Where the distribution's packages have their own Python: dpkg tells about those."""
ENVIRONMENT = re.compile(r"/opt/stack/lib/python3\.\d+/site-packages")
INSTALLED = re.compile(r"^Status: .* installed$", re.MULTILINE)
FIELD = re.compile(r"^(Package|Version): *(\S+)$", re.MULTILINE)
STEPS = "the row's own steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A distribution or a package; a version is empty where it is not there."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        if not self.before:
            return f"{self.name} {self.now} added"
        return (
            f"{self.name} {self.before} removed"
            if not self.now
            else f"{self.name} {self.before} → {self.now}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Files of one owner that the parent has, and that are other ones now, or gone."""

    owner: str
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.changed) + len(self.gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """``files`` is None where the parent's files are not known: a SIF has no layers."""

    python: tuple[Moved, ...] = ()
    packages: tuple[Moved, ...] = ()
    files: tuple[Touched, ...] | None = None


def between(before: Tree, now: Tree, row: Row) -> Differences:
    """Compare an image with what its lower layers are alone."""
    return Differences(
        python=moved(distributions(before), distributions(now)),
        packages=moved(packages(before), packages(now)),
        files=tuple(_touched(before, now, row)),
    )


def moved(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Moved, ...]:
    """Return the names whose versions differ."""
    return tuple(
        Moved(name=name, before=before.get(name, ""), now=now.get(name, ""))
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    )


def distributions(tree: Tree) -> dict[str, str]:
    """Return Python's distributions by name, with the folder of those that are outside the environment."""
    found: dict[str, set[str]] = {}
    for path in _metadata(tree.entries):
        match = DISTRIBUTION.fullmatch(path)
        if match and not path.startswith(OF_PACKAGES):
            outside = "" if ENVIRONMENT.fullmatch(match["site"]) else f" in {match['site']}"
            found.setdefault(normal(match["name"]), set()).add(match["version"] + outside)
    return {name: " and ".join(sorted(versions)) for name, versions in found.items()}


def _metadata(paths: Iterable[str]) -> Iterator[str]:
    """Yield the folders of metadata: the folder that an uninstalled distribution leaves has no such file."""
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name in ("METADATA", "PKG-INFO", "RECORD"):
            yield folder


def packages(tree: Tree) -> dict[str, str]:
    """Return the distribution's installed packages with their versions."""
    found = {}
    for paragraph in tree.texts.get(STATUS, "").split("\n\n"):
        fields = dict(FIELD.findall(paragraph))
        if INSTALLED.search(paragraph) and len(fields) == 2:
            found[fields["Package"]] = fields["Version"]
    return found


def _touched(before: Tree, now: Tree, row: Row) -> Iterator[Touched]:
    """Yield owners with the most files first."""
    books = open_books(before, row)
    found: dict[str, tuple[list[str], list[str]]] = {}
    for path, entry in before.entries.items():
        there = now.entries.get(path)
        if _same(entry, there) if there else entry.kind is Kind.FOLDER:  # its files tell
            continue
        changed, gone = found.setdefault(_named(owner(entry, books)), ([], []))
        (gone if there is None else changed).append(path)
    ordered = sorted(found.items(), key=lambda item: (-sum(map(len, item[1])), item[0]))
    for who, (changed, gone) in ordered:
        yield Touched(owner=who, changed=tuple(sorted(changed)), gone=tuple(sorted(gone)))


def _same(entry: Entry, other: Entry) -> bool:
    """But for the time: a folder gets another one with each new name in it."""
    return (entry.kind, entry.mode, entry.uid, entry.gid, entry.sha256, entry.target, entry.capability) == (
        other.kind, other.mode, other.uid, other.gid, other.sha256, other.target, other.capability
    )  # fmt: skip


def _named(who: str | None) -> str:
    """Name the wheel or the package; byte code is of the wheel that has its source."""
    kind, _, name = (who or "").partition(" ")
    return name if kind in ("wheel", "byte-code", "package") and name else STEPS


def layers_below(names: Iterable[Iterable[Entry]], most_added: int) -> int:
    """Return how many layers are the parent's: at least up to the one that has the row in a file.

    ``most_added``: instructions since then that may have made a layer. One that wrote nothing has none.
    """
    layers = [tuple(entries) for entries in names]
    rows = [number for number, entries in enumerate(layers, start=1) if any(map(_is_row_file, entries))]
    return max(rows[0] if rows else 0, len(layers) - most_added) if rows else 0


def _is_row_file(entry: Entry) -> bool:
    return entry.kind is Kind.FILE and entry.path == posixpath.join("/etc/stackwright", "row.json")
