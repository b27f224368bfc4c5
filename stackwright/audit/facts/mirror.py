"""What a release of a distribution packages, from the indexes of its mirror."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from stackwright.audit.facts import deb
from stackwright.audit.facts.sources import Answer, Sources, ask
from stackwright.core.errors import SiteError
from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import Distribution
from stackwright.core.versions import upstream

OURS = ("tini", "libucx0", "ucx-utils")
"""Packages of our images that some releases lack."""


def read(sources: Sources) -> Iterator[Answer]:
    for known in distributions.DISTRIBUTIONS:
        yield ask("distributions", known.id, partial(_packages, sources, known))


def _packages(sources: Sources, known: Distribution) -> tuple[Any, str]:
    return offered(deb.versions(sources, known)), f"the mirror's package indexes of {' '.join(known.suites)}"


def offered(versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a release that rows depend on, from the versions of all its packages."""
    missing = sorted({"python3", "libc6", "openmpi-bin", "mpich", "cmake"} - set(versions))
    if missing:
        raise SiteError(f"the mirror has no package {', '.join(missing)}")
    own, toolkit = _minor(versions["python3"]), versions.get("nvidia-cuda-toolkit")
    return {
        "glibc": _minor(versions["libc6"]),
        "python": [own, *(python for python in _numbered(versions, r"python(3\.\d+)") if python != own)],
        "gcc": [gcc for gcc in _numbered(versions, r"gcc-(\d+(?:\.\d+)?)") if f"g++-{gcc}" in versions],
        "cuda": _minor(toolkit) if toolkit else None,
        "openmpi": upstream(versions["openmpi-bin"]),
        "mpich": upstream(versions["mpich"]),
        "cmake": upstream(versions["cmake"]),
        "lacks": [name for name in OURS if name not in versions],
    }


def _minor(version: str) -> str:
    return ".".join(upstream(version).split(".")[:2])


def _numbered(versions: Mapping[str, str], pattern: str) -> list[str]:
    found = (re.fullmatch(pattern, name) for name in versions)
    return sorted((match[1] for match in found if match), key=distributions.as_numbers)
