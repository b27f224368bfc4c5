"""NCCL's plugin for libfabric (aws-ofi-nccl): the releases that a row can have, and what a row asks for.

No package index has it. Its source is an archive of its repository, which is known by the hash of its files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from packaging.version import Version

from stackwright.core import archive
from stackwright.core.facts import entries

NAME = "aws-ofi-nccl"
REPOSITORY = "https://github.com/aws/aws-ofi-nccl"
SCRIPT = "scripts/build-ofi-plugin.sh"
OFI = "ofi"
LIBRARY = "/usr/local/lib/libnccl-net-ofi.so"
"""NCCL finds it by the loader where NCCL_NET_PLUGIN is "ofi", and nowhere else: where it is not asked for,
NCCL's own transport for InfiniBand stays the one that is taken."""
PACKAGE = "libfabric1"
"""The distribution's package with libfabric.so.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(archive.Release):
    """``nets`` are the interfaces of NCCL that it has, as in ncclNetPlugin_v8. ``libfabric`` and ``nccl`` are
    the oldest that it works with."""

    NAME: ClassVar[str] = NAME
    REPOSITORY: ClassVar[str] = REPOSITORY

    nets: tuple[int, ...]
    libfabric: str
    nccl: str


def _release(entry: entries.Entry) -> Release:
    value: dict[str, Any] = {**entry.value, "nets": tuple(entry.value["nets"])}
    return Release(version=entry.key, fact=entry.fact, **value)


RELEASES = tuple(sorted(map(_release, entries.load("ofi-plugins")), key=lambda one: Version(one.version)))
BY_VERSION = {release.version: release for release in RELEASES}
NEWEST = RELEASES[-1]


def asked(fabric: Iterable[str]) -> str:
    """Return the release of the plugin that a row asks for: the newest if it names none, "" without ofi."""
    return archive.asked(fabric, OFI, NEWEST)


def names(fabric: Iterable[str]) -> tuple[str, ...]:
    """Return the fabrics without the releases: ("verbs", "ofi")."""
    return tuple(word.partition("=")[0] for word in fabric)
