"""Images of a registry that a build starts from: where they are, and what they are called here. Pure."""

from __future__ import annotations

from stackwright.core.errors import SiteError
from stackwright.core.model.site import RegistryAddress, Site


def source_of(site: Site) -> RegistryAddress:
    """Raise SiteError where images are handed in."""
    if site.images is None:
        hint = "name a registry that has them, or build with locks that have no digests"
        raise SiteError("the site takes images from no registry", place="mirrors.images", hint=hint)
    return site.images


def repository(source: RegistryAddress, image: str) -> str:
    """Of an image NAME:TAG. One with a single word for a name is in docker.io's repository ``library``."""
    name = image.rpartition(":")[0]
    official = name if "/" in name else f"library/{name}"
    return f"{source.repository}/{official}" if source.repository else official


def reference(site: Site, image: str, digest: str) -> str:
    """Return what the engine pulls: by digest, whatever the tag leads to by then."""
    source = source_of(site)
    return f"{source.host}/{repository(source, image)}@{digest}"


def local_name(image: str, digest: str) -> str:
    """Under which the engine keeps it. A tag of the registry can be moved, and would then mean another."""
    plain = image.replace("/", "-").replace(":", "-")
    return f"stackwright/base:{plain}-{digest.removeprefix('sha256:')[:12]}"
