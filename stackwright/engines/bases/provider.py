"""What a base provider answers. Each is one module here and one template, dockerfiles/base.NAME.j2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stackwright.core.model.row import Base, Cell, Stack
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site.settings import Site
from stackwright.host.upstream.mirror import Mirror

Images = tuple[tuple[str, str], ...]
"""What a build starts from: the build argument, and the name of an image. BASE_IMAGE is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a provider gets its images with. ``bring`` is asked for an image that another node may have made;
    whether it did shows in the engine."""

    docker: Docker
    runner: Runner
    site: Site
    say: Callable[[str], None]
    bring: Callable[[str], None] = lambda name: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """``nvcc`` is the name in a lock's base of what holds the CUDA compiler, ``cuda_home`` where it lies.

    ``installs`` are the distribution's packages with it, from ``sections`` of the archive beyond main.
    ``copies`` is the folder of the stage ``cuda`` that becomes ``cuda_home`` instead, or empty.
    ``own_sources``: the base names a mirror, which a site's takes the place of, and which is not shipped.
    ``state`` asks for the versions of some packages; the mirror is None where the site has none.
    ``images`` are those that a rendered file names, ``wanted`` those that the lock means, and ``ensure``
    brings the wanted ones, or the nearest to them, into the engine. ``tagged`` are those that a registry has,
    whose tags can be moved: NAME:TAG.
    """

    nvcc: str
    cuda_home: str
    state: Callable[[Cell, tuple[str, ...], Mirror | None], Base]
    images: Callable[[Stack], Images]
    wanted: Callable[[Stack], Images]
    ensure: Callable[[Stack, Means], Images]
    tagged: Callable[[Cell], tuple[str, ...]] = lambda cell: ()
    own_sources: bool = False
    installs: tuple[str, ...] = ()
    sections: str = ""
    copies: Callable[[Stack], str] = lambda stack: ""
