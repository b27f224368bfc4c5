"""The command ``ci``: the committed files are those that it writes, and ask for no more than they need."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rows import ROOT

from stackwright.cli.main import main
from stackwright.core.errors import DriftError
from stackwright.nightly.ci import files, listing
from stackwright.nightly.ci.shards import MOST_JOBS, OTHER_JOBS, Shard

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EVERY = files.files(files.WRITTEN)


def workflow(name: str) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return document


def jobs() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{path.name}: {name}", job)
        for path in WORKFLOWS
        for name, job in yaml.safe_load(path.read_text())["jobs"].items()
    ]


def steps() -> list[dict[str, Any]]:
    return [step for _, job in jobs() for step in job["steps"]]


# -- drift -----------------------------------------------------------------------------------------


def test_what_is_committed_is_what_would_be_written() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ci", "--check"])
    assert ended.value.code == 0


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for file in EVERY:
        files.write(tmp_path, file)
    return tmp_path


def test_a_copy_does_not_differ(copy: Path) -> None:
    assert files.drift(copy, EVERY) == ()


def test_a_line_that_was_edited_by_hand_is_found(copy: Path) -> None:
    path = copy / ".github" / "workflows" / "nightly.yml"
    path.write_text(path.read_text().replace("contents: read", "contents: write", 1))
    (line,) = files.drift(copy, EVERY)
    assert re.fullmatch(r"\.github/workflows/nightly\.yml:\d+: differs", line)


def test_a_line_that_was_added_at_the_end_is_found(copy: Path) -> None:
    path = copy / "docs" / "gitlab-ci.yml"
    number = len(path.read_text().splitlines()) + 1
    path.write_text(path.read_text() + "# more\n")
    assert files.drift(copy, EVERY) == (f"docs/gitlab-ci.yml:{number}: differs",)


def test_a_file_that_is_missing_is_found(copy: Path) -> None:
    (copy / ".github" / "workflows" / "checks.yml").unlink()
    assert files.drift(copy, EVERY) == (".github/workflows/checks.yml: not there",)


def test_a_file_that_is_not_made_any_more_is_found(copy: Path) -> None:
    folder = copy / ".github" / "workflows"
    shutil.copy(folder / "checks.yml", folder / "old.yml")
    (folder / "own.yml").write_text("name: somebody's own\n")
    assert files.drift(copy, EVERY) == (".github/workflows/old.yml: no template makes it any more",)


def test_the_error_says_what_differs_and_what_to_do(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "drift", lambda *_: ("docs/gitlab-ci.yml:3: differs",))
    with pytest.raises(SystemExit) as ended:
        main(["ci", "--gitlab", "--check"])
    assert ended.value.code == DriftError.exit_code
    said = capsys.readouterr().err
    assert "docs/gitlab-ci.yml:3: differs" in said
    assert "next: ./build.py ci --gitlab" in said


@pytest.mark.parametrize(
    "words",
    [["ci"], ["ci", "cuda12-torch"], ["shards", "list", "--format", "jenkins"], ["shards", "prove", "x"]],
)
def test_what_makes_no_sense_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


# -- what the workflows ask for ----------------------------------------------------------------------


def test_actions_are_pinned_to_the_commits_of_the_table() -> None:
    rows = yaml.safe_load((ROOT / "stackwright" / "nightly" / "ci" / "actions.yaml").read_text())
    assert all(re.fullmatch(r"[0-9a-f]{40}", row["commit"]) and row["source"] for row in rows)
    used = {step["uses"] for step in steps() if "uses" in step}
    assert used == {f"{row['name']}@{row['commit']}" for row in rows}


def test_each_pin_says_its_tag() -> None:
    lines = [line for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    assert all(re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line) for line in lines)


def test_a_job_may_read_the_repository_and_no_more() -> None:
    for path in WORKFLOWS:
        assert workflow(path.name)["permissions"] == {}
    more = {name: job["permissions"] for name, job in jobs() if job["permissions"] != {"contents": "read"}}
    assert more == {"docs.yml: publish": {"contents": "read", "pages": "write", "id-token": "write"}}


def test_only_a_push_publishes_the_documentation() -> None:
    """What a pull request changes is built, and reaches no page that a reader may take for the project's."""
    job = workflow("docs.yml")["jobs"]["publish"]
    assert job["environment"] == "github-pages"
    assert "pull_request" not in job["if"]
    assert "vars.STACKWRIGHT_DOCS == 'true' && (github.event_name == 'push' || " in job["if"]
    assert job["steps"][0]["with"]["ref"] == "main"


def test_no_checkout_leaves_a_token_behind() -> None:
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_every_job_ends_some_time() -> None:
    assert [name for name, job in jobs() if "timeout-minutes" not in job] == []


def test_every_workflow_has_a_concurrency_group() -> None:
    assert all(workflow(path.name)["concurrency"]["group"] for path in WORKFLOWS)


def test_what_a_job_has_made_is_kept_when_its_timeout_cancels_it() -> None:
    """The job that works on rows has logs, and the one that publishes knows which tags it moved."""
    for name in ("shard", "gpu", "publish"):
        last = workflow("nightly.yml")["jobs"][name]["steps"][-1]
        assert last["uses"].startswith("actions/upload-artifact@")
        assert last["if"] == "always()", name


def test_a_machine_that_goes_on_keeps_no_login_and_may_have_the_builder_already() -> None:
    """Shards run where STACKWRIGHT_RUNNER says, which may be a machine of the site, night after night."""
    for name in ("shard", "gpu"):
        made = workflow("nightly.yml")["jobs"][name]["steps"]
        (left,) = [step for step in made if step.get("run", "").startswith("docker logout ")]
        assert left["if"] == "always()", name
    (builder,) = [step["run"] for step in steps() if "buildx create" in step.get("run", "")]
    assert builder.startswith("docker buildx inspect shard || ")


def test_no_expression_is_put_into_a_command() -> None:
    assert [step["run"] for step in steps() if "${{" in step.get("run", "")] == []


def test_nothing_names_a_host_or_a_place_of_a_machine() -> None:
    for path in WORKFLOWS:
        text = path.read_text()
        assert not re.search(r"https?://|\b[\w-]+\.(io|com|org|net)\b|/(tmp|work|home|root)\b", text), path


def test_secrets_go_to_single_steps() -> None:
    for path in WORKFLOWS:
        document = workflow(path.name)
        shared = [document.get("env"), *(job.get("env") for job in document["jobs"].values())]
        assert "secrets." not in json.dumps(shared)


def test_the_signing_key_goes_to_the_one_step_that_publishes() -> None:
    having = [
        (name, step["run"].splitlines()[-1].split(" $")[0])
        for name, job in jobs()
        for step in job["steps"]
        if "secrets.STACKWRIGHT_SIGNING" in json.dumps(step)
    ]
    assert having == [("nightly.yml: publish", "./build.py shards publish")]
    assert workflow("nightly.yml")["jobs"]["publish"]["environment"] == "registry"
    gitlab = yaml.safe_load(listing.pipeline(MANY[:1]))
    assert [name for name, job in gitlab.items() if "SIGNING" in json.dumps(job)] == ["publish"]
    assert gitlab["publish"]["environment"] == "registry"


def test_the_services_run_the_same_commands() -> None:
    github = workflow("nightly.yml")["jobs"]
    gitlab = yaml.safe_load(listing.pipeline(MANY[:1])) | yaml.safe_load(
        (ROOT / "docs" / "gitlab-ci.yml").read_text()
    )
    for job, other in (("plan", "plan"), ("shard", "shard 1"), ("gpu", "gpu"), ("publish", "publish")):
        assert commands(step.get("run", "") for step in github[job]["steps"]) == commands(
            gitlab[other]["script"]
        )
    (told,) = [step["run"] for step in github["report"]["steps"] if "shards report" in step.get("run", "")]
    assert told.replace(' --summary "$GITHUB_STEP_SUMMARY"', "") == gitlab["report"]["script"][-1]


def commands(texts: Iterable[str]) -> list[str]:
    """Those of ours, without where their output goes."""
    lines = (line.strip() for text in texts for line in text.splitlines())
    ours = (line for line in lines if line.startswith(("make", "./build.py", "scripts/", "read")))
    return [line.split(" >")[0].replace("gitlab", "github") for line in ours]


def test_a_pull_request_gets_no_secret_and_no_runner_of_the_site() -> None:
    text = (ROOT / ".github" / "workflows" / "checks.yml").read_text()
    assert "secrets." not in text
    assert re.findall(r"runs-on: (.*)", text) == ["ubuntu-24.04"] * 3


# -- shards as a service reads them -----------------------------------------------------------------


MOST = MOST_JOBS - OTHER_JOBS
MANY = tuple(Shard(rows=(f"row{number}", "other"), minutes=number) for number in range(MOST))


def test_the_lines_for_github() -> None:
    lines = dict(line.partition("=")[::2] for line in listing.outputs(MANY[:2]).splitlines())
    assert lines["count"] == "2"
    assert json.loads(lines["matrix"])["include"][1] == {
        "shard": 2, "of": 2, "rows": "row1 other", "timeout": 60,
    }  # fmt: skip


def test_no_shards_are_a_count_of_0() -> None:
    assert listing.outputs(()).startswith("count=0\n")


def test_the_lines_of_very_many_fit_into_an_output() -> None:
    long = [Shard(rows=("x" * 63,) * 4, minutes=30)] * MOST
    assert len(listing.outputs(long)) < 2**20


def test_a_job_may_take_longer_than_estimated_and_not_for_ever() -> None:
    found = json.loads(listing.outputs(MANY).splitlines()[1].removeprefix("matrix="))["include"]
    assert {job["timeout"] for job in found[:15]} == {60}
    assert found[30]["timeout"] == 120
    assert max(job["timeout"] for job in found) == 350


def test_shards_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["shards", "list", "cuda12-*"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(row for shard in document["shards"] for row in shard["rows"]) == [
        "cuda12-all", "cuda12-llm", "cuda12-mpich", "cuda12-torch",
    ]  # fmt: skip


def test_a_row_without_a_lock_and_one_that_cannot_work_are_in_a_shard_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in no shard is in nobody's morning: the first is locked and built there, the second told of."""
    matrix = (ROOT / "matrix.yaml").read_text()
    (tmp_path / "matrix.yaml").write_text(matrix.replace('gcc: "13"', 'gcc: "14"', 1))  # of cuda12-torch
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    (tmp_path / "locks" / "cuda12-all.txt").unlink()
    (tmp_path / "locks" / "cuda12-mpich.txt").write_text("damaged")
    with pytest.raises(SystemExit) as ended:
        main(["--matrix", str(tmp_path / "matrix.yaml"), "shards", "list", "cuda12-*"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert sorted(row for shard in json.loads(out)["shards"] for row in shard["rows"]) == [
        "cuda12-all", "cuda12-llm", "cuda12-mpich", "cuda12-torch",
    ]  # fmt: skip
    assert "gcc" in err, "what cannot work is said at once"
    assert "cuda12-mpich: " in err
