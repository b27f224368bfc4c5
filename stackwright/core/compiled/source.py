"""What a source distribution says that it needs, to be compiled and to run. Pure, and runs nothing.

An index has no such answer for a source: pip and uv run its build to get one, which is a stranger's program
on the machine that locks. The archive itself says the same in files that its author's tools wrote.
"""

from __future__ import annotations

import io
import re
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from email import message_from_string

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackwright.core.components.shared import sources
from stackwright.core.config import additions
from stackwright.core.errors import LockError
from stackwright.core.model.added.distributions import Addition

LEGACY = ("setuptools>=40.8.0",)
"""What a project without [build-system] is compiled with (PEP 518)."""
MEMBERS, BYTES = 20_000, 4 << 20
"""At most: files of an archive, and bytes of one that is read."""
PROJECT, METADATA = "pyproject.toml", "PKG-INFO"
REQUIRES = re.compile(r"([^/]+/)?[^/]+\.egg-info/requires\.txt")
STATIC = re.compile(r"^Requires-Dist:", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source distribution of an index. ``requires`` are requirement lines of what it runs with, ``needs``
    of what it is compiled with."""

    name: str
    version: str
    sha256: str
    requires: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version} \\\n    --hash=sha256:{self.sha256}\n"


def read(name: str, version: str, sha256: str, archive: bytes) -> Source:
    """Return what the archive of a source says. LockError where it cannot be read, or no lock holds it."""
    try:
        files = _files(archive)
        project = tomllib.loads(files[PROJECT]) if PROJECT in files else {}
        needs = project.get("build-system", {}).get("requires", LEGACY)
        return Source(
            name=name, version=version, sha256=sha256,
            requires=tuple(_lines(_required(files))),
            needs=tuple(dict.fromkeys(_lines((*needs, *sources.of(name).needs)))),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError, EOFError, OSError, tarfile.TarError) as error:
        raise LockError(
            f"the source of {name} {version} cannot be read: {error}",
            hint="compile another release, or add its wheel by pip",
        ) from error


def _files(archive: bytes) -> dict[str, str]:
    """Return the texts that say what is needed, by their paths below the archive's one folder."""
    found: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for number, member in enumerate(tar):
            if number >= MEMBERS:
                raise ValueError(f"it has more than {MEMBERS} files")
            path = member.name.removeprefix("./").partition("/")[2]
            if not member.isfile() or not (path in (PROJECT, METADATA) or REQUIRES.fullmatch(path)):
                continue
            content = tar.extractfile(member)
            if content is None or member.size > BYTES:
                raise ValueError(f"{path[:60]} has more than {BYTES} bytes")
            name = path if path in (PROJECT, METADATA) else "requires.txt"
            found.setdefault(name, content.read(BYTES).decode("utf-8", "replace"))
    return found


def _required(files: dict[str, str]) -> Iterable[str]:
    """Older tools wrote no Requires-Dist into a source, but a list of their own: requires.txt."""
    metadata = files.get(METADATA, "")
    if STATIC.search(metadata):
        return tuple(message_from_string(metadata).get_all("Requires-Dist", []))
    return _of_setuptools(files.get("requires.txt", ""))


def _of_setuptools(text: str) -> Iterator[str]:
    """Yield the lines of requires.txt. A section is an extra, a marker ([:python_version<"3.8"]), or both."""
    extra, marker = "", ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("[") and line.endswith("]"):
            extra, _, marker = line[1:-1].partition(":")
        elif not extra:
            yield f"{line} ; {marker}" if marker else line


def _lines(written: Iterable[str]) -> Iterator[str]:
    """Yield requirements in their normal form; those of an extra are left out."""
    for text in written:
        try:
            found = Requirement(text)
        except InvalidRequirement as error:
            raise ValueError(f"it needs {str(text)[:80]!r}, which is no requirement") from error
        if found.marker and "extra" in str(found.marker):
            continue
        line = additions.normal(str(found))
        if line is None:
            raise ValueError(f"it needs {str(text)[:80]!r}, which no lock can hold")
        yield line


def with_needs(source: Source, wanted: Iterable[Addition]) -> Source:
    """Return the source with what a row says that its compiling needs."""
    more = (line for addition in wanted if additions.name(addition) == source.name for line in addition.needs)
    return replace(source, needs=tuple(dict.fromkeys((*source.needs, *more))))


def names(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the names of distributions that requirement lines ask for."""
    return tuple(dict.fromkeys(canonicalize_name(Requirement(line).name) for line in lines))
