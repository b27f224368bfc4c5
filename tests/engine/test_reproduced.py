"""A row that is built again, from nothing and at another time, has the same layers and the same id."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import cut_down
import pytest

from bench import reproduce
from stackwright.core.facts import distributions
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.row import Stack
from stackwright.core.render import dockerfile
from stackwright.core.render.sources import Sources
from stackwright.engines import docker as engine
from stackwright.engines.bases.table import ENSURE
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
Build = Callable[[str, Sources], Path]


@pytest.fixture(scope="module")
def row() -> Stack:
    return cut_down.row()


@pytest.fixture(scope="module")
def build(
    row: Stack, docker: Docker, runner: Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Build]:
    """Without any step of before; the archive of the image, whose layers are as the registry gets them."""
    site, names = settings.site(runner), []
    images = ENSURE[row.provider](row, BaseTools(docker=docker, runner=runner, site=site, say=print))

    def run(what: str, sources: Sources) -> Path:
        folder, name = tmp_path_factory.mktemp(what), f"stackwright-test/{what}-{uuid4().hex[:12]}:1"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dockerfile, "_packages", lambda *_: cut_down.PACKAGES)
            recipe = dockerfile.render(row, sources)
        dockerfile.write(recipe, folder / "context")
        secrets = settings.site_secrets(folder / "site", site, distributions.known(row.os))
        done = runner(
            docker.command(
                "buildx", "build", "--no-cache", "--provenance=false", "--tag", name, "--target", "final",
                "--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}",
                *(word for image in images for word in ("--build-arg", "=".join(image))),
                *(word for proxy, _ in site.proxies for word in ("--build-arg", proxy)),
                *(word for secret in secrets for word in ("--secret", secret.argument)),
                folder / "context",
            ),
            env={**os.environ, **dict(site.proxies)},
        )  # fmt: skip
        assert done.ok, done.stderr[-3000:]
        names.append(name)
        return engine.save(docker, runner, name, folder / "image.tar")

    yield run
    for name in names:
        engine.remove(docker, name)


@pytest.fixture(scope="module")
def first(build: Build) -> Path:
    return build("first", cut_down.SMALL)


def test_the_same_row_has_the_same_layers(build: Build, first: Path) -> None:
    time.sleep(1.1)
    second = build("second", cut_down.SMALL)
    before, after = list(reproduce.layers(first)), list(reproduce.layers(second))
    assert len(before) > 4
    assert list(reproduce.compare(before, after)) == []
    assert [layer.digest for layer in before] == [layer.digest for layer in after]


def test_it_would_be_seen_if_times_were_left_as_they_are(build: Build, first: Path) -> None:
    """Also shows that the base is young enough for times to matter."""
    templates = [
        (name, text.replace("find / -xdev", "false && find / -xdev").replace("{} +", "{} + || true"))
        if name == "macros.j2" else (name, text)
        for name, text in cut_down.SMALL.templates
    ]  # fmt: skip
    other = build("times", replace(cut_down.SMALL, templates=tuple(templates)))
    causes = {
        difference.cause
        for difference in reproduce.compare(list(reproduce.layers(first)), list(reproduce.layers(other)))
    }
    assert causes == {"the time of the build in the file's time"}
