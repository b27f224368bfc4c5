"""A small image that stands for a row, with a record whose verdict the real checks gave, and its facts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import image_facts
import report_samples
import rows

from stackwright.core.checks.judge import verify
from stackwright.core.checks.observed import found
from stackwright.core.model.labels import of_recipe
from stackwright.core.model.record import Image, Record, flatten
from stackwright.core.model.row import Tier
from stackwright.core.render import dockerfile
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned
from stackwright.host.runner import Runner

NOT_RUN = {Tier.GPU: report_samples.NO_GPU}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallRow:
    """``archive`` is what `docker save` wrote, with the tag ``1``."""

    row: Planned
    record: Record
    facts: dict[str, Any]
    archive: Path


def planned(id: str) -> Planned:
    stack = rows.stack(id=id, patches=("cxx17.patch",))
    return Planned(stack=stack, recipe=dockerfile.render(stack, rows.SOURCES))


def facts_of(row: Planned) -> dict[str, Any]:
    """Those of an image that is this row, with every package of its lock."""
    facts = image_facts.docker_facts(row.stack)
    locked = {package.name: package.version for package in row.stack.lock.packages}
    had = facts["system"]["python_packages"].items()
    unlocked = {name: text for name, text in had if name not in image_facts.PACKAGES}
    facts["system"]["python_packages"] = unlocked | locked
    return facts


@contextmanager
def small_row(id: str, tiny: str, docker: Docker, runner: Runner, folder: Path) -> Iterator[SmallRow]:
    """The image has the row's real labels, and one layer of its own."""
    row = planned(id)
    facts = facts_of(row)
    labels = dict((*dockerfile.labels(row.stack), *of_recipe(row.recipe)))
    (folder / "Dockerfile").write_text(
        "\n".join((f"FROM {tiny}", f"RUN echo {uuid4().hex} > /salt", *_quoted(labels), ""))
    )
    name = f"stackwright-test/signed-{uuid4().hex[:12]}:1"
    done = runner(docker.command("buildx", "build", "--provenance=false", "--tag", name, folder))
    assert done.ok, done.stderr
    try:
        seen = engine.inspect(docker, name)
        assert seen
        archive = engine.save(docker, runner, name, folder / "image.tar")
        yield SmallRow(row=row, record=recorded(row, facts, seen), facts=facts, archive=archive)
    finally:
        engine.remove(docker, name)


def _quoted(labels: dict[str, str]) -> Iterator[str]:
    for name, text in labels.items():
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        yield f'LABEL {name}="{escaped}"'


def recorded(row: Planned, facts: dict[str, Any], inspected: dict[str, Any]) -> Record:
    verdict = verify(row.stack, facts, "docker", NOT_RUN)
    assert not verdict.failed, verdict.failed
    image = Image(
        reference=dockerfile.reference(row.recipe), id=inspected["Id"], bytes=inspected["Size"], base="base:1"
    )
    return replace(
        report_samples.built(row=row.stack.id), key=row.recipe.key, lock=row.stack.lock.sha256,
        declared=flatten(dockerfile.declared(row.stack)), found=found(row.stack, facts), image=image,
        verdicts=(verdict,), sif=None,
    )  # fmt: skip
