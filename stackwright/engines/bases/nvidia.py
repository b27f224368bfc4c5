"""The nvidia provider: a plain Ubuntu is shipped, and nvcc comes from NVIDIA's image of the same Ubuntu.

Both come from a registry. Those whose digest a lock has are pulled by it. Others are named by tag, and what
the engine has under these names is taken as it is, so that a site without a registry hands its images in by
`docker load` or `docker tag`.
"""

from __future__ import annotations

from stackwright.core.errors import SiteError
from stackwright.core.facts import distributions
from stackwright.core.model import base_images
from stackwright.core.model.row import Base, Cell, Package, Stack
from stackwright.core.rules.compilers import cuda_of
from stackwright.engines.bases.provider import Images, Means, Provider
from stackwright.engines.docker import image_exists
from stackwright.host.upstream.mirror import Mirror, read_suite

NVCC = "nvidia-cuda-image"
"""Stands in a lock beside the distribution's packages: the release in the tag of NVIDIA's image."""

PULL_SECONDS = 3600
"""The devel image is 4 GB and more."""


def state(cell: Cell, packages: tuple[str, ...], mirror: Mirror | None) -> Base:
    """From a mirror of Ubuntu; without one from the tables, as exactly as they know it."""
    ubuntu, tag = distributions.known(cell.os), _release(cell)
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


def _of_tables(ubuntu: distributions.Distribution, names: tuple[str, ...]) -> Base:
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


def _release(cell: Cell) -> str:
    cuda = cuda_of(cell)
    tag = distributions.nvidia_tag(cell.os, cuda) if cuda else None
    assert tag, "a row without one is rejected before it is locked"
    return tag


def images(stack: Stack) -> Images:
    return _images(stack.os, next(one.version for one in stack.base.packages if one.name == NVCC))


def tagged(cell: Cell) -> tuple[str, ...]:
    return tuple(name for _, name in _images(cell.os, _release(cell)))


def _images(os: str, release: str) -> Images:
    ubuntu = distributions.known(os).image
    return (("BASE_IMAGE", ubuntu), ("CUDA_IMAGE", f"nvidia/cuda:{release}-devel-{ubuntu.replace(':', '')}"))


def wanted(stack: Stack) -> Images:
    known = dict(stack.base.images)
    return tuple(
        (argument, base_images.local_name(name, known[name]) if name in known else name)
        for argument, name in images(stack)
    )


def ensure(stack: Stack, means: Means) -> Images:
    """SiteError where the engine lacks an image and reaches no registry that has it."""
    digests = dict(stack.base.images)
    for (_, name), (_, local) in zip(images(stack), wanted(stack), strict=True):
        if image_exists(means.docker, local):
            continue
        means.say(f"{stack.id}: the engine has no {local}; pulling it")
        remote = base_images.reference(means.site, name, digests[name]) if name in digests else name
        _docker(means, local, "pull", "--quiet", remote)
        if remote != local:
            _docker(means, local, "tag", remote, local)
    return wanted(stack)


def _docker(means: Means, image: str, *words: str) -> None:
    done = means.runner(means.docker.command(*words), timeout=PULL_SECONDS)
    if not done.ok:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SiteError(
            f"the image could not be pulled: {said[-1]}",
            place=image,
            hint=f"let the engine reach a registry that has it (registry-mirrors), or hand it in: "
            f"docker load, or docker tag YOUR_IMAGE {image}",
        )


PROVIDER = Provider(
    nvcc=NVCC,
    cuda_home="/usr/local/cuda",
    own_sources=True,
    copies=lambda stack: f"/usr/local/cuda-{stack.cuda}",
    state=state,
    images=images,
    wanted=wanted,
    ensure=ensure,
    tagged=tagged,
)
