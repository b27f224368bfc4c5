"""The nvidia provider: a plain Ubuntu is shipped, and nvcc comes from NVIDIA's image of the same Ubuntu.

Both come from a registry. Those whose digest a lock has are pulled by it. Others are named by tag, and what
the engine has under these names is taken as it is, so that a site without a registry hands its images in by
`docker load` or `docker tag`.
"""

from __future__ import annotations

from stackwright.core.errors import SiteError
from stackwright.core.model import base_images
from stackwright.core.model.row import ProviderName, Stack
from stackwright.core.resolve.bases import PROVIDERS, Images
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import image_exists

PULL_SECONDS = 3600
"""The devel image is 4 GB and more."""


def ensure(stack: Stack, means: BaseTools) -> Images:
    """Raise SiteError where the engine lacks an image and reaches no registry that has it."""
    provider, digests = PROVIDERS[ProviderName.NVIDIA], dict(stack.base.images)
    for (_, name), (_, local) in zip(provider.images(stack), provider.wanted(stack), strict=True):
        if image_exists(means.docker, local):
            continue
        means.say(f"{stack.id}: the engine has no {local}; pulling it")
        remote = base_images.reference(means.site, name, digests[name]) if name in digests else name
        _docker(means, local, "pull", "--quiet", remote)
        if remote != local:
            _docker(means, local, "tag", remote, local)
    return provider.wanted(stack)


def _docker(means: BaseTools, image: str, *words: str) -> None:
    done = means.runner(means.docker.command(*words), timeout=PULL_SECONDS)
    if not done.ok:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SiteError(
            f"the image could not be pulled: {said[-1]}",
            place=image,
            hint=f"let the engine reach a registry that has it (registry-mirrors), or hand it in: "
            f"docker load, or docker tag YOUR_IMAGE {image}",
        )
