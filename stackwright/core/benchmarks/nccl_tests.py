"""NVIDIA's nccl-tests: the releases that a row can have, and what a row asks for.

No package index has it. Its source is an archive of its repository, which is known by the hash of its files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from packaging.version import Version

from stackwright.core import archive
from stackwright.core.facts import entries

NAME = "nccl-tests"
REPOSITORY = "https://github.com/NVIDIA/nccl-tests"
SCRIPT = "scripts/build-nccl-tests.sh"
FOLDER = "/usr/local/bin"
PROGRAMS = ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "sendrecv_perf", "alltoall_perf")
"""What an image has of it: what training does between GPUs, and what shows a single link."""


class Release(archive.Release):
    __slots__ = ()
    NAME: ClassVar[str] = NAME
    REPOSITORY: ClassVar[str] = REPOSITORY


def _release(entry: entries.Entry) -> Release:
    return Release(version=entry.key, fact=entry.fact, **entry.value)


RELEASES = tuple(sorted(map(_release, entries.load("nccl-tests")), key=lambda one: Version(one.version)))
BY_VERSION = {release.version: release for release in RELEASES}
NEWEST = RELEASES[-1]


def asked(benchmarks: Iterable[str]) -> str:
    """Return the release that a row asks for: the newest if it names none, "" without nccl-tests."""
    return archive.asked(benchmarks, NAME, NEWEST)
