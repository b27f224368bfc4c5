"""Works on a small row with the real pipeline, as `build.py build` would; test_pipeline.py kills it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from stackwright.build import row
from stackwright.build.display import Display
from stackwright.build.job import Job
from stackwright.core.errors import EngineError
from stackwright.core.model.record import Phase
from stackwright.core.model.row import Recipe
from stackwright.engines import docker
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings

ROOT = Path(__file__).parents[3]
STEPS = 4
KEY = "0123456789abcdef" * 4


def no_apptainer() -> None:
    raise EngineError("this row is not converted")


def job(out: Path, salt: str) -> Job:
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=out)
    real = plan(project, cells(project, ["cuda12-torch"])).rows[0]
    text = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}} AS final\nLABEL test.salt={salt}\n"
    text += "".join(f"RUN echo {salt} {step} && sleep 0.4\n" for step in range(STEPS))
    recipe = Recipe(id="pipeline-test", key=KEY, files=(("Dockerfile", text.encode()),))
    runner = Runner()
    return Job(
        project=project,
        row=Planned(stack=replace(real.stack, id=recipe.id), recipe=recipe),
        engine=docker.find(runner),
        apptainer=no_apptainer,  # type: ignore[arg-type]
        site=settings.site(runner),
        runner=runner,
        display=Display(Console(stderr=True)),
    )


if __name__ == "__main__":
    row.work(job(Path(sys.argv[1]), sys.argv[2]), (Phase.BASE, Phase.BUILD))
