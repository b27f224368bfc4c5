"""An image and its SIF as they are read from outside, once, and what the checks are given of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stackwright.core.benchmarks import nccl_tests
from stackwright.core.errors import EngineError
from stackwright.core.facts import distributions
from stackwright.core.ledger.books import Row
from stackwright.core.model.row import World
from stackwright.core.model.site import Site
from stackwright.core.render.own_files import digests
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned
from stackwright.host.runner import Runner
from stackwright.probe import site_leaks
from stackwright.probe.outside import layers, squashfs
from stackwright.probe.outside.documents import Documents, documents, not_read


def row_of(planned: Planned, world: str) -> Row:
    gcc = distributions.gcc_release(planned.stack.gcc)
    files = dict(pair for folder in planned.stack.files for pair in folder.expected())
    own = digests(planned.stack, dict(planned.recipe.files))
    benchmarks = (nccl_tests.NAME,) if planned.stack.nccl_tests else ()
    return Row(
        gcc=gcc, world=World(world), platform=planned.stack.platform, files=own | files, benchmarks=benchmarks
    )  # fmt: skip


def of_image(docker: Docker, image: str, site: Site, row: Row) -> Documents:
    """Raise EngineError where a layer cannot be read."""
    read = site_leaks.read(docker, image, site)
    return replace(documents(read.reads, row), layers=read.layers)


def of_sif(
    sif: Path,
    site: Site,
    row: Row,
    *,
    docker: Docker | None,
    runner: Runner,
    image: Mapping[str, Any] | None,
    made_of: str = "",
) -> Documents:
    """Return what is in a SIF. What cannot be read is not judged.

    ``image`` is the ledger of the image that it was made of, ``made_of`` its name in the engine:
    files that this process has searched there are compared with those, and not searched again.
    """
    search = site_leaks.search(site)
    found = engine.inspect(docker, made_of) if docker and made_of else None
    clean = layers.clean(found, search) if found else {}
    try:
        read = squashfs.read(sif, search, docker=docker, runner=runner, clean=clean)
    except EngineError as error:
        return not_read(str(error))
    return documents((read,), row, image)
