"""One name of an image against what its owner has: each judge returns what is wrong, or None. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stackwright.core.ledger import wheels
from stackwright.core.ledger.books import Books, expected
from stackwright.core.ledger.debian import leads_to
from stackwright.core.ledger.declared import DANGLING, Expected
from stackwright.core.ledger.entry import ELF, Entry, Kind, Tree
from stackwright.core.model.target import PLATFORMS, Platform

DOCUMENTS, LICENSES = "/usr/share/doc/", "/usr/share/common-licenses/"
"""Of base-files, on which every package may rely without naming it (Debian's policy manual, 12.5)."""

DEVICES = "/dev/"
"""No name of a package is to lead there, but for what systemd is not to start."""

CHECKED_HASH = 3
"""Flags of byte code that Python compares with its source whenever it is loaded (PEP 552)."""

TIMESTAMP = 0
"""Flags of byte code that Python compares with the time and the size of its source, as the distribution's."""

MACHINE = slice(18, 20)
"""Of an ELF file, little-endian: e_machine (elf.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """``kind`` is the end of the check's id, as in ledger.packages. ``owner``: as the parts are named."""

    kind: str
    path: str
    what: str
    owner: str = ""


def problem(kind: str, entry: Entry, what: str) -> Problem:
    return Problem(kind=kind, path=entry.path, what=what)


def _of_package(entry: Entry, books: Books) -> Problem | None:
    owned = books.distribution.owned[entry.path]
    who = " and ".join(owned.packages[:3])
    if entry.kind is Kind.LINK and not owned.md5:
        return _package_link(entry, owned.packages, books)
    if entry.kind is Kind.FILE:
        if not owned.md5:
            return problem("packages", entry, f"is a file, and {who} has none of that name")
        return None if entry.md5 == owned.md5 else problem("packages", entry, f"is not as {who} has it")
    if owned.md5 or entry.kind is not Kind.FOLDER:
        return problem("packages", entry, f"is a {entry.kind}, and {who} has a file of that name")
    return None


def _package_link(entry: Entry, packages: tuple[str, ...], books: Books) -> Problem | None:
    """dpkg notes no targets: one leads into its package, into one that this needs, or to what is declared."""
    if (found := expected(entry, books)) and found[0].target and found[0].target.fullmatch(entry.target):
        return None
    target = leads_to(books.tree, entry)
    owned = books.distribution.owned.get(target)
    if owned is not None and target in books.tree.entries:
        needed = {name for package in packages for name in _needed(package, books)}
        near = {*packages, *needed, *(name for package in needed for name in _needed(package, books))}
        right = not near.isdisjoint(owned.packages) or _of_licence(entry, target)
    elif (there := books.tree.entries.get(target)) is not None:
        right = target in books.links or expected(there, books) is not None
        right = right and (not target.startswith(DEVICES) or _dangles(entry))
    else:
        right = _dangles(entry)
    who = " and ".join(packages[:3])
    return None if right else problem("links", entry, f"of {who} leads to {entry.target}")


def _of_licence(entry: Entry, target: str) -> bool:
    return entry.path.startswith(DOCUMENTS) and target.startswith(LICENSES)


def _dangles(entry: Entry) -> bool:
    return any(pattern.fullmatch(entry.path) for pattern, _ in DANGLING)


def _needed(package: str, books: Books) -> Iterator[str]:
    found = books.distribution.packages.get(package)
    for name in found.needs if found else ():
        yield name
        yield from books.distribution.providers.get(name, ())


def _of_wheel(entry: Entry, books: Books) -> Problem | None:
    listed = books.wheels[entry.path]
    who = " and ".join(dict.fromkeys(listed.wheels))
    if entry.kind is not Kind.FILE:
        return problem("wheels", entry, f"is a {entry.kind}, and {who} has a file of that name")
    if wheels.WITHOUT_HASH.fullmatch(entry.path):
        return _byte_code(entry, books) if wheels.source_of(entry.path) else None
    if not any(listed.sha256):
        return problem("wheels", entry, f"is listed by {who} without a hash")
    return None if entry.sha256 in listed.sha256 else problem("wheels", entry, f"is not as {who} has it")


def _file(books: Books, path: str) -> Entry | None:
    """What is there; of a link what it leads to."""
    found = books.tree.entries.get(path)
    return books.tree.entries.get(leads_to(books.tree, found)) if found and found.kind is Kind.LINK else found


def _byte_code(entry: Entry, books: Books) -> Problem | None:
    """Byte code of a source that is not as its owner has it is no problem of its own."""
    path = wheels.source_of(entry.path) or ""
    source, wheel = _file(books, path), books.wheels.get(path)
    package = books.distribution.owned.get(path)
    if entry.kind is not Kind.FILE:
        return problem("byte-code", entry, f"is a {entry.kind}")
    if source is None or not (wheel or package):
        return problem("byte-code", entry, "has no source that belongs to the image")
    owned = books.distribution.owned.get(source.path)
    changed = source.sha256 not in wheel.sha256 if wheel else owned and source.md5 != owned.md5
    if changed:
        return None
    flags = int.from_bytes(entry.begin[4:8], "little")
    if flags == CHECKED_HASH:
        right = not source.source_hash or entry.begin[8:16] == source.source_hash
        right = right or source.layer != entry.layer  # one of both is named for that
        return None if right else problem("byte-code", entry, "is not of the source next to it")
    if flags == TIMESTAMP and package and not wheel:
        made_of = (source.mtime % 2**32).to_bytes(4, "little") + (source.size % 2**32).to_bytes(4, "little")
        return (
            None if entry.begin[8:16] == made_of else problem("byte-code", entry, "is older than its source")
        )
    return problem("byte-code", entry, "is loaded without a look at the content of its source")


def _alternative(entry: Entry, books: Books) -> Problem | None:
    choice = books.links[entry.path]
    if entry.path.startswith("/etc/alternatives/"):
        owned = leads_to(books.tree, entry) in books.distribution.owned
        right = entry.kind is Kind.LINK and entry.target in choice.paths and owned
    else:
        right = entry.kind is Kind.LINK and entry.target == f"/etc/alternatives/{choice.name}"
    what = f"leads to {entry.target}" if entry.kind is Kind.LINK else f"is a {entry.kind}"
    return None if right else problem("links", entry, f"of update-alternatives {what}")


def _declared(entry: Entry, books: Books) -> Problem | None:
    if entry.path in books.row.files:
        right = entry.sha256 == books.row.files[entry.path]
        return None if right else problem("declared", entry, "is not what our step puts there")
    found = expected(entry, books)
    assert found is not None, "it is the owner"
    declared, match = found
    if declared.target is not None:
        wanted = declared.target.pattern.replace("GCC", re.escape(books.row.gcc))
        leads = re.fullmatch(wanted, entry.target)
        return None if leads else problem("links", entry, f"leads to {entry.target}")
    return _content(entry, declared, match, books)


def _content(entry: Entry, declared: Expected, match: re.Match[str], books: Books) -> Problem | None:
    tree = books.tree
    if declared.copy_of:
        origin = match.expand(declared.copy_of)
        return (
            None
            if _is_copy(entry, declared, origin, tree)
            else problem("declared", entry, f"is no copy of {origin}")
        )
    if declared.line is not None:
        lines = tree.texts.get(entry.path, "\0").splitlines()
        odd = [line for line in lines if not declared.line.fullmatch(line)]
        return problem("declared", entry, f"has {len(odd)} lines that no step writes") if odd else None
    if declared.like:
        pattern = re.compile(
            r"/usr/lib/python3\.\d+/venv/scripts/\w+/" + re.escape(match.expand(declared.like))
        )
        texts = (text for path, text in tree.texts.items() if pattern.fullmatch(path))
        right = any(_fits(template, tree.texts.get(entry.path, "")) for template in texts)
        return None if right else problem("declared", entry, "is not as venv makes it")
    return None


def _is_copy(entry: Entry, declared: Expected, origin: str, tree: Tree) -> bool:
    if declared.changed is None:
        return (there := tree.entries.get(origin)) is not None and there.sha256 == entry.sha256
    pattern, instead = declared.changed
    wanted = pattern.sub(instead, tree.texts.get(origin, "\0")).encode(errors="surrogateescape")
    return hashlib.sha256(wanted).hexdigest() == entry.sha256


def _fits(template: str, text: str) -> bool:
    """With the environment's names where the template of venv has their variables."""
    parts = re.split(r"__VENV_[A-Z_]+__", template)
    return re.fullmatch(r"[\w/ ().'-]{0,40}".join(map(re.escape, parts)), text) is not None


JUDGES: Mapping[str, Callable[[Entry, Books], Problem | None]] = {
    "package": _of_package,
    "wheel": _of_wheel,
    "byte-code": _byte_code,
    "alternative": _alternative,
    "declared": _declared,
}


# -- processors ---------------------------------------------------------------------------------------


def of_another_platform(owned: Mapping[str, Sequence[Entry]], platform: Platform) -> Iterator[Problem]:
    """Yield what is for another platform's processor. ``owned``: names by whose they are.

    A wheel or a package may bring a file for each of several processors, as debuggers do: it is wrong where
    it has none for this one.
    """
    for who, entries in owned.items():
        machines = {entry.path: machine for entry in entries if (machine := _machine(entry))}
        if who.startswith(("package ", "wheel ")) and platform.elf in machines.values():
            continue
        for entry in entries:
            for other in PLATFORMS.values():
                if other != platform and machines.get(entry.path) == other.elf:
                    yield problem("platform", entry, f"is for {other.title}")


def _machine(entry: Entry) -> int:
    return int.from_bytes(entry.begin[MACHINE], "little") if entry.begin.startswith(ELF) else 0
