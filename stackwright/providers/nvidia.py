"""The nvidia provider: a plain Ubuntu is shipped, and nvcc comes from NVIDIA's image of the same Ubuntu.

Both are named by tag and come from a registry. What the engine has under these names is taken as it is, so
that a site without a registry hands its images in by `docker load` or `docker tag`.
"""

from __future__ import annotations

from stackwright.engines.docker import image_exists
from stackwright.errors import SiteError
from stackwright.model import Base, Cell, Package, Stack
from stackwright.providers.provider import Images, Means, Provider
from stackwright.rules import tables
from stackwright.rules.compiler import cuda_of
from stackwright.suite import read_suite

NVCC = "nvidia-cuda-image"
"""Stands in a lock beside the distribution's packages: the release in the tag of NVIDIA's image."""

PULL_SECONDS = 3600
"""The devel image is 4 GB and more."""


def state(cell: Cell, packages: tuple[str, ...], mirror: str | None) -> Base:
    """From a mirror of Ubuntu; without one from the tables, as exactly as they know it."""
    ubuntu = tables.known(cell.os)
    cuda = cuda_of(cell)
    tag = tables.nvidia_tag(cell.os, cuda) if cuda else None
    assert tag, "a row without one is rejected before it is locked"
    wanted = tuple(name for name in packages if name != NVCC)
    found = read_suite(mirror, ubuntu, wanted) if mirror else _of_tables(ubuntu, wanted)
    known = (*found.packages, Package(name=NVCC, version=tag))
    return Base(
        os=found.os,
        suite=found.suite,
        release=found.release,
        date=found.date,
        digest=found.digest,
        packages=tuple(sorted(known, key=lambda package: package.name)),
    )


def _of_tables(ubuntu: tables.Distribution, names: tuple[str, ...]) -> Base:
    versions = {"libc6": ubuntu.glibc, "openmpi-bin": ubuntu.openmpi, "mpich": ubuntu.mpich}
    versions |= {f"gcc-{gcc}": gcc for gcc in ubuntu.gcc}
    versions |= {f"python{python}": python for python in (ubuntu.python, *ubuntu.pythons)}
    return Base(
        os=ubuntu.id,
        suite=ubuntu.suite,
        release=ubuntu.id.partition("-")[2],
        date="",
        digest="",
        packages=tuple(Package(name=name, version=versions[name]) for name in names),
    )


def images(stack: Stack) -> Images:
    ubuntu = tables.known(stack.os).image
    tag = next(package.version for package in stack.base.packages if package.name == NVCC)
    return (("BASE_IMAGE", ubuntu), ("CUDA_IMAGE", f"nvidia/cuda:{tag}-devel-{ubuntu.replace(':', '')}"))


def ensure(stack: Stack, means: Means) -> Images:
    """SiteError where the engine lacks an image and reaches no registry that has it."""
    for _, name in images(stack):
        if image_exists(means.docker, name):
            continue
        means.say(f"{stack.id}: the engine has no {name}; pulling it")
        done = means.runner(means.docker.command("pull", "--quiet", name), timeout=PULL_SECONDS)
        if not done.ok:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise SiteError(
                f"the image could not be pulled: {said[-1]}",
                place=name,
                hint=f"let the engine reach a registry that has it (registry-mirrors), or hand it in: "
                f"docker load, or docker tag YOUR_IMAGE {name}",
            )
    return images(stack)


PROVIDER = Provider(
    nvcc=NVCC,
    cuda_home="/usr/local/cuda",
    own_sources=True,
    copies=lambda stack: f"/usr/local/cuda-{stack.cuda}",
    state=state,
    images=images,
    wanted=images,
    ensure=ensure,
)
