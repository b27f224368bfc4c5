"""How a series is applied and looked at: what scripts/build-horovod.sh does, with every doubt an error."""

from __future__ import annotations

import re
import tempfile
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from stackwright.core.facts.patches import Patch, Series
from stackwright.host.runner import Completed, Runner

OPTIONS = ("-p1", "--forward", "--fuzz=0")
"""Those of scripts/build-horovod.sh; a test keeps the two equal."""

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


Files = tuple[tuple[str, bytes | None], ...]
"""Paths and their content; None where there is no such file."""


class NotApplied(Exception):
    """The patch is not in as it is written, or could be somewhere else; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """``old`` is what the file must hold, context and all; empty where the patch makes the file."""

    path: str
    old: str


def apply(runner: Runner, program: Path, tree: Path, patches: Sequence[tuple[str, bytes]]) -> None:
    """Apply name and content of each in turn. NotApplied unless every hunk can go to one place only, goes
    there, and cannot go there a second time."""
    for name, content in patches:
        for hunk in hunks(content):
            _require_one_place(tree, name, hunk)
        done = _patch(runner, program, tree, content)
        if not done.ok:
            raise NotApplied(f"{name}: {done.stdout}{done.stderr}")
        if _patch(runner, program, tree, content, "--dry-run").ok:
            raise NotApplied(f"{name}: applies a second time, so the first did not put it in")


class Steps:
    """Applies series to the source, and each patch to the same files once: series have most of it in common.

    What a patch makes of files follows from the files that it names and from nothing else.
    """

    def __init__(
        self, whole: Path, folder: Path, apply: Callable[[Path, Sequence[tuple[str, bytes]]], None]
    ) -> None:
        self._whole, self._folder, self._apply = whole, folder, apply
        self._known: dict[tuple[bytes, Files], Files] = {}

    def apply(self, patches: Sequence[tuple[str, bytes]]) -> None:
        """NotApplied as ``apply``."""
        now: dict[str, bytes | None] = {}
        for name, content in patches:
            paths = sorted({hunk.path for hunk in hunks(content)})
            files = tuple((path, now[path] if path in now else _read(self._whole / path)) for path in paths)
            if (content, files) not in self._known:
                self._known[content, files] = self._step(name, content, files)
            now.update(self._known[content, files])

    def _step(self, name: str, content: bytes, files: Files) -> Files:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            tree = Path(folder)
            for path, text in files:
                if text is not None:
                    (tree / path).parent.mkdir(parents=True, exist_ok=True)
                    (tree / path).write_bytes(text)
            self._apply(tree, [(name, content)])
            return tuple((path, _read(tree / path)) for path, _ in files)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def hunks(content: bytes) -> tuple[Hunk, ...]:
    """The hunks of a unified diff, as they are counted in their headings."""
    return tuple(_hunks(iter(content.decode().splitlines(keepends=True))))


def header(content: bytes) -> str:
    """What a patch says for itself before its first file."""
    return (
        re.split(r"^--- \S+/", content.decode(), maxsplit=1, flags=re.MULTILINE)[0].strip().strip("-").strip()
    )


def reachable(series: Series) -> tuple[tuple[Patch, ...], ...]:
    """Every combination that some set of values selects, of values that have no regard for each other."""
    specs: dict[str, set[str]] = {}
    for patch in series.patches:
        for name, spec in patch.when:
            specs.setdefault(name, set()).add(spec)
    choices = [_telling(name, found) for name, found in specs.items()]
    selected = (series.select(dict(ChainMap(*picks))) for picks in product(*choices))
    return tuple(dict.fromkeys(selected))


def _hunks(lines: Iterator[str]) -> Iterator[Hunk]:
    path = ""
    for line in lines:
        if line.startswith("+++ "):
            path = line.split()[1].partition("/")[2]
        elif found := HUNK.match(line):
            old, new = (int(count or 1) for count in found.groups())
            yield Hunk(path=path, old=_old_text(lines, old, new))


def _old_text(lines: Iterator[str], old: int, new: int) -> str:
    text = ""
    while old or new:
        line = next(lines)
        old -= line[0] in "- \n"
        new -= line[0] in "+ \n"
        text += line[1:] if line[0] in "- " else line if line == "\n" else ""
    return text


def _require_one_place(tree: Path, name: str, hunk: Hunk) -> None:
    """patch takes the nearest place that fits, and says so in a line that nobody reads."""
    file = tree / hunk.path
    if not hunk.old:
        if file.exists():
            raise NotApplied(f"{name}: {hunk.path} is there already")
        return
    places = file.read_text().count(hunk.old) if file.exists() else 0
    if places != 1:
        raise NotApplied(f"{name}: {places} places in {hunk.path} fit the hunk of\n{hunk.old}")


def _patch(runner: Runner, program: Path, tree: Path, content: bytes, *more: str) -> Completed:
    return runner([program, "-d", tree, *OPTIONS, *more], stdin=content.decode(), timeout=60)


def _telling(name: str, specs: set[str]) -> list[dict[str, str]]:
    """Values of a field, one of each kind that the specifiers tell apart; first, that there is none."""
    kinds: dict[tuple[bool, ...], dict[str, str]] = {(False,) * len(specs): {}}
    for value in sorted(_around(specs), key=Version):
        kinds.setdefault(tuple(SpecifierSet(spec).contains(value) for spec in sorted(specs)), {name: value})
    return list(kinds.values())


def _around(specs: set[str]) -> set[str]:
    """Each version that a specifier names, the next ones after it, and one before all of them."""
    found = {"0"}
    for spec in specs:
        for part in SpecifierSet(spec):
            release = Version(part.version.removesuffix(".*")).release
            found |= {".".join(map(str, release)), ".".join(map(str, (*release, 0, 1)))}
            for place in range(len(release)):
                found.add(".".join(map(str, (*release[:place], release[place] + 1))))
    return found
