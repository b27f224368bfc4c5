"""A night over the rows of a small project, as `build.py nightly` works; test_nightly.py kills it.

Its images hold no Python, so their proof is a smaller one: what the last stage wrote is read back.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

from publishing import verdict
from rich.console import Console

from stackwright.build import phases, row
from stackwright.build.job import Job
from stackwright.core.model.matrix import Publish
from stackwright.core.model.night import Morning
from stackwright.core.model.record import Phase, Record
from stackwright.core.model.row import Tier
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.host.project import Project, cells
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.nightly import night, tags, words
from stackwright.nightly.publishing import publisher
from stackwright.nightly.upstream import Upstream, fresh_locks
from stackwright.publish import Publisher
from stackwright.publish.registry.client import Access, Registry
from stackwright.records import files as record

TEAM, SET = "team/images", "all"


def _judge(job: Job, current: Record) -> Record:
    read = engine.Job(image=job.reference, entrypoint=("cat",), argv=("/wheel",), network=False)
    said = engine.run(job.docker, read, timeout=60)
    right = said.ok and f"nvidia-nccl-cu12=={job.row.stack.nccl}" in said.stdout
    return record.judged(current, verdict(failed=() if right else (Tier.BUILT,)))


def project(root: Path) -> Project:
    return Project(root=root, matrix=root / "matrix.yaml", out=root / "out")


def work(root: Path, address: str = "", rows: Sequence[str] = (), runner: Runner | None = None) -> Morning:
    """``address`` is that of a registry; without one nothing is published."""
    found, runner = project(root), runner or Runner()
    small = replace(phases.PHASES[Phase.PROBE_DOCKER], do=_judge)
    table = {**phases.PHASES, Phase.PROBE_DOCKER: small}
    setattr(row, "PHASES", table)  # noqa: B010 (the row of a table that a small image cannot pass)
    site = settings.site(runner)
    upstream = Upstream(
        site=site, runner=runner, kept=found.out / "cache", digest=partial(tags.digest, site), same_night=0
    )
    order = night.Order(
        cells=cells(found, rows), whole=not rows, ask=partial(fresh_locks, upstream), site=lambda: site,
        publisher=publisher(address, TEAM, partial(_publisher, found, runner, address)) if address else None,
    )  # fmt: skip
    path = found.out / "history.sqlite"
    return night.work(found, order, history_path=path, runner=runner, console=Console(stderr=True))


def _publisher(found: Project, runner: Runner, address: str) -> Publisher:
    docker, access = engine.find(runner), Access(host=address, plain=True, patience=5)

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    return Publisher(
        project=found, scheme=replace(Publish(), set=SET), registry=Registry(access, say),
        base=TEAM, docker=docker, runner=runner, say=say, today=date(2026, 1, 2),
        skopeo=lambda: oci_tools.find(oci_tools.Name.SKOPEO, runner, docker, mirror=None),
    )  # fmt: skip


if __name__ == "__main__":
    print(words.text(work(Path(sys.argv[1]), sys.argv[2])))
