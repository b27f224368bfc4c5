"""The wheel, installed where no checkout is: one's own repository is made, planned and rendered there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rows import ROOT

from stackwright.cli.start import STARTER
from stackwright.host.project import Project, cells, plan

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
UV = Path(sys.executable).with_name("uv")
ROW = "cuda12-torch"


def run(*words: str | Path, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | environ
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("stackwright-*.whl")
    return made


@pytest.fixture(params=PYTHONS, scope="module")
def program(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = run(UV, "python", "find", "--no-python-downloads", request.param)
    if found.returncode:
        pytest.skip(f"this host has no Python {request.param}")
    folder = tmp_path_factory.mktemp("installed")
    assert run(found.stdout.strip(), "-m", "venv", folder).returncode == 0
    done = run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "stackwright"


def test_a_repository_of_one_s_own_is_made_planned_and_rendered(program: Path, tmp_path: Path) -> None:
    nothing = run(program, "plan", cwd=tmp_path)
    assert nothing.returncode == 3
    assert "stackwright init writes a first one" in nothing.stderr
    made = run(program, "init", cwd=tmp_path)
    assert (made.returncode, made.stderr.splitlines()[-1]) == (0, "next: stackwright plan")
    planned = run(program, "plan", "--json", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    (row,) = json.loads(planned.stdout)["rows"]
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path / "out")
    (here,) = plan(project, cells(project, [ROW])).rows
    assert row["key"] == here.recipe.key, "the wheel has the templates, patches and scripts of the checkout"
    assert run(program, "render", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out" / "rendered" / ROW / "Dockerfile").read_bytes() == dict(here.recipe.files)[
        "Dockerfile"
    ]


def test_what_is_there_is_kept(program: Path, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert "kept .gitignore" in run(program, "init", cwd=tmp_path).stderr
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    again = run(program, "init", cwd=tmp_path)
    assert again.returncode == 2
    assert "there is a matrix already" in again.stderr


def test_the_first_matrix_is_the_shipped_one_s_default_row() -> None:
    first, shipped = (
        yaml.safe_load(path.read_text()) for path in (STARTER / "matrix.yaml", ROOT / "matrix.yaml")
    )
    for key in ("defaults", "publish", "select"):
        assert first[key] == shipped[key]
    (row,) = first["include"]
    assert row == next(entry for entry in shipped["include"] if entry["id"] == ROW)
