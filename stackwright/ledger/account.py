"""Accounts for each name of an image: whose it is, and whether it is as its owner has it. Pure.

Each name has at most one problem, of the first kind that fits.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from stackwright.ledger import accounts, debian, wheels
from stackwright.ledger.books import Books, Row, open_books, owner
from stackwright.ledger.entry import Entry, Kind, Tree
from stackwright.ledger.judges import JUDGES, Problem, problem
from stackwright.ledger.modes import odd_mode, runs_as_another

REMOVED = ("/var/log/apt", "/var/log/apt/*")
"""What our steps take away of packages: logs of the build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """``owners`` counts names by whose they are; ``parts`` has a digest of the files of each owner."""

    problems: tuple[Problem, ...]
    owners: Mapping[str, int]
    parts: Mapping[str, str]


def account(tree: Tree, row: Row) -> Account:
    books = open_books(tree, row)
    found: list[Problem] = []
    owners: Counter[str] = Counter()
    parts: dict[str, list[str]] = {}
    for entry in tree.entries.values():
        who, wrong = _judged(entry, books)
        wrong = wrong or odd_mode(entry, books)
        found += [replace(wrong, owner=who)] if wrong else []
        owners[who.partition(" ")[0]] += 1
        parts.setdefault(who, []).append(_line(entry))
    found += _missing(books)
    found += _two_layers(books, {one.path for one in found})
    found += [Problem(kind="accounts", path=path, what=what) for path, what in accounts.problems(tree)]
    digests = {who: _digest(lines) for who, lines in parts.items()}
    return Account(
        problems=tuple(sorted(found, key=lambda one: (one.kind, one.path))), owners=owners, parts=digests
    )


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def _line(entry: Entry) -> str:
    """What makes two files the same: all but the times, and the sizes of folders."""
    words = (entry.path, entry.kind, f"{entry.mode:o}", entry.uid, entry.gid, entry.sha256 or entry.target)
    return " ".join(map(str, words)) + (" capability" if entry.capability else "")


def _judged(entry: Entry, books: Books) -> tuple[str, Problem | None]:
    who = owner(entry, books)
    if who is None:
        dangerous = odd_mode(entry, books) if runs_as_another(entry) else None
        return "nothing", dangerous or problem("undeclared", entry, "belongs to nothing")
    kind = who.partition(" ")[0]
    return who, JUDGES[kind](entry, books) if kind in JUDGES else None


# -- what is not there, or not where it was ---------------------------------------------------------


def _missing(books: Books) -> Iterator[Problem]:
    there = books.tree.entries
    for path, owned in books.distribution.owned.items():
        if (
            path not in there
            and path != "/var/log/apt"
            and not debian.is_left_out(path, books.distribution.left_out)
        ):
            yield Problem(kind="packages", path=path, what=f"of {owned.packages[0]} is missing")
    for package in books.distribution.unlisted:
        yield Problem(kind="packages", path=debian.INFO, what=f"has no list of the files of {package}")
    for path, listed in books.wheels.items():
        if path not in there and not wheels.source_of(path):
            yield Problem(kind="wheels", path=path, what=f"of {listed.wheels[0]} is missing")


def _two_layers(books: Books, named: set[str]) -> Iterator[Problem]:
    """A file in another layer than the list that it is on: pip and dpkg write both at once.

    This finds a file that was changed together with its list; in a SIF there are no layers.
    """
    for path, entry in books.tree.entries.items():
        if not entry.layer or entry.kind is Kind.FOLDER or path in named:
            continue
        source = wheels.source_of(path) or path
        if (listed := books.wheels.get(path) or books.wheels.get(source)) is not None:
            kind, who, lists = "wheels", listed.wheels, listed.lists
        elif (owned := books.distribution.owned.get(path)) is not None:
            kind, who = "packages", owned.packages
            lists = tuple(books.distribution.lists[package] for package in who)
        else:
            continue
        layers = {found.layer for one in lists if (found := books.tree.entries.get(one))}
        if layers and entry.layer not in layers:
            yield Problem(kind=kind, path=path, what=f"is of a later step than the list of {who[0]}")
