"""Every command that the README or a --help shows runs as it is written, in a copy of the project."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stackwright.cli import cli

ROOT = Path(__file__).parents[2]


def examples() -> list[str]:
    """Lines that start with ./build.py, without their remarks."""
    texts = [(ROOT / "README.md").read_text(), cli.epilog or ""]
    texts += [command.epilog or "" for command in cli.commands.values()]
    lines = (
        line
        for text in texts
        for line in re.findall(r"^\s*(\./build\.py .*?)\s*(?:#.*)?$", text, re.MULTILINE)
    )
    return sorted(set(lines), key=lambda line: ("lock" in line, "clean" in line, line))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files, the environment, and what `make run` made: as the user's own checkout has it."""
    folder = tmp_path_factory.mktemp("project")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "out").symlink_to(ROOT / "out")
    (folder / "other.yaml").symlink_to(folder / "matrix.yaml")
    return folder


def test_there_are_examples_of_every_command() -> None:
    shown = {line.split()[1] for line in examples()}
    assert set(cli.commands) <= shown


@pytest.mark.parametrize("line", examples())
def test_example(line: str, copy: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", line], cwd=copy, input="n\n", capture_output=True, text=True, check=False, timeout=1200
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout or done.stderr
