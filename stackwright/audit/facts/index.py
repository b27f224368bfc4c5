"""Which files a package index has of a project: its JSON API (PEP 691), wheels for Linux on one platform."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from stackwright.core.errors import SiteError
from stackwright.core.model.target import AMD64, PLATFORMS, Platform
from stackwright.host.upstream import web

JSON = "application/vnd.pypi.simple.v1+json"
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One file of the index; ``tags`` are those of its name, ``python`` is its Requires-Python."""

    name: str
    version: Version
    url: str
    sha256: str
    size: int
    tags: frozenset[Tag]
    python: str = ""


def wheels(address: str, project: str, platform: Platform = AMD64) -> tuple[Wheel, ...]:
    """Return the wheels that can be installed on the platform, in the order of their versions."""
    url = f"{address.rstrip('/')}/{project}/"
    try:
        document = json.loads(web.page(url, JSON))
        files = document["files"]
        found = [wheel for file in files if (wheel := _wheel(url, file, platform))]
    except (ValueError, KeyError, TypeError) as error:
        raise SiteError(f"the index gives no list of files of {project} as JSON (PEP 691)") from error
    return tuple(sorted(found, key=lambda wheel: (wheel.version, wheel.name)))


HERE = {
    platform: re.compile(rf"any|.*linux_{platform.machine}|manylinux[0-9_]+_{platform.machine}")
    for platform in PLATFORMS.values()
}
"""Tags of wheels that an image of a platform may take."""


def _wheel(page: str, file: Mapping[str, Any], platform: Platform) -> Wheel | None:
    """None for what is no wheel, was withdrawn, is a preview, or is for another platform."""
    try:
        _, version, _, tags = parse_wheel_filename(file["filename"])
    except InvalidWheelFilename:
        return None
    here = frozenset(tag for tag in tags if HERE[platform].fullmatch(tag.platform))
    sha256 = file["hashes"].get("sha256", "")
    if file.get("yanked") or version.is_prerelease or not here or not SHA256.fullmatch(sha256):
        return None
    return Wheel(
        name=file["filename"], version=version, url=urljoin(page, file["url"]), sha256=sha256,
        size=int(file.get("size") or 0), tags=here, python=file.get("requires-python") or "",
    )  # fmt: skip


def by_version(found: Iterable[Wheel]) -> dict[Version, tuple[Wheel, ...]]:
    grouped: dict[Version, list[Wheel]] = {}
    for wheel in found:
        grouped.setdefault(wheel.version, []).append(wheel)
    return {version: tuple(files) for version, files in grouped.items()}


def pythons(files: Iterable[Wheel]) -> tuple[str, ...]:
    """Return the releases of CPython that a version has a wheel for, as in 3.9; free-threaded ones left
    out."""
    tags = {(tag.interpreter, tag.abi) for file in files for tag in file.tags}
    found = [
        re.fullmatch(r"cp3(\d+)", interpreter)
        for interpreter, abi in tags
        if abi in (interpreter, f"{interpreter}m", "abi3")
    ]
    return tuple(f"3.{minor}" for minor in sorted({int(match[1]) for match in found if match}))


PYTHONS = tuple(f"3.{minor}" for minor in range(5, 16))


def installable(files: Iterable[Wheel]) -> tuple[str, ...]:
    """Return the releases of Python that can install one of the files, pure ones too."""
    found = tuple(files)
    return tuple(python for python in PYTHONS if any(_installs(wheel, python) for wheel in found))


def _installs(wheel: Wheel, python: str) -> bool:
    digits = python.replace(".", "")
    fits = any(tag.interpreter in ("py3", f"py{digits}", f"cp{digits}") for tag in wheel.tags)
    try:
        return fits and SpecifierSet(wheel.python).contains(python)
    except InvalidSpecifier:
        return False


MACHINE = re.compile(rf"_({'|'.join(platform.machine for platform in PLATFORMS.values())})$")
LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


def glibc(files: Iterable[Wheel]) -> str:
    """Return the oldest glibc that every wheel of a version runs on, as its tags say; empty: they do not
    say."""
    needs = [min(known, key=_numbers) for file in files if (known := _glibcs(file))]
    return max(needs, key=_numbers, default="")


def _glibcs(file: Wheel) -> list[str]:
    names = (MACHINE.sub("", tag.platform) for tag in file.tags)
    found = ((name, re.fullmatch(r"manylinux_(\d+)_(\d+)", name)) for name in names)
    return [
        f"{match[1]}.{match[2]}" if match else LEGACY[name]
        for name, match in found
        if match or name in LEGACY
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
