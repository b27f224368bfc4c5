"""Releases that exist: those with a wheel for Linux on x86-64 on the package index, none for testing.

The lists themselves are in data/releases.json, which ``build.py facts --update`` writes.
"""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from stackwright.core.facts import entries
from stackwright.core.facts.provenance import read
from stackwright.core.model.target import CUDA

LIBRARIES = tuple(
    (field, CUDA.wheel(field, major)) for field in ("nccl", "cudnn") for major in ("11", "12", "13")
)
"""Field of a row, and a package that brings it. Those of components are in their files."""

_ENTRIES = {entry.key: entry for entry in entries.load("releases")}

RELEASES_READ = read(
    "the package index: releases with a wheel for Linux", max(entry.fact.when for entry in _ENTRIES.values())
)

RELEASES = {package: tuple(map(str, entry.value)) for package, entry in _ENTRIES.items()}
"""The releases of a package, in their order."""


def released(packages: Iterable[str]) -> frozenset[Version]:
    """Return every release that one of the packages has."""
    return frozenset(Version(release) for package in packages for release in RELEASES[package])
