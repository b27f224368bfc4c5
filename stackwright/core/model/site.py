"""What a site sets for builds there: mirror, certificates, registries. Values; host/site reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"


REPOSITORY = re.compile(rf"{_PART}(/{_PART}){{0,20}}")
"""OCI distribution-spec 1.1, "Pulling manifests"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One ``--secret id=…,src=…`` of a build."""

    id: str
    path: Path

    @property
    def argument(self) -> str:
        return f"id={self.id},src={self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAddress:
    """``repository`` is below ``host``, which may have a port. ``plain``: it speaks http."""

    host: str
    repository: str
    ca: Path | None
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """``mirror`` is Debian's, ``ubuntu`` Ubuntu's.

    ``pip``: pip's option names and their values. ``proxies``: the environment's names in lower case.
    ``cache`` is a repository for the cache of builds; ``builders`` are names that buildx knows.
    ``images`` is docker.io or its mirror, whose ``repository`` then comes before those of images;
    None where images are handed in. ``labels`` are those that the site gives to its images.
    ``uv`` are uv's variables for the index; ``signing_password`` is that of ``signing_key``.
    ``sources`` is a folder with archives of sources that no index has.
    """

    mirror: str | None
    ca: Path | None
    pip: tuple[tuple[str, str], ...]
    proxies: tuple[tuple[str, str], ...]
    ubuntu: str | None = None
    registry: RegistryAddress | None = None
    signing_key: Path | None = None
    cache: str = ""
    builders: tuple[str, ...] = ()
    images: RegistryAddress | None = None
    labels: tuple[tuple[str, str], ...] = ()
    uv: tuple[tuple[str, str], ...] = ()
    signing_password: str = field(default="", repr=False)
    sources: Path | None = None

    def mirror_of(self, os: str) -> str | None:
        """Return the mirror of the distribution that a row's ``os`` is a release of."""
        return self.ubuntu if os.startswith("ubuntu-") else self.mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """``kept`` is a folder in which what was read of a Release file that is still the same is found again."""

    address: str
    kept: Path | None = None
