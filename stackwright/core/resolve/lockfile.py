"""Exact versions of a row: asked for once by ``build.py lock``, read from ``locks/`` ever after.

A lock is a requirements file with hashes that pip reads as it is. Its second line is a JSON comment
with what the row asked for (a digest, to notice a lock that is out of date) and the state of the
distribution. A CUDA compiler that comes in wheels is a second list below the first. What uv refuses is kept
in its words, so that ``plan`` can say why without a network.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stackwright.core.errors import LockError
from stackwright.core.model.row import Base, Lock, Package

HEAD = "# Stackwright lock, format 1: written by `build.py lock`, not by hand."
TOOLCHAIN = "# toolchain: compiles, and is not shipped"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
PIN = re.compile(r"([a-z0-9-]+)==([A-Za-z0-9.+!_-]+)( \\)?", re.ASCII)
IMAGE = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,90}", re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?", re.ASCII)


def write(row: str, request: str, base: Base, *, pins: str = "", refused: str = "") -> str:
    known = asdict(base)
    if not base.images:  # a lock of a base that no registry has is written as it always was
        del known["images"]
    meta = {"row": row, "request": request, "base": known} | ({"refused": refused} if refused else {})
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
    shipped, _, compiles = pins.partition(f"{TOOLCHAIN}\n")
    try:
        if head != HEAD or not comment.startswith("# "):
            raise ValueError("the first two lines are not those of a lock")
        meta = json.loads(comment[2:])
        base = _base(meta["base"])
        return Lock(
            row=str(meta["row"]), request=str(meta["request"]), base=base, text=text,
            sha256=hashlib.sha256(text.encode()).hexdigest(), refused=str(meta.get("refused", "")),
            packages=tuple(_packages(shipped)), toolchain=tuple(_packages(compiles)),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise LockError(f"not a lock: {error}", place=place, hint="run build.py lock") from error


def pins(lock: Lock) -> str:
    """Return the requirement lines alone: equal for two rows that ask for the same environment."""
    return lock.text.split("\n", 2)[2].partition(f"{TOOLCHAIN}\n")[0]


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
