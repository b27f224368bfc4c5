"""The publisher of a site: its registry, the matrix' scheme, and today."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from stackwright.core.config import load
from stackwright.core.errors import SiteError
from stackwright.core.model.site import RegistryAddress, Site
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.host.project import Project
from stackwright.host.runner import Runner
from stackwright.publish.attest import hook
from stackwright.publish.registry.client import Access, Registry
from stackwright.publish.rows import Publisher


def access(address: RegistryAddress, proxies: tuple[tuple[str, str], ...]) -> Access:
    ca = address.ca.resolve() if address.ca else None  # a journal is finished from wherever that may be
    return Access(host=address.host, ca=ca, plain=address.plain, proxies=proxies)


def address(site: Site) -> RegistryAddress:
    """Raise SiteError where no registry is named."""
    if site.registry is None:
        hint = "registry: {address: HOST/REPOSITORY} in site.yaml, or STACKWRIGHT_REGISTRY"
        raise SiteError("no registry is configured to publish to", hint=hint)
    return site.registry


def to_site(
    project: Project, site: Site, *, runner: Runner, say: Callable[[str], None],
    allow_less: Collection[str] = (), sif: bool = False,
) -> Publisher:  # fmt: skip
    """Return what publishes to the site's registry, and signs where the site has a key.

    Raises SiteError where no registry is named, PublishError where Docker's configuration cannot be read.
    """
    docker = engine.find(runner, project=project.id)
    before_tags = hook.before_tags(project, site, docker=docker, runner=runner, say=say)
    registry = address(site)
    return Publisher(
        project=project, scheme=load.load(project.matrix).publish, base=registry.repository,
        registry=Registry(access(registry, site.proxies), say), docker=docker, runner=runner, say=say,
        skopeo=lambda: oci_tools.find(oci_tools.Name.SKOPEO, runner, docker, mirror=site.mirror),
        today=datetime.now(UTC).date(), allow_less=allow_less, sif=sif, before_tags=before_tags,
    )  # fmt: skip
