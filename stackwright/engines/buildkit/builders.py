"""Builders of buildx that are no engine of this machine, by name: remote, Kubernetes, or in a container.

They have none of the engine's images, so what a build starts from is handed to them as an OCI layout; what
they made is loaded into the engine, where it is probed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stackwright.core.errors import EngineError
from stackwright.core.model.site import Site
from stackwright.core.resolve.bases import Images
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.engines.oci_tools import Tool
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Runner

ANSWERS_WITHIN = 60
"""Seconds: Kubernetes may have to start it first."""

PACKING = 1800


def answering(names: Sequence[str], docker: Docker, runner: Runner) -> str:
    """Return the first builder that answers. EngineError, with what each of them said, where none does."""
    said = []
    for name in names:
        done = runner(docker.command("buildx", "inspect", "--bootstrap", name), timeout=ANSWERS_WITHIN)
        if done.ok and "running" in done.stdout:
            return name
        lines = [line for line in done.stdout.splitlines() if line.startswith("Error:")]
        said.append(f"{name}: {lines[0] if lines else last_line(done)}")
    raise EngineError(f"no builder of the site answers: {'; '.join(said)}", hint="docker buildx ls")


def options(builder: str, cache: str, row: str) -> tuple[str, ...]:
    """Words of `docker buildx build`. Docker's own builder reads a cache of a registry and writes none."""
    words: tuple[str, ...] = ("--builder", builder, "--load") if builder else ()
    if cache:
        words += ("--cache-from", f"type=registry,ref={cache}:{row}")
    if cache and builder:
        words += ("--cache-to", f"type=registry,ref={cache}:{row},mode=max,ignore-error=true")
    return words


def chosen(
    site: Site, images: Images, folder: Path, *, row: str, docker: Docker, runner: Runner
) -> tuple[str, ...]:
    """Return words for a builder of the site's with what it is handed, or for the engine's own."""
    if not site.builders:
        return options("", site.cache, row)
    name = answering(site.builders, docker, runner)
    skopeo = oci_tools.find(oci_tools.Name.SKOPEO, runner, docker, mirror=site.mirror)
    handed = contexts(images, folder, docker=docker, runner=runner, skopeo=skopeo)
    return (*options(name, site.cache, row), *handed)


def contexts(
    images: Images, folder: Path, *, docker: Docker, runner: Runner, skopeo: Tool
) -> tuple[str, ...]:
    """Return the same for the images that a build starts from; ``folder`` receives them."""
    words: list[str] = []
    for _, name in images:
        archive, target = folder / "image.tar", folder / f"layout-{len(words)}"
        engine.save(docker, runner, name, archive)
        done = skopeo(
            "copy",
            "--quiet",
            f"docker-archive:{archive}",
            f"oci:{target}:base",
            folders=(folder,),
            timeout=PACKING,
        )
        archive.unlink()
        if not done.ok:
            raise EngineError(f"skopeo: {last_line(done)}", place=name, hint="run it again by hand")
        words += ["--build-context", f"{name}=oci-layout://{target}:base"]
    return tuple(words)
