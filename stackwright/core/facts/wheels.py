"""Wheels of frameworks on the package index: what an entry of a table says, and how one is looked up.

The tables are written by ``build.py facts --update``; other facts are in the file of
its component.
Versions are grouped by their first two numbers; a longer entry ("2.11.0") goes before a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stackwright.core.facts import entries
from stackwright.core.facts.entries import Entry
from stackwright.core.facts.provenance import Provenance, read
from stackwright.core.model.target import AMD64, Platform, platform_of

INDEX = read("the package index: files of the release, and their requirements", "2026-11-22")

Describe = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""The fields of a Wheel, of its minor release and its entry in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """``cuda`` is what the index's own wheel was built for, ``builds`` what others with a +cuNNN suffix
    were (empty: not known). ``python`` is the first and last release with a wheel. ``nccl`` and ``cudnn``
    are those that the wheel requires from the index; empty where it finds, or holds, them in another way.
    ``cuda_needs`` and ``nccl_needs`` are what it lets others bring, as PEP 440 specifiers; empty: anything.
    ``takes`` are other components that it requires, with their releases. ``own_cuda``: the wheel holds a
    CUDA runtime or an NCCL.
    ``code`` is what the wheel holds for GPUs, as facts/gpu_code.py reads it; empty: it does not say.
    """

    release: str
    newest: str
    python: tuple[str, str]
    cuda: str
    fact: Provenance
    builds: tuple[str, ...] = ()
    cudnn: str = ""
    nccl: str = ""
    cuda_needs: str = ""
    nccl_needs: str = ""
    glibc: str = ""
    takes: tuple[tuple[str, str], ...] = ()
    own_cuda: bool = False
    code: str = ""


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _span(text: str) -> tuple[str, str]:
    first, last = text.split("-")
    return first, last


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wheels:
    """All wheels of one framework. ``name`` is the field of a row.

    ``entries`` are those for the usual platform, ``others`` the tables for other ones; a platform without a
    table has no wheel.
    """

    name: str
    entries: tuple[Wheel, ...]
    others: tuple[tuple[Platform, Wheels], ...] = ()

    @classmethod
    def load(cls, name: str, describe: Describe, others: tuple[Platform, ...] = ()) -> Wheels:
        """Return the wheels of a table: the newest of each minor release, and older ones that differ."""
        of_others = tuple(
            (platform, cls(name=name, entries=_wheels(f"{name}{platform.suffix}", describe)))
            for platform in others
        )
        return cls(name=name, entries=_wheels(name, describe), others=of_others)

    def on(self, platform: str | None) -> Wheels:
        """Return the wheels for a platform, as a row names it."""
        found = platform_of(platform)
        return self if found == AMD64 else dict(self.others).get(found, NONE)

    @property
    def newest(self) -> tuple[str, ...]:
        """The newest release of each minor one: what is worth proposing."""
        return tuple(entry.newest for entry in self.entries if entry.release == minor(entry.newest))

    def of(self, version: str) -> Wheel | None:
        """Return the entry of a version: the longest ``release`` that it starts with."""
        return _entry(self, version)


NONE = Wheels(name="", entries=())


def _wheels(table: str, describe: Describe) -> tuple[Wheel, ...]:
    found: list[Wheel] = []
    minors: dict[str, list[Entry]] = {}
    for entry in entries.load(table):
        minors.setdefault(minor(entry.key), []).append(entry)
    for release, releases in minors.items():
        last = releases[-1]
        found += [_wheel(entry, entry.key, describe) for entry in releases if entry.value != last.value]
        found.append(_wheel(last, release, describe))
    return tuple(found)


def _wheel(entry: Entry, release: str, describe: Describe) -> Wheel:
    value = describe(minor(entry.key), entry.value)
    return Wheel(
        **{**value, "python": _span(value["python"])}, release=release, newest=entry.key, fact=entry.fact
    )


@lru_cache(maxsize=1000)
def _entry(wheels: Wheels, version: str) -> Wheel | None:
    public = version.split("+")[0]
    fitting = [w for w in wheels.entries if public == w.release or public.startswith(w.release + ".")]
    return max(fitting, key=lambda w: len(w.release)) if fitting else None


FIRST_CUDA = "11.0"
"""The first release whose libraries the index has as wheels (nvidia-…-cu11)."""

REQUIREMENTS = {entry.key: entry for entry in entries.load("requirements")}
"""By requirement, the releases of Python that the index has a wheel for."""

FIRST_NCCL = "2.13"
"""The first NCCL that the index has a wheel of."""


def build(version: str) -> str | None:
    """Return the CUDA release of a +cuNNN suffix: 2.0.1+cu118 -> 11.8."""
    local = version.partition("+")[2]
    digits = local.removeprefix("cu")
    return f"{digits[:-1]}.{digits[-1]}" if local.startswith("cu") and digits.isdigit() else None
