"""Exact versions of a row: asked for once by ``build.py lock``, read from ``locks/`` ever after.

A lock is a requirements file with hashes that pip reads as it is. Its second line is a JSON comment
with what the row asked for (a digest, to notice a lock that is out of date) and the state of the
distribution. What only the row's own additions need is a second list below the first; distributions that are
compiled from source, and what only their compiling needs, are two more, and a CUDA compiler that comes in
wheels is the last one. What uv refuses is kept in its words, so that ``plan`` can say why without a network.
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
from stackwright.core.model.target import AMD64, PLATFORMS, Platform

HEAD = "# Stackwright lock, format 1: written by `build.py lock`, not by hand."
ADDED = "# added by the row: installed after all other packages"
COMPILED = "# compiled from source, against the packages above"
BUILDERS = "# needed to compile those, and not shipped"
TOOLCHAIN = "# toolchain: compiles, and is not shipped"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
PIN = re.compile(r"([a-z0-9-]+)==([A-Za-z0-9.+!_-]+)( \\)?", re.ASCII)
IMAGE = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,90}", re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What uv found, as a lock has it. ``added``, ``compiled``, ``builders`` and ``toolchain`` are lists of
    their own; ``asked_by``, ``moved``, ``extra`` and ``needs`` are those of Lock."""

    pins: str = ""
    added: str = ""
    compiled: str = ""
    builders: str = ""
    toolchain: str = ""
    asked_by: tuple[tuple[str, tuple[str, ...]], ...] = ()
    moved: tuple[tuple[str, str, str], ...] = ()
    extra: tuple[str, ...] = ()
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def text(self) -> str:
        below = (
            (ADDED, self.added),
            (COMPILED, self.compiled),
            (BUILDERS, self.builders),
            (TOOLCHAIN, self.toolchain),
        )
        return self.pins + "".join(f"{head}\n{lines}" for head, lines in below if lines)


def write_found(row: str, request: str, base: Base, found: Found, platform: Platform = AMD64) -> str:
    """Return the text of a lock; one of a row without additions is as it always was."""
    more: dict[str, Any] = of_platform(platform)
    more |= {"asked_by": dict(found.asked_by)} if found.asked_by else {}
    more |= {"moved": found.moved} if found.moved else {}
    more |= {"extra": found.extra} if found.extra else {}
    more |= {"needs": dict(found.needs)} if found.needs else {}
    return write(row, request, base, pins=found.text(), more=more)


def of_platform(platform: Platform) -> dict[str, str]:
    """Return the platform as a lock has it: the usual one is left out, as it always was."""
    return {"platform": platform.named} if platform.named else {}


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
    lists = _lists(pins)
    try:
        if head != HEAD or not comment.startswith("# "):
            raise ValueError("the first two lines are not those of a lock")
        meta = json.loads(comment[2:])
        base = _base(meta["base"])
        shipped, added, compiled = (_packages(lists[name]) for name in ("", ADDED, COMPILED))
        return Lock(
            row=str(meta["row"]), request=str(meta["request"]), base=base, text=text,
            sha256=hashlib.sha256(text.encode()).hexdigest(), refused=str(meta.get("refused", "")),
            packages=(*shipped, *added, *compiled), toolchain=tuple(_packages(lists[TOOLCHAIN])),
            added=tuple(added), compiled=tuple(compiled), sources=_sources(lists[COMPILED]),
            builders=tuple(_packages(lists[BUILDERS])), **_of_additions(meta),
            platform=PLATFORMS[meta.get("platform", AMD64.name)],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise LockError(f"not a lock: {error}", place=place, hint="run build.py lock") from error


def _lists(pins: str) -> dict[str, str]:
    """Return each list by its head; "" is that of the frameworks."""
    found = {}
    for head in (TOOLCHAIN, BUILDERS, COMPILED, ADDED):
        pins, _, found[head] = pins.partition(f"{head}\n")
    return {"": pins, **found}


def _sources(pins: str) -> tuple[tuple[str, str], ...]:
    """Return the hash of each source: a lock has exactly one file of what is compiled."""
    found = re.findall(r"^([a-z0-9-]+)==\S+ \\\n    --hash=sha256:([0-9a-f]{64})$", pins, re.MULTILINE)
    if len(found) != len(_packages(pins)):
        raise ValueError("a source must have exactly one hash")
    return tuple(found)


def _of_additions(meta: Mapping[str, Any]) -> dict[str, Any]:
    asked = {name: tuple(map(_name, names)) for name, names in meta.get("asked_by", {}).items()}
    moved = tuple((_name(name), _version(old), _version(new)) for name, old, new in meta.get("moved", ()))
    needs = {name: tuple(map(_name, names)) for name, names in meta.get("needs", {}).items()}
    return {
        "asked_by": tuple((_name(name), names) for name, names in sorted(asked.items())),
        "moved": moved,
        "needs": tuple((_name(name), names) for name, names in sorted(needs.items())),
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
    return _lists_of(lock)[""]


def _lists_of(lock: Lock) -> dict[str, str]:
    return _lists(lock.text.split("\n", 2)[2])


def added_pins(lock: Lock) -> str:
    """Return those that only the row's additions need; empty in a row without."""
    return _lists_of(lock)[ADDED]


def compiled_pins(lock: Lock) -> str:
    """Return those that are compiled from source, each with the hash of its source."""
    return _lists_of(lock)[COMPILED]


def builder_pins(lock: Lock) -> str:
    """Return those that only their compiling needs."""
    return _lists_of(lock)[BUILDERS]


def toolchain_pins(lock: Lock) -> str:
    """Those of the CUDA compiler; empty where the base brings it."""
    return _lists_of(lock)[TOOLCHAIN]


def blocks(pins: str) -> dict[str, str]:
    """Return by package its pin with its hashes."""
    found: dict[str, str] = {}
    name = ""
    for line in pins.splitlines():
        pin = PIN.fullmatch(line)
        name = pin[1] if pin else name
        found[name] = f"{found.get(name, '')}{line}\n"
    return found


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
