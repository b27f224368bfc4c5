"""Base providers: where the image's distribution comes from, and the compiler of CUDA for it.

A provider is a value here, a state in ``host/upstream/states.py``, a module of ``engines/bases`` that brings
its images into the engine, and a template, dockerfiles/base.NAME.j2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stackwright.core.facts import distributions
from stackwright.core.model import base_images
from stackwright.core.model.row import Cell, ProviderName, Stack
from stackwright.core.model.target import AMD64, Platform
from stackwright.core.rules.derived import cuda_of

Images = tuple[tuple[str, str], ...]
"""What a build starts from: the build argument, and the name of an image. BASE_IMAGE is the first."""

NVCC = "nvidia-cuda-image"
"""An entry of a lock among the distribution's packages: the release in the tag of NVIDIA's image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """``nvcc`` is the name in a lock's base of what holds the CUDA compiler, ``cuda_home`` where it lies.

    ``installs`` are the distribution's packages with it, from ``sections`` of the archive beyond main.
    ``copies`` is the folder of the stage ``cuda`` that becomes ``cuda_home`` instead, or empty.
    ``images`` are those that a rendered file names, ``wanted`` those that the lock means. ``tagged`` are
    those that a registry has, whose tags can be moved: NAME:TAG.
    """

    nvcc: str
    cuda_home: str
    images: Callable[[Stack], Images]
    wanted: Callable[[Stack], Images]
    tagged: Callable[[Cell], tuple[str, ...]] = lambda cell: ()
    installs: tuple[str, ...] = ()
    sections: str = ""
    copies: Callable[[Stack], str] = lambda stack: ""


# -- debian -----------------------------------------------------------------------------------------


def reference(os: str, date: str, platform: Platform = AMD64) -> str:
    """Return the name of a base that was made from the distribution's mirror."""
    return f"stackwright/base:{os}{platform.suffix}-{date}"


def _debian_images(stack: Stack) -> Images:
    return (("BASE_IMAGE", distributions.known(stack.os).image),)


def _debian_wanted(stack: Stack) -> Images:
    return (("BASE_IMAGE", reference(stack.os, stack.base.date, stack.platform)),)


# -- nvidia -----------------------------------------------------------------------------------------


def nvidia_release(cell: Cell) -> str:
    """Return the release in the tag of NVIDIA's image."""
    cuda = cuda_of(cell)
    tag = distributions.nvidia_tag(cell.os, cuda) if cuda else None
    assert tag, "a row without one is rejected before it is locked"
    return tag


def _nvidia_images(stack: Stack) -> Images:
    return _nvidia(stack.os, next(package.version for package in stack.base.packages if package.name == NVCC))


def _nvidia_tagged(cell: Cell) -> tuple[str, ...]:
    return tuple(name for _, name in _nvidia(cell.os, nvidia_release(cell)))


def _nvidia(os: str, release: str) -> Images:
    ubuntu = distributions.known(os).image
    return (("BASE_IMAGE", ubuntu), ("CUDA_IMAGE", f"nvidia/cuda:{release}-devel-{ubuntu.replace(':', '')}"))


def _nvidia_wanted(stack: Stack) -> Images:
    known = dict(stack.base.images)
    return tuple(
        (argument, base_images.local_name(name, known[name]) if name in known else name)
        for argument, name in _nvidia_images(stack)
    )


PROVIDERS: Mapping[str, Provider] = {
    ProviderName.DEBIAN: Provider(
        nvcc="nvidia-cuda-toolkit",
        cuda_home="/usr",
        installs=("nvidia-cuda-toolkit",),
        sections="contrib non-free",
        images=_debian_images,
        wanted=_debian_wanted,
    ),
    ProviderName.NVIDIA: Provider(
        nvcc=NVCC,
        cuda_home="/usr/local/cuda",
        copies=lambda stack: f"/usr/local/cuda-{stack.cuda}",
        images=_nvidia_images,
        wanted=_nvidia_wanted,
        tagged=_nvidia_tagged,
    ),
}
