"""What the tags of images lead to now, as their registry says. Nothing is pulled."""

from __future__ import annotations

from stackwright.core.errors import PublishError, SiteError
from stackwright.core.model import base_images
from stackwright.core.model.site import Site
from stackwright.publish.registry.client import Access, Registry

HINT = "mirrors.images of the site names a registry that has it; `none`: images are handed in (docs/site.md)"
PATIENCE, TIMEOUT = 20.0, 20.0
"""Seconds. A caller waits for the answer, and can ask again."""


def digest(site: Site, image: str) -> str:
    """sha256:… of the manifest, or of the index of platforms, that NAME:TAG leads to.

    SiteError where the registry does not answer, or has no such tag.
    """
    source = base_images.source_of(site)
    access = Access(
        host=source.host, ca=source.ca, plain=source.plain, proxies=site.proxies, timeout=TIMEOUT,
        patience=PATIENCE,
    )  # fmt: skip
    repository, tag = base_images.repository(source, image), image.rpartition(":")[2]
    try:
        found = Registry(access, lambda text: None).digest_of(repository, tag)
    except PublishError as error:
        cause = f"{source.host} did not say what {image} leads to: {error.cause}"
        raise SiteError(cause, place=image, hint=HINT) from None
    if found is None:
        raise SiteError(f"{source.host} has no {image}", place=image, hint=HINT)
    return found
