"""What other programs read of this repository: GitHub's action, the hook of pre-commit, Renovate's preset."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import call
from rows import ROOT

from stackwright.core.components.table import COMPONENTS

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
PRESET = json.loads((ROOT / "renovate" / "matrix.json").read_text())
MATRICES = ("matrix.yaml", "matrix.nvidia.yaml", "matrix.arm.yaml", "stackwright/cli/starter/matrix.yaml")
PROGRAM = '"$RUNNER_TEMP/stackwright/bin/stackwright" '


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """What is said where a command or an option of the line does not exist. --help is read last."""
    own = words[: words.index("--")] if "--" in words else words
    code, out, said = call(capsys, *own, "--help")
    known = (*out.split(), "--out", "--version")
    missing = [word for word in own if word.startswith("--") and word not in known]
    return said or " ".join(missing) if code or missing else ""


# -- the action ------------------------------------------------------------------------------------


def test_the_action_calls_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for step in STEPS for line in step["run"].splitlines() if line.startswith(PROGRAM)]
    words = [shlex.split(line.removeprefix(PROGRAM)) for line in lines]
    assert {"plan", "ci", "run", "engine"} <= {word for line in words for word in line}
    assert [refused(capsys, line) for line in words if line != ["engine"]] == [""] * (len(words) - 1)
    assert refused(capsys, ["plan", "--strictly"])


def test_the_action_puts_no_input_into_a_shell() -> None:
    """An input in a script is code; in a variable it is a value."""
    assert not [step["name"] for step in STEPS if "${{" in step["run"]]
    read = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text()))
    assert read == set(ACTION["inputs"])


def test_a_step_of_the_action_fails_where_its_command_fails(tmp_path: Path) -> None:
    """GitHub's own shell: bash --noprofile --norc -eo pipefail."""
    program = tmp_path / "stackwright" / "bin" / "stackwright"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\ntest "$1" != engine\n')
    program.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path), "ROW": "a"}
    environment["GITHUB_OUTPUT"] = str(tmp_path / "output")
    script = STEPS[-1]["run"]
    bash = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
    assert subprocess.run(bash, env=environment, check=False).returncode == 1
    assert not (tmp_path / "output").exists()


# -- pre-commit ------------------------------------------------------------------------------------


def test_the_hook_is_a_command_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(HOOK["entry"])
    assert program == "stackwright"
    assert refused(capsys, words) == ""
    assert not HOOK["pass_filenames"]  # `plan` would read them as rows


def test_the_hook_fails_where_a_row_cannot_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "init")[0] == 0
    assert call(capsys, *shlex.split(HOOK["entry"])[1:])[0] == 0
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace('gcc: "13"', 'gcc: "5"'))
    code, out, _ = call(capsys, *shlex.split(HOOK["entry"])[1:])
    assert (code, "1 rejected" in out) == (5, True)


def test_the_hook_runs_for_the_files_that_decide() -> None:
    touched = ("matrix.yaml", "matrix.yml", "locks/cuda12-torch.txt")
    assert all(re.search(HOOK["files"], path) for path in touched)
    assert not [path for path in ("README.md", "src/matrix.yaml.orig") if re.search(HOOK["files"], path)]


# -- Renovate --------------------------------------------------------------------------------------


def patterns() -> list[str]:
    return [text for manager in PRESET["customManagers"] for text in manager["matchStrings"]]


def found(text: str) -> set[tuple[str, str]]:
    """Python's notation of a named group is the only difference to RE2's in what these expressions use."""
    every = (re.finditer(pattern.replace("(?<", "(?P<"), text) for pattern in patterns())
    return {(match["depName"], match["currentValue"]) for matches in every for match in matches}


def pinned(path: str) -> set[tuple[str, str]]:
    """Each version of a field that an index has releases of, as YAML reads the matrix."""
    document = yaml.safe_load((ROOT / path).read_text())
    names = {"python", *(component.name for component in COMPONENTS if component.field.versioned)}
    rows = [document.get("defaults", {}), *document["include"]]
    return {(name, str(row[name])) for row in rows for name in names & set(row)}


@pytest.mark.parametrize("path", MATRICES)
def test_renovate_finds_every_version_of_a_matrix(path: str) -> None:
    wanted = pinned(path)
    assert wanted
    assert wanted <= found((ROOT / path).read_text())


def test_renovate_knows_every_field_that_has_releases() -> None:
    names = {"python", *(component.name for component in COMPONENTS if component.field.versioned)}
    text = "\n".join(f'    {name}: "1.2"' for name in sorted(names))
    assert {name for name, _ in found(text)} == names
    assert found('  - {torch: "2.6.0", python: "3.12"}') == {("torch", "2.6.0"), ("python", "3.12")}
    assert found('    cuda: "12.4"\n    pytorch: "1.0"\n    torch: 2\n    id: "torch"') == set()


def test_renovate_reads_a_matrix_and_nothing_else() -> None:
    for manager in PRESET["customManagers"]:
        (pattern,) = (text.strip("/") for text in manager["managerFilePatterns"])
        assert re.search(pattern, "matrix.yaml") and re.search(pattern, "images/matrix.nvidia.yaml")
        assert not re.search(pattern, "docs/matrix.md") and not re.search(pattern, "mymatrix.yaml")


@pytest.mark.skipif(not shutil.which("node"), reason="no node: a second engine for the expressions")
def test_another_engine_finds_the_same() -> None:
    text = (ROOT / "matrix.yaml").read_text()
    program = """
const [patterns, text] = JSON.parse(require("fs").readFileSync(0));
const every = patterns.flatMap(one => [...text.matchAll(new RegExp(one, "g"))]);
console.log(JSON.stringify(every.map(({groups}) => [groups.depName, groups.currentValue])));
"""
    done = subprocess.run(
        ["node", "-e", program],
        input=json.dumps([patterns(), text]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert {(name, value) for name, value in json.loads(done.stdout)} == found(text)
