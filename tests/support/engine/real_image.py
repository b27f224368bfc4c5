"""What the tests of a real image share: which it is, and how it is probed and judged.

The image is the one of the first row that STACKWRIGHT_ROW names, or of the first that the matrix selects; it
has to be built. STACKWRIGHT_IMAGE takes another name for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from pathlib import Path

from stackwright.build.sif import convert
from stackwright.core.model.row import Stack, Tier, Verdict, World
from stackwright.core.render import dockerfile
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Mount
from stackwright.host import project
from stackwright.host.runner import Completed, Runner
from stackwright.host.site import settings
from stackwright.probe.outside.documents import not_read
from stackwright.probe.run import Subject, probe_image

ROOT = Path(__file__).parents[3]
SHARED_MEMORY = 2**30
NOT_ASKED = "this test asks for another tier"


def first_row() -> project.Planned:
    where = project.Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
    patterns = os.environ.get("STACKWRIGHT_ROW", "").split() or project.default_rows(where)
    return project.plan(where, project.cells(where, patterns)).rows[0]


def name_of(row: project.Planned, docker: Docker) -> str:
    name = os.environ.get("STACKWRIGHT_IMAGE") or dockerfile.reference(row.recipe)
    assert engine.image_exists(docker, name), (
        f"{name} is not there: run ./build.py build {row.stack.id} first"
    )
    return name


def judge_sif(
    runner: Runner, docker: Docker, stack: Stack, sif: Path, tiers: Set[Tier], folder: Path
) -> Verdict:
    """Judge a SIF by the tiers; none of its checks reads the file from outside."""
    apptainer = apptainers.find(runner, docker, mirror=settings.apt_mirror(runner))
    labels, scripts = convert.described(apptainer, sif)

    def execute(
        argv: Sequence[str], *, mounts: Sequence[Mount], timeout: float, user: str | None,
        read_only: bool = False,
    ) -> Completed:  # fmt: skip
        return convert.execute(apptainer, sif, argv, mounts=mounts, timeout=timeout, user=user)

    not_run = dict.fromkeys(set(Tier) - tiers, NOT_ASKED)
    subject = Subject(
        world=World.SIF, execute=execute, labels=labels, scripts=scripts,
        outside=lambda: not_read("this test asks for what the probes find"),
    )  # fmt: skip
    return probe_image(stack, subject, probes=ROOT / "probes", folder=folder, not_run=not_run).verdict


def judge(docker: Docker, stack: Stack, name: str, tiers: Set[Tier], folder: Path) -> Verdict:
    def execute(
        argv: Sequence[str], *, mounts: Sequence[Mount], timeout: float, user: str | None,
        read_only: bool = False,
    ) -> Completed:  # fmt: skip
        # Past the entry point, so that a planted one is found by its check and hides no other.
        job = engine.Job(
            image=name, entrypoint=tuple(argv[:1]), argv=tuple(argv[1:]), mounts=tuple(mounts), user=user,
            network=False, shm=SHARED_MEMORY, read_only=read_only,
        )  # fmt: skip
        return engine.run(docker, job, timeout=timeout)

    not_run = dict.fromkeys(set(Tier) - tiers, NOT_ASKED)
    subject = Subject(
        world=World.DOCKER, execute=execute, image=engine.inspect(docker, name),
        history=[layer.created_by for layer in engine.layers(docker, name)],
        outside=lambda: not_read("this test asks for what the probes find"),
    )  # fmt: skip
    return probe_image(stack, subject, probes=ROOT / "probes", folder=folder, not_run=not_run).verdict
