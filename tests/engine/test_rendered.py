"""What is rendered is read by BuildKit itself: its parser, its linter, and bake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackwright.core.model.target import AMD64
from stackwright.core.render import dockerfile
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.host.runner import Runner

ROOT = Path(__file__).parents[2]
MATRICES = ("matrix.yaml", "matrix.nvidia.yaml", "matrix.arm.yaml")
PROJECTS = [Project(root=ROOT, matrix=ROOT / name, out=ROOT / "out") for name in MATRICES]
ROWS = [row for project in PROJECTS for row in plan(project, cells(project)).rows]
RECIPES = [row.recipe for row in ROWS]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rendered")
    dockerfile.write_all(RECIPES, folder)
    return folder


@pytest.fixture
def linter(docker: Docker, runner: Runner) -> tuple[str, ...]:
    """The engine that scripts/engine.sh installs has one; a user's own Docker 23 may not."""
    if "--call" not in runner(docker.command("buildx", "build", "--help")).stdout:
        pytest.skip("this buildx has no linter (it came with 0.15)")
    return docker.command("buildx", "build", "--call", "check")


def test_bake_accepts_the_bake_file(rendered: Path, docker: Docker, runner: Runner) -> None:
    done = runner(docker.command("buildx", "bake", "--file", dockerfile.BAKE_FILE, "--print"), cwd=rendered)
    assert done.ok, done.stderr
    targets = json.loads(done.stdout)["target"]
    assert set(targets) == {recipe.id for recipe in RECIPES}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_the_linter_finds_nothing(
    row: Planned, rendered: Path, linter: tuple[str, ...], runner: Runner, tiny: str
) -> None:
    """``tiny`` takes the place of the bases, because no registry may be there to ask about the real ones."""
    images = {name: tiny for name, _ in PROVIDERS[row.stack.provider].images(row.stack)}
    own = {"PLATFORM": AMD64.name} if row.stack.platform.named else {}
    swapped = (word for pair in (images | own).items() for word in ("--build-arg", "=".join(pair)))
    done = runner([*linter, *swapped, rendered / row.stack.id])
    assert done.ok, done.stdout + done.stderr
    assert "no warnings found" in done.stdout + done.stderr


def test_the_linter_would_find_something(tmp_path: Path, linter: tuple[str, ...], runner: Runner) -> None:
    (tmp_path / "Dockerfile").write_text("from scratch\nCOPY a b\nMAINTAINER nobody\n")
    done = runner([*linter, tmp_path])
    assert not done.ok
    assert "MaintainerDeprecated" in done.stdout + done.stderr
