"""Read NCCL's plugin for libfabric, and nccl-tests: of each release, what the archive of its source says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from stackwright.audit.facts.sources import Answer, Sources, ask_all
from stackwright.core.archive import Release, Source, source
from stackwright.core.benchmarks import nccl_tests
from stackwright.core.errors import SiteError
from stackwright.core.ofi.plugin import RELEASES
from stackwright.host.upstream import web

INTERFACE = "src/nccl_ofi_interface_nvidia.cpp"
LIBFABRIC = "m4/check_pkg_libfabric.m4"
NOTES = "RELEASENOTES.md"
HEADER = "src/common.h"
"""Of nccl-tests."""

NET = re.compile(r"\bncclNetPlugin_v(\d{1,3}) = \{")
OLDEST_LIBFABRIC = re.compile(r"FI_VERSION_LT\(.*?FI_VERSION\((\d+),\s*(\d+)\)\)")
VERSION = re.compile(r'^#define NCCL_TESTS_VERSION "([\d.]+)"', re.M)
OLDEST_NCCL = re.compile(r"\[NCCL v([\d.]+)\]\([^)\s]*\) and later")


def read(sources: Sources) -> Iterator[Answer]:
    """Of each release that the table has; another one is a line of the table first."""
    questions = ((release.version, partial(_release, sources, release)) for release in RELEASES)
    yield from ask_all(("ofi-plugins", version, question) for version, question in questions)


def tests(sources: Sources) -> Iterator[Answer]:
    """Of each release of nccl-tests that the table has."""
    questions = ((release.version, partial(_tests, sources, release)) for release in nccl_tests.RELEASES)
    yield from ask_all(("nccl-tests", version, question) for version, question in questions)


def _release(sources: Sources, release: Release) -> tuple[Any, str]:
    found = source_of(content(sources.archives, release), release.archive)
    return found, f"{release.REPOSITORY} at the tag v{release.version}"


def _tests(sources: Sources, release: Release) -> tuple[Any, str]:
    found = tests_of(content(sources.archives, release), release)
    return found, f"{release.REPOSITORY} at the tag v{release.version}"


def content(folder: Path | None, release: Release) -> bytes:
    """Return the archive of the release's tag: of the site's folder, else of the project's repository."""
    if folder and (path := folder / release.archive).is_file():
        return path.read_bytes()
    return web.page(f"{release.REPOSITORY}/archive/refs/tags/v{release.version}.tar.gz", "application/gzip")


def source_of(content: bytes, name: str) -> dict[str, Any]:
    """Return a release's line of the table. SiteError where the archive does not say it."""
    try:
        return _line(source(content, (INTERFACE, LIBFABRIC, NOTES)))
    except (ValueError, KeyError, IndexError) as error:
        raise SiteError(f"{name} cannot be read: {error}") from error


def tests_of(content: bytes, release: Release) -> dict[str, Any]:
    """Return the same of nccl-tests, which says its release itself."""
    try:
        found = source(content, (HEADER,))
        said = VERSION.findall(found.texts[HEADER])
    except (ValueError, KeyError) as error:
        raise SiteError(f"{release.archive} cannot be read: {error}") from error
    if said != [release.version] or not found.commit:
        raise SiteError(f"{release.archive} is of {', '.join(said) or 'no release'}, or names no commit")
    return {"commit": found.commit, "sha256": found.sha256}


def _line(found: Source) -> dict[str, Any]:
    oldest = OLDEST_LIBFABRIC.findall(found.texts[LIBFABRIC])[0]
    nets = sorted(set(map(int, NET.findall(found.texts[INTERFACE]))))
    if not found.commit or not nets:
        raise ValueError("it names no commit, or no interface of NCCL")
    return {
        "commit": found.commit,
        "sha256": found.sha256,
        "nets": nets,
        "libfabric": ".".join(oldest),
        "nccl": OLDEST_NCCL.findall(found.texts[NOTES])[0],
    }
