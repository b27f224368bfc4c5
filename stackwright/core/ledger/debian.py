"""What the distribution's packages own, by dpkg's own lists: files with their MD5, links, folders."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stackwright.core.ledger.entry import Entry, Kind, Tree

INFO = "/var/lib/dpkg/info"
DIVERTED = "/var/lib/dpkg/diversions"
STATUS = "/var/lib/dpkg/status"
ALTERNATIVES = "/var/lib/dpkg/alternatives/"
MOST_LINKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """``conffiles``: path to MD5. ``needs``: names in its dependencies, with those that would do as well."""

    name: str
    architecture: str
    conffiles: Mapping[str, str]
    needs: frozenset[str]
    provides: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """``md5`` is empty where dpkg has none: a folder, a link, a device."""

    packages: tuple[str, ...]
    md5: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One name that update-alternatives manages: ``link`` leads to /etc/alternatives/``name``, that to one
    of ``paths``."""

    name: str
    link: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """``owned`` by the path that the file really has; ``left_out`` are patterns that dpkg does not unpack."""

    packages: Mapping[str, Package]
    owned: Mapping[str, Owned]
    lists: Mapping[str, str]
    """Of each package, the file that lists its files."""
    providers: Mapping[str, tuple[str, ...]]
    """A name that packages depend on to those that provide it."""
    choices: tuple[Choice, ...]
    left_out: tuple[str, ...]
    unlisted: tuple[str, ...]
    """Packages that dpkg has no list of files of."""


def read(tree: Tree) -> Distribution:
    packages = {package.name: package for package in _installed(tree.texts.get(STATUS, ""))}
    diverted = _diversions(tree.texts.get(DIVERTED, ""))
    owned: dict[str, Owned] = {}
    lists: dict[str, str] = {}
    unlisted = []
    for package in packages.values():
        names = (package.name, f"{package.name}:{package.architecture}")
        stem = next((f"{INFO}/{name}" for name in names if f"{INFO}/{name}.list" in tree.texts), None)
        if stem is None:
            unlisted.append(package.name)
            continue
        lists[package.name] = f"{stem}.list"
        sums = _sums(tree.texts.get(f"{stem}.md5sums", "")) | dict(package.conffiles)
        for listed in tree.texts[f"{stem}.list"].splitlines():
            if listed in ("", "/."):
                continue
            to, by = diverted.get(listed, (listed, package.name))
            path = real_path(tree, listed if by == package.name else to)
            before = owned.get(path)
            owners = (*(before.packages if before else ()), package.name)
            owned[path] = Owned(packages=owners, md5=sums.get(listed, "") or (before.md5 if before else ""))
    return Distribution(
        packages=packages, owned=owned, lists=lists, providers=_providers(packages.values()),
        choices=tuple(_choices(tree)),
        left_out=tuple(_left_out(tree)), unlisted=tuple(unlisted),
    )  # fmt: skip


def _installed(status: str) -> Iterator[Package]:
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*((?:.*)(?:\n[ \t].*)*)", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        lines = (line.split() for line in fields.get("Conffiles", "").splitlines())
        conffiles = {line[0]: line[1] for line in lines if len(line) == 2}
        needs = ",".join(
            fields.get(name, "") for name in ("Depends", "Pre-Depends", "Recommends", "Suggests")
        )
        yield Package(
            name=fields["Package"], architecture=fields.get("Architecture", ""), conffiles=conffiles,
            needs=_names(needs), provides=_names(fields.get("Provides", "")),
        )  # fmt: skip


def _providers(packages: Iterable[Package]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for package in packages:
        for name in package.provides:
            found[name] = (*found.get(name, ()), package.name)
    return found


def _names(field: str) -> frozenset[str]:
    parts = (part.strip() for part in re.split(r"[,|]", field))
    return frozenset(re.split(r"[ :(]", part, maxsplit=1)[0] for part in parts if part)


def _sums(text: str) -> dict[str, str]:
    lines = (line.partition("  ") for line in text.splitlines())
    return {f"/{path.removeprefix('./').lstrip('/')}": md5 for md5, _, path in lines if path}


def _diversions(text: str) -> dict[str, tuple[str, str]]:
    """Path to its new place, and the package whose own file keeps the path; ":" is of no package."""
    lines = text.splitlines()
    triples = zip(lines[::3], lines[1::3], lines[2::3], strict=False)
    return {path: (to, by) for path, to, by in triples}


def real_path(tree: Tree, path: str) -> str:
    """With the links among its folders followed, not that of its last name."""
    folder, _, name = path.rpartition("/")
    return posixpath.join(_real_folder(tree, folder or "/", MOST_LINKS), name)


def _real_folder(tree: Tree, path: str, left: int) -> str:
    if path == "/" or left == 0:
        return path
    folder, _, name = path.rpartition("/")
    real = posixpath.join(_real_folder(tree, folder or "/", left - 1), name)
    found = tree.entries.get(real)
    if found is None or found.kind is not Kind.LINK:
        return real
    return _real_folder(
        tree, posixpath.normpath(posixpath.join(posixpath.dirname(real), found.target)), left - 1
    )


def leads_to(tree: Tree, link: Entry) -> str:
    """The path that a link names, through no further link but those among its folders."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), link.target))
    return real_path(tree, target)


def _choices(tree: Tree) -> Iterator[Choice]:
    """Of the files of update-alternatives: its link, its slaves, and the paths of each choice."""
    for path, text in tree.texts.items():
        if not path.startswith(ALTERNATIVES):
            continue
        head, _, rest = text.partition("\n\n")
        lines = head.splitlines()
        names = [(posixpath.basename(path), lines[1]), *zip(lines[2::2], lines[3::2], strict=False)]
        width = len(names) + 1  # the priority is between the path and those of the slaves
        told = rest.splitlines()
        choices = [told[at : at + width] for at in range(0, len(told) - width + 1, width)]
        rows = [[choice[0], *choice[2:]] for choice in choices if choice[0]]
        for number, (name, link) in enumerate(names):
            paths = tuple(row[number] for row in rows if row[number])
            yield Choice(name=name, link=link, paths=paths)


def _left_out(tree: Tree) -> Iterator[str]:
    for path, text in tree.texts.items():
        if path.startswith("/etc/dpkg/dpkg.cfg.d/"):
            yield from re.findall(r"^path-exclude[= ]\s*(\S+)", text, re.MULTILINE)


def is_left_out(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
