"""The notation of what a row adds to its image besides Python packages, and the folders that are copied in.

A value ends up in a Dockerfile, in a shell, in JSON and in Apptainer's scripts. It is matched whole, against
a notation in which none of them sees anything but the value.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stackwright.core.config.additions import FILE
from stackwright.core.credentials import Search, holds
from stackwright.core.errors import MatrixError
from stackwright.core.model.added.image import Folder, Variable

PACKAGE = "[a-z0-9][a-z0-9+.-]{1,62}"
"""Of the distribution (Debian's policy manual, 5.6.1)."""
VARIABLE = "[A-Za-z_][A-Za-z0-9_]{0,63}"
CHARACTER = "[A-Za-z0-9%+,./:=@_-]"
VALUE = rf"{CHARACTER}([A-Za-z0-9%+,./:=@_ -]{{0,498}}{CHARACTER})?"
END = "[A-Za-z0-9%+,./:@_-]"
SETTING = rf"{END}([A-Za-z0-9%+,./:=@_ -]{{0,498}}{END})?"
"""Of a build: a script reads it behind the name and =, and would lose another one at the end."""
NUMBER = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
OWN_PORT = rf"{NUMBER}(/(tcp|udp))?"
PORT = rf"{OWN_PORT}|[a-z][a-z0-9_]{{0,29}}={NUMBER}"
"""Of a program in the image, or of one of the row's tools, by its name."""
WORD = "[A-Za-z0-9%+./:=@_-]{1,200}"
USER = "(?!65534(:|$))[1-9][0-9]{3,8}(:[1-9][0-9]{0,8})?"
"""Number of a user, and of a group: names mean something else on each cluster. Below 1000, and 65534, are the
distribution's own users."""
PLACES = ("/opt", "/srv", "/workspace", "/usr/local/share", "/usr/local/etc")
"""Below which a folder is copied: what packages and wheels own is elsewhere."""
TAKEN = ("/opt/stack", "/opt/cuda", "/usr/local/share/ca-certificates")
PLACE = rf"(?!({'|'.join(TAKEN)})(/|$))({'|'.join(PLACES)})(/{FILE}){{1,8}}"
NAME = "[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}"
"""Of a file or a folder that is copied in."""

MOST = 100
"""Entries of a list."""
MOST_FILES, MOST_BYTES = 1000, 16 * 2**20
"""Of one folder that is copied in: what is larger is data, and does not belong in an image."""
MOST_OF_WHEELS = 256 * 2**20
SPLIT_IT = "mount what is data, and copy in what is code"


def ports(written: Iterable[str]) -> tuple[str, ...]:
    """Return each port with its protocol, once; that of a tool is its name and a number."""
    return tuple(dict.fromkeys(port if "/" in port or "=" in port else f"{port}/tcp" for port in written))


def unnamed(listed: Iterable[str]) -> tuple[str, ...]:
    """Return the ports that are of no tool."""
    return tuple(port for port in listed if "=" not in port)


def named_ports(listed: Iterable[str]) -> dict[str, int]:
    """Return the ports of tools by their names."""
    pairs = (entry.split("=") for entry in listed if "=" in entry)
    return {name: int(port) for name, port in pairs}


def user(written: str | None) -> str | None:
    """Return both numbers. Without one of a group Docker would take root's group: it is that of the user."""
    return f"{written}:{written}" if written and ":" not in written else written


def variables(written: Iterable[tuple[str, str]]) -> tuple[Variable, ...]:
    """Return variables in the order of their names: the order of a mapping means nothing."""
    return tuple(Variable(name=name, value=value) for name, value in sorted(written))


def telling(written: Iterable[tuple[str, str]]) -> str:
    """Return the name of the first variable whose value has the shape of a credential; empty without one."""
    return next((name for name, value in written if holds(f"{name}={value}")), "")


# ------------------------------------------------------------------------- folders next to the matrix


def read_folder(
    beside: Path, name: str, limit: int = MOST_BYTES, *, searched: bool = True
) -> tuple[tuple[str, bytes], ...]:
    """Return path and content of each file in a folder next to the matrix. No link is followed.

    Raise MatrixError for what cannot be copied in, and for a credential where the files are ``searched``.
    """
    folder = beside / name
    if folder.is_symlink() or not folder.is_dir():
        raise _refused(folder, "there is no such folder next to the matrix", "make it, or correct 'from'")
    found: list[tuple[str, bytes]] = []
    size = 0
    for path in _files(folder):
        size += path.stat().st_size
        if size > limit or len(found) == MOST_FILES:
            cause = f"the folder has more than {MOST_FILES} files or {limit // 2**20} MiB"
            raise _refused(folder, cause, SPLIT_IT)
        found.append((path.relative_to(folder).as_posix(), _content(path, searched)))
    if not found:
        raise _refused(folder, "the folder is empty", "put a file into it, or leave 'files' out")
    return tuple(found)


def _files(folder: Path) -> Iterator[Path]:
    """Yield files in the order of their paths; a name that could mean something elsewhere is refused."""
    for path in sorted(folder.iterdir()):
        if not re.fullmatch(NAME, path.name, re.ASCII):
            hint = "names begin with a letter, a digit or _, and have letters, digits and ._+- in them"
            raise _refused(folder, f"{path.name[:60]!a} is a name that is not copied in", hint)
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _files(path)
        elif stat.S_ISREG(mode):
            yield path
        else:
            raise _refused(path, "is neither a file nor a folder", "a link is not followed: copy the file")


def _content(path: Path, searched: bool) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}", "check its permissions") from None
    search = Search(path.name)
    search.look(content if searched else b"")
    if kinds := search.found():
        hint = "everyone who has the image could read it: give it to the job, and not to the image"
        raise _refused(path, f"holds a {kinds[0]}", hint)
    return content


def _refused(path: Path, cause: str, hint: str) -> MatrixError:
    return MatrixError(cause, place=str(path), hint=hint)


def odd_wheel(files: Iterable[tuple[str, bytes]]) -> str:
    """Return what is wrong with the names in a folder of wheels; empty where nothing is."""
    seen: dict[str, str] = {}
    for path, _ in files:
        try:
            name, version, _, _ = parse_wheel_filename(path)
        except InvalidWheelFilename:
            return f"{path[:60]} is not the name of a wheel"
        if seen.setdefault(name, str(version)) != str(version):
            return f"there are two versions of {name}: {seen[name]} and {version}"
    return ""


def versions(wheels: Folder | None) -> dict[str, str]:
    """Return the version of each distribution in a folder of wheels."""
    names = (parse_wheel_filename(path) for path, _ in (wheels.files if wheels else ()))
    return {name: str(version) for name, version, _, _ in names}


def twice(folders: Iterable[Folder]) -> str:
    """Return the first path in the image that two folders have; empty without one."""
    seen: set[str] = set()
    for folder in folders:
        for path, _ in folder.placed():
            if path in seen:
                return path
            seen.add(path)
    return ""
