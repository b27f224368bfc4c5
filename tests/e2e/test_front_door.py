"""build.py finds its environment, also through a link, and says what to do when there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_OF_THE_PROJECT = {".git", ".venv", "out", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("build.py", "matrix.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in filter(Path.is_dir, ROOT.iterdir()):
        if folder.name not in NOT_OF_THE_PROJECT:
            shutil.copytree(folder, tmp_path / folder.name)
    return tmp_path


def call(folder: Path) -> subprocess.CompletedProcess[str]:
    argv = ["python3", str(folder / "build.py"), "plan", "--json"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, cwd="/")


def test_without_an_environment_it_says_to_make_one(copy: Path) -> None:
    done = call(copy)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("next: make env")
    assert done.stdout == ""


def test_the_environment_may_be_a_link(copy: Path) -> None:
    (copy / ".venv").symlink_to(Path(sys.prefix))
    done = call(copy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{")
