"""Every command that the README or a --help shows runs as it is written, in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_server import registry

from stackwright.cli.main import cli
from stackwright.host.runner import Runner

ROOT = Path(__file__).parents[2]


def examples() -> list[str]:
    """Lines that start with ./build.py, without their remarks."""
    texts = [(ROOT / "README.md").read_text(), cli.epilog or ""]
    texts += [command.epilog or "" for command in cli.every().values()]
    lines = (
        line
        for text in texts
        for line in re.findall(r"^\s*(\./build\.py .*?)\s*(?:#.*)?$", text, re.MULTILINE)
    )
    return sorted(set(lines), key=lambda line: (line.split()[1] == "lock", "clean" in line, line))


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a site that has a registry, as the examples of publishing take for granted."""
    with registry(tmp_path_factory.mktemp("registry"), Runner(), tls=False, login=False) as server:
        address = f"{server.address}/hpc/images"
        yield {**os.environ, "STACKWRIGHT_REGISTRY": address, "STACKWRIGHT_REGISTRY_PLAIN": "1"}


@pytest.mark.parametrize("line", examples())
def test_example(line: str, copy: Path, site: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", line], cwd=copy, env=site, input="n\n",
        capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout or done.stderr
