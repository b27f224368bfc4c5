"""Accounts for each name of an image: whose it is, and whether it is as its owner has it. Pure.

Each name has at most one problem, of the first kind that fits.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from stackwright.core.ledger import accounts, debian, wheels
from stackwright.core.ledger.books import Books, Row, open_books, owner
from stackwright.core.ledger.declared import REMOVED, REMOVED_BY_A_DEFINITION
from stackwright.core.ledger.entry import Entry, Kind, Tree
from stackwright.core.ledger.judges import JUDGES, Problem, of_another_platform, problem
from stackwright.core.ledger.modes import odd_mode, runs_as_another
from stackwright.core.model.row import World


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
    owned: dict[str, list[Entry]] = {}
    for entry in tree.entries.values():
        who, wrong = _judged(entry, books)
        wrong = wrong or odd_mode(entry, books)
        found += [replace(wrong, owner=who)] if wrong else []
        owners[who.partition(" ")[0]] += 1
        owned.setdefault(who, []).append(entry)
    found += _missing(books)
    found += _two_steps(books, {known.path for known in found})
    named = {known.path for known in found}
    found += [wrong for wrong in of_another_platform(owned, row.platform) if wrong.path not in named]
    found += [Problem(kind="accounts", path=path, what=what) for path, what in accounts.problems(tree)]
    digests = {who: _digest(map(_line, entries)) for who, entries in owned.items()}
    return Account(
        problems=tuple(sorted(found, key=lambda known: (known.kind, known.path))),
        owners=owners,
        parts=digests,
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
    for path in books.row.files.keys() - books.tree.entries.keys():
        yield Problem(
            kind="declared", path=path, what="is missing, which a step puts there", owner="declared"
        )
    removed = (*REMOVED, *REMOVED_BY_A_DEFINITION) if books.row.world is World.DEFINITION else REMOVED
    there, left_out = books.tree.entries, (*removed, *books.distribution.left_out)
    for path, owned in books.distribution.owned.items():
        if path not in there and not debian.is_left_out(path, left_out):
            who = min(owned.packages)
            yield Problem(kind="packages", path=path, what=f"of {who} is missing", owner=f"package {who}")
    for package in books.distribution.unlisted:
        yield Problem(kind="packages", path=debian.INFO, what=f"has no list of the files of {package}")
    for path, listed in books.wheels.items():
        if path not in there and not wheels.source_of(path):
            who = min(listed.wheels)
            yield Problem(kind="wheels", path=path, what=f"of {who} is missing", owner=f"wheel {who}")


def _two_steps(books: Books, named: set[str]) -> Iterator[Problem]:
    """Files of another layer than the others of their package or wheel: each is written by one step.

    This finds a file that was changed together with its list, and byte code that says the hash of its source
    and does something else. In a SIF there are no layers.
    """
    for kind, who, paths in _listings(books):
        there = [
            entry for path in paths
            if (entry := books.tree.entries.get(path)) and entry.layer and entry.kind is not Kind.FOLDER
        ]  # fmt: skip
        layers = Counter(entry.layer for entry in there).most_common(1)
        for entry in there:
            source = books.tree.entries.get(wheels.source_of(entry.path) or "")
            of_source = source is not None and source.layer == entry.layer  # which is named then
            if entry.layer != layers[0][0] and entry.path not in named and not of_source:
                what = "byte-code" if source else kind
                yield problem(what, entry, f"is of another step than the other files of {who}")


def _listings(books: Books) -> Iterator[tuple[str, str, list[str]]]:
    """Of each package and each wheel: the kind of a problem, its name, its list and what is on no other."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for path, owned in books.distribution.owned.items():
        if len(set(owned.packages)) == 1:
            key = ("packages", owned.packages[0], books.distribution.lists[owned.packages[0]])
            found.setdefault(key, []).append(path)
    for path in (*books.wheels, *books.tree.entries):
        listed = books.wheels.get(path) or books.wheels.get(wheels.source_of(path) or "")
        if listed is not None and len(set(listed.wheels)) == 1:
            found.setdefault(("wheels", listed.wheels[0], listed.lists[0]), []).append(path)
    for (kind, who, record), paths in found.items():
        yield kind, who, list(dict.fromkeys((record, *paths)))
