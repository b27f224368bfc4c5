"""A repository whose rows are images of a few files: what is around an image is tried with it, in minutes.

It is this project, all but what makes an image large and what proves it: the Dockerfile, and the checks, of
which there is one in each tier. Rows, locks, keys, engine, records, SIFs and all commands are the real ones.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
DOCKERFILE = """\
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE} AS base
RUN echo '{"distribution_packages": {"libc6": "2.41"}, "python_packages": {"pip": "25.1"}}' > /packages
RUN mkdir -p /opt/stack/bin && cd /opt/stack/bin \\
    && printf '%s\\n' '#!/bin/sh' '[ "$4" != system ] || cp /packages "$3/system.json"' > python \\
    && chmod 755 python
FROM base AS toolchain
RUN echo "gcc {{ stack.gcc }}" > /toolchain
FROM base AS final
COPY --link --from=toolchain /toolchain /toolchain
COPY --link row.json /etc/stackwright/row.json
{% for name, value in labels %}LABEL {{ name }}={{ value | dockerfile_literal }}
{% endfor %}"""
"""Its python runs no probe, and says that the image has two packages: a list of them is signed."""

CHECKS = """\
def _labelled(stack: Stack, facts: Mapping[str, Any]) -> Finding:
    from stackwright.core.render.dockerfile import declared
    import json

    labels = facts["labels"] if "labels" in facts else facts["image"]["Config"]["Labels"]
    same = json.loads(labels["org.stackwright.stack"]) == declared(stack)
    return Finding(problems=() if same else ("it is labelled as another row",))


RULES: tuple[Rule, ...] = tuple(
    Rule(id=f"{tier}.labels", tier=tier, why="The image is the row's.", judge=_labelled) for tier in Tier
)
"""
IMAGE_TEST = "def test_there_are_facts(facts: object) -> None:\n    assert facts\n"


def make(folder: Path, rows: Sequence[str], more: str = "") -> Path:
    """A git repository with one commit. ``more`` is added to the matrix."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    _cut_down(folder)
    matrix = yaml.safe_load((folder / "matrix.yaml").read_text())
    matrix["include"] = [row for row in matrix["include"] if row["id"] in rows]
    matrix["select"] = ["*"]
    (folder / "matrix.yaml").write_text(yaml.safe_dump(matrix) + more)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=folder, check=True)
    commit(folder, "small rows")
    return folder


def commit(folder: Path, message: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    for words in (("add", "--all"), ("commit", "--quiet", "--message", message)):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)


def _cut_down(folder: Path) -> None:
    (folder / "dockerfiles" / "Dockerfile.j2").write_text(DOCKERFILE)
    _change(
        folder / "stackwright" / "core" / "checks" / "judge.py",
        r"RULES: tuple\[Rule, \.\.\.\] = \(.*?\n\)\n",
        CHECKS,
    )
    _change(folder / "stackwright" / "build" / "phases.py", r"(?<=BUILD_NEEDS = )25(?= \* 10\*\*9)", "1")
    for path in (folder / "tests" / "images").glob("test_*.py"):
        path.unlink()
    (folder / "tests" / "images" / "test_witness.py").write_text(IMAGE_TEST)


def _change(path: Path, pattern: str, new: str) -> None:
    text, count = re.subn(pattern, lambda _: new, path.read_text(), flags=re.DOTALL)
    assert count == 1, f"{path} has changed: {pattern}"
    path.write_text(text)


def changed(git: Path, folder: Path, path: str, old: str, new: str) -> Path:
    """A copy of the repository with one more commit, which replaces a text wherever it stands in a file."""
    shutil.copytree(git, folder)
    text = (folder / path).read_text()
    assert old in text
    (folder / path).write_text(text.replace(old, new))
    commit(folder, "a change")
    return folder
