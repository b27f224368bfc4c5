"""Checks of the owner of each file of an image: a package, a wheel, or a list (stackwright/core/ledger)."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stackwright.core.checks.check import SIF, Facts, Finding, NotAsked, Rule, finding, listed, take
from stackwright.core.model.row import Stack, Tier

SHOWN, GROUPS = 3, 20
"""Names that a problem of many files shows, and problems that a verdict shows."""

TOGETHER = 4
"""Files of one folder that have the same wrong, from which on they are one problem."""


def books(facts: Facts) -> Mapping[str, Any]:
    """Return the ledger's result. NotAsked where the image could not be read from outside."""
    found: Mapping[str, Any] = take(facts, "ledger")
    if reason := found.get("not_read"):
        raise NotAsked(reason)
    return found


def read(stack: Stack, facts: Facts) -> Finding:
    """Something is owned by each kind of list, so that an empty list is no green one."""
    owners = take(books(facts), "owners")
    missing = [kind for kind in ("package", "wheel", "declared") if not owners.get(kind)]
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(owners.items()))
    return finding((f"no name belongs to a {kind}" for kind in missing), counted)


def of_kind(kind: str) -> Callable[[Stack, Facts], Finding]:
    """All problems of one kind."""

    def judge(stack: Stack, facts: Facts) -> Finding:
        found = books(facts)
        return finding(_told(_items(found, kind), take(found, "counts").get(kind, 0)))

    return judge


def undeclared(stack: Stack, facts: Facts) -> Finding:
    """But for files that another check of this tier names by what they are: one file is one finding."""
    found = books(facts)
    items, named = _items(found, "undeclared"), _named(facts)
    left = [(path, what) for path, what in items if path not in named]
    without_folders = [path for path, _ in left if not any(name.startswith(f"{path}/") for name in named)]
    kept = [(path, what) for path, what in left if path in set(without_folders)]
    return finding(_told(kept, take(found, "counts").get("undeclared", 0) - len(items) + len(kept)))


def _items(found: Mapping[str, Any], kind: str) -> list[tuple[str, str]]:
    return [(path, what) for path, what in take(found, "problems").get(kind, ())]


def _named(facts: Facts) -> set[str]:
    """Files that the checks of keys, caches, authorities and compilers name."""
    files = take(facts, "files")
    left = (entry["path"] for places in take(files, "leftovers").values() for entry in places)
    keys = (key["path"] for key in take(files, "private_keys"))
    return {
        *left,
        *keys,
        *take(files, "host_keys"),
        *take(files, "authorities", "local"),
        *take(files, "nvcc"),
    }


def _told(items: Iterable[tuple[str, str]], count: int) -> Iterator[str]:
    """A folder that belongs to nothing is one problem, and so are many files of one folder with one wrong."""
    groups = list(_groups(list(items)))
    for place, what, names in groups[:GROUPS]:
        if len(names) == 1:
            yield f"{_shown(names[0])} {what}"
        else:
            below = (name.removeprefix(place).lstrip("/") for name in names if name != place)
            inside = listed(map(_shown, below), SHOWN)
            yield f"{_shown(place)}: {len(names)} names, each {what}: {inside}"
    rest = count - sum(len(names) for _, _, names in groups[:GROUPS])
    if rest > 0:
        yield f"and {rest} more"


def _groups(items: list[tuple[str, str]]) -> Iterator[tuple[str, str, list[str]]]:
    """Place, what is wrong, and the names."""
    paths = {path for path, _ in items}
    by_place: dict[tuple[str, str], list[str]] = {}
    for path, what in items:
        top = _top(path, paths)
        by_place.setdefault((top if top != path or _is_above(path, paths) else "", what), []).append(path)
    loose: dict[tuple[str, str], list[str]] = {}
    for (top, what), names in by_place.items():
        if top:
            yield top, what, names
        else:
            for name in names:
                loose.setdefault((posixpath.dirname(name), what), []).append(name)
    for (place, what), names in loose.items():
        if len(names) >= TOGETHER:
            yield place, what, names
        else:
            yield from ((place, what, [name]) for name in names)


def _top(path: str, paths: set[str]) -> str:
    """The highest folder above the path that has a problem too."""
    found = path
    while (path := posixpath.dirname(path)) != "/":
        found = path if path in paths else found
    return found


def _is_above(path: str, paths: set[str]) -> bool:
    return any(other.startswith(f"{path}/") for other in paths)


def _shown(path: str) -> str:
    """A name is the image's own: nothing of it reaches a terminal but what can be printed."""
    return path if path.isprintable() else ascii(path)


def credentials(stack: Stack, facts: Facts) -> Finding:
    """Of every layer, also of what a later one removes; a private key that is there has its own check."""
    found = take(books(facts), "credentials")
    problems = (
        f"a {credential['kind']} in {_shown(credential['path'])} of layer {credential['layer'][:12]}"
        for credential in found
    )
    return finding(list(problems)[:GROUPS], "none in any layer")


def same_files(stack: Stack, facts: Facts) -> Finding:
    """The SIF against the image that it was made of, by each package and each wheel."""
    found = books(facts)
    if take(found, "parts") and "differs" not in found:
        raise NotAsked("the facts of the image that it was made of are not there")
    differs = take(found, "differs")
    return finding([f"not as in the image: {listed(differs)}"] if differs else [])


S = Tier.STATIC
RULES = (
    Rule(id="ledger.read", tier=S, judge=read,
         why="All files were read from outside: an image may not hide from its own Python what is in it."),
    Rule(id="ledger.packages", tier=S, judge=of_kind("packages"), needs=("ledger.read",),
         why="Each file of the distribution's packages is there, as the package has it."),
    Rule(id="ledger.wheels", tier=S, judge=of_kind("wheels"), needs=("ledger.read",),
         why="Each file of a wheel is there, as its RECORD has it: a changed line is another framework."),
    Rule(id="ledger.byte-code", tier=S, judge=of_kind("byte-code"), needs=("ledger.read",),
         why="Python runs byte code and not its source: each is of a source that belongs to the image."),
    Rule(id="ledger.links", tier=S, judge=of_kind("links"), needs=("ledger.read",),
         why="A link that leads elsewhere is another program under a known name, as another gcc as cc."),
    Rule(id="ledger.declared", tier=S, judge=of_kind("declared"), needs=("ledger.read",),
         why="Files of Stackwright's scripts and steps are as they write them."),
    Rule(id="ledger.platform", tier=S, judge=of_kind("platform"), needs=("ledger.read",),
         why="A program for another processor ends with `Exec format error`, a library when it is loaded."),
    Rule(id="ledger.modes", tier=S, judge=of_kind("modes"), needs=("ledger.read",),
         why="A setuid program, or a file that others may write, makes root of any user."),
    Rule(id="ledger.accounts", tier=S, judge=of_kind("accounts"), needs=("ledger.read",),
         why="A second user with the id 0, or one with a password, is a way in."),
    Rule(id="ledger.undeclared", tier=S, judge=undeclared, needs=("ledger.read",),
         why="A file that belongs to no package, no wheel and no declared list has an unknown origin."),
    Rule(id="ledger.credentials", tier=S, judge=credentials, needs=("ledger.read",),
         why="Every user who pulls an image has all its layers: a token that a later one removes is known."),
    Rule(id="ledger.same-files", tier=S, judge=same_files, needs=("ledger.read",), worlds=SIF,
         why="The SIF has the files of the proven image, also where a list was changed with its file."),
)  # fmt: skip
