"""Exact versions of a row: asked for once by ``build.py lock``, read from ``locks/`` ever after.

A lock is a requirements file with hashes that pip reads as it is. Its second line is a JSON comment
with what the row asked for (a digest, to notice a lock that is out of date) and the state of the
distribution. What only the row's own additions need is a second list below the first, and a CUDA compiler
that comes in wheels is the last one. What uv refuses is kept in its words, so that ``plan`` can say why
without a network.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stackwright.core.errors import LockError
from stackwright.core.model.row import Base, Lock, Package

HEAD = "# Stackwright lock, format 1: written by `build.py lock`, not by hand."
ADDED = "# added by the row: installed after all other packages"
TOOLCHAIN = "# toolchain: compiles, and is not shipped"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
PIN = re.compile(r"([a-z0-9-]+)==([A-Za-z0-9.+!_-]+)( \\)?", re.ASCII)
IMAGE = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,90}", re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What uv found, as a lock has it. ``added`` and ``toolchain`` are lists of their own; ``asked_by`` and
    ``moved`` and ``extra`` are those of Lock."""

    pins: str = ""
    added: str = ""
    toolchain: str = ""
    asked_by: tuple[tuple[str, tuple[str, ...]], ...] = ()
    moved: tuple[tuple[str, str, str], ...] = ()
    extra: tuple[str, ...] = ()

    def text(self) -> str:
        below = ((ADDED, self.added), (TOOLCHAIN, self.toolchain))
        return self.pins + "".join(f"{head}\n{lines}" for head, lines in below if lines)


def write_found(row: str, request: str, base: Base, found: Found) -> str:
    """Return the text of a lock; one of a row without additions is as it always was."""
    more: dict[str, Any] = {"asked_by": dict(found.asked_by)} if found.asked_by else {}
    more |= {"moved": found.moved} if found.moved else {}
    more |= {"extra": found.extra} if found.extra else {}
    return write(row, request, base, pins=found.text(), more=more)


def write(
    row: str,
    request: str,
    base: Base,
    *,
    pins: str = "",
    refused: str = "",
    more: Mapping[str, Any] | None = None,
) -> str:
    known = asdict(base)
    if not base.images:  # a lock of a base that no registry has is written as it always was
        del known["images"]
    meta = {"row": row, "request": request, "base": known} | ({"refused": refused} if refused else {})
    meta |= more or {}
    return f"{HEAD}\n# {json.dumps(meta, sort_keys=True)}\n{pins}"


def read(path: Path) -> Lock:
    """Parse a lock; LockError when it is missing or is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"cannot be read: {error}", place=str(path), hint="run build.py lock") from error
    return parse(text, str(path))


def parse(text: str, place: str) -> Lock:
    """Every line is matched in full. LockError names the place."""
    head, _, rest = text.partition("\n")
    comment, _, pins = rest.partition("\n")
    shipped, added, compiles = _lists(pins)
    try:
        if head != HEAD or not comment.startswith("# "):
            raise ValueError("the first two lines are not those of a lock")
        meta = json.loads(comment[2:])
        base = _base(meta["base"])
        return Lock(
            row=str(meta["row"]), request=str(meta["request"]), base=base, text=text,
            sha256=hashlib.sha256(text.encode()).hexdigest(), refused=str(meta.get("refused", "")),
            packages=(*_packages(shipped), *_packages(added)), toolchain=tuple(_packages(compiles)),
            added=tuple(_packages(added)), **_of_additions(meta),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise LockError(f"not a lock: {error}", place=place, hint="run build.py lock") from error


def _lists(pins: str) -> tuple[str, str, str]:
    """Return shipped packages, those of the row's additions, and the CUDA compiler's."""
    before, _, compiles = pins.partition(f"{TOOLCHAIN}\n")
    shipped, _, added = before.partition(f"{ADDED}\n")
    return shipped, added, compiles


def _of_additions(meta: Mapping[str, Any]) -> dict[str, Any]:
    asked = {name: tuple(map(_name, names)) for name, names in meta.get("asked_by", {}).items()}
    moved = tuple((_name(name), _version(old), _version(new)) for name, old, new in meta.get("moved", ()))
    return {
        "asked_by": tuple((_name(name), names) for name, names in sorted(asked.items())),
        "moved": moved,
        "extra": tuple(map(_name, meta.get("extra", ()))),
    }


def _name(text: Any) -> str:
    if not NAME.fullmatch(str(text)):
        raise ValueError(f"{str(text)[:60]!r} is not a package's name")
    return str(text)


def _version(text: Any) -> str:
    if not PIN.fullmatch(f"x=={text}"):
        raise ValueError(f"{str(text)[:60]!r} is not a version")
    return str(text)


def pins(lock: Lock) -> str:
    """Return the requirement lines without those of additions: equal for two rows of the same environment."""
    return _lists(lock.text.split("\n", 2)[2])[0]


def added_pins(lock: Lock) -> str:
    """Return those that only the row's additions need; empty in a row without."""
    return _lists(lock.text.split("\n", 2)[2])[1]


def toolchain_pins(lock: Lock) -> str:
    """Those of the CUDA compiler; empty where the base brings it."""
    return lock.text.partition(f"{TOOLCHAIN}\n")[2]


def _base(data: dict[str, Any]) -> Base:
    packages = tuple(Package(name=p["name"], version=p["version"]) for p in data["packages"])
    plain = {key: str(data[key]) for key in ("os", "suite", "release", "date", "digest")}
    for value in (*plain.values(), *(p.name + p.version for p in packages)):
        if not re.fullmatch(r"[A-Za-z0-9.:+~_-]*", value, re.ASCII):
            raise ValueError(f"{value!r} is not a version, a name or a digest")
    return Base(packages=packages, images=tuple(map(_image, data.get("images", ()))), **plain)


def _image(pair: list[str]) -> tuple[str, str]:
    name, digest = pair
    if not (IMAGE.fullmatch(name) and DIGEST.fullmatch(digest)):
        raise ValueError(f"{pair!r} is not an image's name and its digest")
    return name, digest


def _packages(pins: str) -> list[Package]:
    packages = []
    for number, line in enumerate(pins.splitlines(), start=3):
        pin = PIN.fullmatch(line)
        if pin and NAME.fullmatch(pin[1]):
            packages.append(Package(name=pin[1], version=pin[2]))
        elif not HASH.fullmatch(line):
            raise ValueError(f"line {number} is neither a pin nor a hash: {line[:60]!r}")
    return packages
