"""The files of CI as well-kept linters see them: their schema, their security, their shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from stackwright.host.runner import Completed, Runner
from stackwright.nightly.ci import files, listing
from stackwright.nightly.ci.shards import Shard

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
SHARDS = (Shard(rows=("a", "b"), minutes=20), Shard(rows=("c",), minutes=40))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def zizmor(runner: Runner, *paths: Path) -> Completed:
    return runner([PROGRAMS / "zizmor", "--offline", "--pedantic", "--no-progress", *paths], timeout=120)


def schema(runner: Runner, name: str, *paths: Path) -> Completed:
    return runner([PROGRAMS / "check-jsonschema", "--builtin-schema", f"vendor.{name}", *paths], timeout=120)


def shellcheck(runner: Runner, text: str) -> Completed:
    return runner([PROGRAMS / "shellcheck", "--shell=bash", "-"], stdin=text, timeout=60)


def commands() -> set[str]:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]
    ours = {step["run"] for job in jobs for step in job["steps"] if "run" in step}
    pipelines = ((ROOT / "docs" / "gitlab-ci.yml").read_text(), listing.pipeline(SHARDS))
    theirs = {
        "\n".join(job[key])
        for text in pipelines
        for job in yaml.safe_load(text).values()
        for key in ("script", "after_script")
        if isinstance(job, dict) and key in job
    }
    return ours | theirs


def planted(tmp_path: Path, old: str, new: str) -> Path:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert old in text
    path = tmp_path / ".github" / "workflows" / "nightly.yml"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(old, new))
    return path


def test_zizmor_finds_nothing(runner: Runner) -> None:
    done = zizmor(runner, *WORKFLOWS)
    assert done.ok, done.stdout


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1", "actions/checkout@v7", "unpinned-uses"),
        ("permissions: {}", "permissions: write-all", "excessive-permissions"),
        ("        with:\n          persist-credentials: false\n", "", "artipacked"),
        ("run: ./build.py shards list", "run: echo ${{ inputs.row }} #", "template-injection"),
    ],
)
def test_zizmor_finds_what_is_planted(runner: Runner, tmp_path: Path, old: str, new: str, says: str) -> None:
    done = zizmor(runner, planted(tmp_path, old, new))
    assert not done.ok
    assert says in done.stdout


def test_the_workflows_are_valid(runner: Runner) -> None:
    done = schema(runner, "github-workflows", *WORKFLOWS)
    assert done.ok, done.stdout


def test_the_schema_of_workflows_is_applied(runner: Runner, tmp_path: Path) -> None:
    done = schema(runner, "github-workflows", planted(tmp_path, "runs-on:", "run-on:"))
    assert not done.ok


def test_the_pipeline_of_gitlab_is_valid(runner: Runner) -> None:
    done = schema(runner, "gitlab-ci", ROOT / "docs" / "gitlab-ci.yml")
    assert done.ok, done.stdout


def test_the_pipeline_of_a_night_is_valid(runner: Runner, tmp_path: Path) -> None:
    path = tmp_path / "gitlab-shards.yml"
    path.write_text(listing.pipeline(SHARDS))
    done = schema(runner, "gitlab-ci", path)
    assert done.ok, done.stdout


def test_the_schema_of_pipelines_is_applied(runner: Runner, tmp_path: Path) -> None:
    path = tmp_path / "gitlab-ci.yml"
    path.write_text((ROOT / "docs" / "gitlab-ci.yml").read_text().replace("script:", "scripts:"))
    assert not schema(runner, "gitlab-ci", path).ok


@pytest.mark.long  # a second for each process
def test_the_files_of_a_repository_of_one_s_own_are_valid(runner: Runner, tmp_path: Path) -> None:
    every = files.files(files.OWN, own=True)
    for file in every:
        files.write(tmp_path, file)
    workflows = sorted((tmp_path / ".github" / "workflows").glob("*.yml"))
    night = tmp_path / "gitlab-shards.yml"
    night.write_text(listing.pipeline(SHARDS, own=True))
    for done in (
        zizmor(runner, *workflows, ROOT / "action.yml"),
        schema(runner, "github-workflows", *workflows),
        schema(runner, "gitlab-ci", tmp_path / ".gitlab-ci.yml", night),
    ):
        assert done.ok, done.stdout


@pytest.mark.long  # a second for each process
def test_what_other_programs_read_of_this_repository_is_valid(runner: Runner) -> None:
    for done in (
        schema(runner, "github-actions", ROOT / "action.yml"),
        schema(runner, "renovate", ROOT / "renovate" / "matrix.json"),
    ):
        assert done.ok, done.stdout


@pytest.mark.parametrize("text", sorted(commands()))
def test_shellcheck_finds_nothing(runner: Runner, text: str) -> None:
    done = shellcheck(runner, text)
    assert done.ok, done.stdout


def test_shellcheck_is_applied(runner: Runner) -> None:
    assert not shellcheck(runner, "cat $undefined").ok


def test_shellcheck_finds_nothing_in_our_scripts_of_ci(runner: Runner) -> None:
    done = runner([PROGRAMS / "shellcheck", ROOT / "scripts" / "registry-login.sh"], timeout=60)
    assert done.ok, done.stdout
