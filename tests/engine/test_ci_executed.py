"""The written workflows do what they say: their commands run, in order, against a real engine and registry.

Each job begins in a clean clone and an engine without the images of others. What it gets of them is what the
workflow hands over. Rows are small images; no job runs on a GPU here, and none is said to have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import small_repository
from attested import made_key
from gh_runner import Repository, Run, host_environment
from own_engine import forget
from registry_server import PASSWORD, USER, RegistryServer, registry

from stackwright.core.errors import AttestError, EngineError, GateError
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.records import files as record

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
ROWS = ("cuda12-torch", "nccl-override", "cuda13-torch")
HOSTED = frozenset({"ubuntu-24.04"})
WITH_GPU = frozenset({"self-hosted", "linux", "gpu"})
BASE = "team/images"
SCHEMA_2 = "application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A folder of its own, a repository, and the registry that its owner named."""

    folder: Path
    repository: Repository
    registry: RegistryServer
    key: Path

    def run(self, name: str, workflow: str = "nightly.yml", *, event: str = "schedule", row: str = "") -> Run:
        """``name`` is the run's id, and tells this run from others of the site."""
        run = Run(
            workflow, self.folder / name, self.repository, event=event, inputs={"row": row} if row else {}
        )
        run.execute()
        return run

    def tags(self) -> list[str]:
        return self.registry.tags(BASE)


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, runner: Runner, docker: Docker, host_tools: None
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    git = small_repository.make(folder / "repository", ROWS)
    key = made_key(folder, "signing", runner)
    made: set[str] = set()

    def clean(workspace: Path) -> None:
        """As another machine has it: none of the images that this job made or pulled."""
        found = record.load_all(workspace / "out" / "records").records
        made.update(known.image.reference for known in found if known.image)
        for reference in made:
            forget(docker, reference)

    with registry(folder / "registry", runner) as server:
        yield Site(
            folder=folder,
            registry=server,
            key=key,
            repository=Repository(
                git=git, clean=clean, runners=HOSTED, tools=ROOT / ".venv", caches=folder / "caches",
                variables={"STACKWRIGHT_REGISTRY": f"{server.address}/{BASE}"},
                secrets={
                    "STACKWRIGHT_REGISTRY_USER": USER, "STACKWRIGHT_REGISTRY_PASSWORD": PASSWORD,
                    "STACKWRIGHT_SIGNING_KEY": key.read_text(),
                },
                host={**host_environment(), "STACKWRIGHT_REGISTRY_CA": str(server.ca)},
                instead={
                    "make test": "it is what runs this test",
                    "make page": ".ci/run runs it, and it takes half a minute",
                },
            ),
        )  # fmt: skip


def results(run: Run) -> Mapping[str, str]:
    return {name: run.result(name) for name in run.jobs}


GOOD = {"plan": "success", "shard": "success", "gpu": "skipped", "publish": "success", "report": "success"}


# -- a pull request --------------------------------------------------------------------------------


def test_a_pull_request(site: Site) -> None:
    run = site.run("pull-request", "checks.yml", event="pull_request")
    assert results(run) == {"plan": "success", "test": "success", "page": "success"}, run.log
    assert [command.text for command in run.only("plan").commands] == [
        "make env", "./build.py plan --strict", "./build.py ci --check",
    ]  # fmt: skip


def test_a_pull_request_that_edits_a_workflow_by_hand_fails(site: Site, tmp_path: Path) -> None:
    changed = small_repository.changed(
        site.repository.git, tmp_path / "git", ".github/workflows/nightly.yml", "17 1 * * *", "18 1 * * *"
    )
    edited = replace(site, folder=tmp_path, repository=replace(site.repository, git=changed))
    run = edited.run("edited", "checks.yml", event="pull_request")
    assert run.result("plan") == "failure"
    assert ".github/workflows/nightly.yml:6: differs" in run.only("plan").log


# -- nights ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def first(site: Site) -> Run:
    """The first night: everything is built."""
    return site.run("first")


@pytest.fixture(scope="module")
def second(site: Site, first: Run) -> Run:
    """The night after it: nothing has changed."""
    return site.run("second")


def test_the_first_night_builds_proves_and_publishes(site: Site, first: Run) -> None:
    assert results(first) == GOOD, first.log
    assert {row for row in ROWS if row in site.tags()} == set(ROWS), site.tags()


def test_what_is_published_is_what_was_proven(site: Site, first: Run) -> None:
    found = record.load_all(first.artifacts / "published" / "records").records
    assert {known.row for known in found} == set(ROWS)
    for known in found:
        assert known.image is not None
        manifest = site.registry.get(f"{BASE}/manifests/{known.row}", accept=SCHEMA_2)
        assert json.loads(manifest)["config"]["digest"] == known.image.id


def test_the_morning_is_in_the_summary_and_the_page_is_an_artifact(first: Run) -> None:
    assert "3 rows: 3 rebuilt" in first.only("report").summary
    assert all(row in first.only("report").summary for row in ROWS)
    page = (first.artifacts / "report" / "index.html").read_text()
    assert all(row in page for row in ROWS)


def test_the_second_night_does_nothing(site: Site, second: Run) -> None:
    assert results(second) == GOOD, second.log
    assert "3 rows: 3 unchanged" in second.only("report").summary
    assert "[cuda12-torch] build" not in second.log
    assert "bytes sent" not in second.log


@pytest.mark.nightly
def test_one_row_by_hand(site: Site, second: Run) -> None:
    run = site.run("by-hand", event="workflow_dispatch", row="cuda13-torch")
    assert results(run) == GOOD, run.log
    assert [job.matrix["rows"] for job in run.jobs["shard"]] == ["cuda13-torch"]


@pytest.mark.nightly
@pytest.mark.parametrize("row", ["no-such-row", "$(touch planted)", "--matrix=/etc/passwd"])
def test_a_row_that_is_none_ends_the_plan(site: Site, row: str) -> None:
    run = site.run(f"none-{abs(hash(row))}", event="workflow_dispatch", row=row)
    assert results(run) == {**dict.fromkeys(GOOD, "skipped"), "plan": "failure"}
    assert "no row matches" in run.only("plan").log
    assert not list(run.folder.rglob("planted"))


def test_what_is_published_is_signed_and_the_public_key_is_enough_to_verify_it(
    site: Site, first: Run, runner: Runner, tmp_path: Path
) -> None:
    assert all(f"{row}: signed: " in first.only("publish").log for row in ROWS)
    row, public = ROWS[0], tmp_path / "public.pem"
    assert runner(["openssl", "pkey", "-in", site.key, "-pubout", "-out", public]).ok
    reference = f"{site.registry.address}/{BASE}:{row}"
    environment = {
        "STACKWRIGHT_REGISTRY": f"{site.registry.address}/{BASE}",
        "DOCKER_CONFIG": str(site.registry.docker_config(tmp_path / "docker")),
        "STACKWRIGHT_REGISTRY_CA": str(site.registry.ca),
    }  # fmt: skip
    words = (ROOT / "build.py", "verify", reference, "--key", public, "--row", row)
    done = runner(words, env=environment)
    assert done.ok, done.stderr
    other = made_key(tmp_path, "other", runner)
    assert runner(["openssl", "pkey", "-in", other, "-pubout", "-out", public]).ok
    refused = runner(words, env=environment)
    assert refused.returncode == AttestError.exit_code, refused.stderr


def test_no_secret_is_in_any_log_or_artifact(site: Site, first: Run, second: Run) -> None:
    key = site.key.read_text().splitlines()[1]
    for run in (first, second):
        kept = [path.read_bytes() for path in run.artifacts.rglob("*") if path.is_file()]
        assert kept
        for secret in (PASSWORD, key):
            assert secret not in run.log
            assert not any(secret.encode() in content for content in kept)


# -- nights that do not go well ---------------------------------------------------------------------


def other_site(site: Site, tmp_path: Path, path: str, old: str, new: str, **more: object) -> Site:
    """Another owner's repository, where one thing is different; with a past of its own, and without a key."""
    git = small_repository.changed(site.repository.git, tmp_path / "git", path, old, new)
    unsigned = {name: text for name, text in site.repository.secrets.items() if "SIGNING" not in name}
    values = {"git": git, "caches": tmp_path / "caches", "secrets": unsigned, **more}
    own = replace(site.repository, **values)  # type: ignore[arg-type]
    return replace(site, folder=tmp_path, repository=own)


@pytest.mark.nightly
def test_a_row_that_fails_does_not_stop_the_others(site: Site, tmp_path: Path) -> None:
    old = "RUN echo"
    new = "RUN [ '{{ stack.id }}' != nccl-override ] && echo"
    broken = other_site(site, tmp_path, "dockerfiles/Dockerfile.j2", old, new)
    run = broken.run("broken")
    assert results(run) == {**GOOD, "shard": "failure"}, run.log
    summary = run.only("report").summary
    assert "2 rebuilt" in summary
    assert "1 failed" in summary
    published = run.only("publish").log
    assert [row for row in ROWS if f"{row}: {site.registry.address}/{BASE}@sha256:" in published] == [
        "cuda12-torch", "cuda13-torch",
    ]  # fmt: skip


@pytest.mark.nightly
def test_without_the_required_tier_nothing_gets_a_tag(site: Site, tmp_path: Path) -> None:
    """The GPU tier is required, and the job for it finds no GPU."""
    old = "  moving:\n  - '{row}'\n  require:\n"
    new = "  moving:\n  - '{row}-gpu'\n  require:\n  - gpu\n"
    runners = {**site.repository.variables, "STACKWRIGHT_GPU_RUNNERS": "true"}
    gpu = other_site(site, tmp_path, "matrix.yaml", old, new, runners=HOSTED | WITH_GPU, variables=runners)
    run = gpu.run("gpu", event="workflow_dispatch", row="cuda13-torch")
    assert results(run) == {**GOOD, "gpu": "failure", "publish": "failure"}, run.log
    assert "the engine gives containers no GPU" in run.only("gpu").log
    assert [command.code for command in run.only("gpu").commands] == [0, 0, EngineError.exit_code, 0]
    assert run.only("publish").commands[-1].code == GateError.exit_code
    assert "the tier gpu is not run in docker" in run.only("report").summary
    assert not [tag for tag in site.tags() if tag.endswith("-gpu")]


@pytest.mark.nightly
def test_a_job_gets_nothing_that_is_not_handed_over(site: Site, tmp_path: Path) -> None:
    """That is, what the tests above see comes from what the workflow says. And the night after it, with the
    workflow mended, publishes what this one left, although nothing else has changed."""
    records = "            out/records\n"
    forgetful = other_site(site, tmp_path, ".github/workflows/nightly.yml", records, "")
    run = forgetful.run("forgetful", event="workflow_dispatch", row="cuda13-torch")
    assert run.result("shard") == "success"
    assert run.result("publish") == "failure"
    assert "was not built as it is today" in run.only("publish").log
    mended = replace(forgetful, repository=replace(forgetful.repository, git=site.repository.git))
    after = mended.run("mended", event="workflow_dispatch", row="cuda13-torch")
    assert results(after) == GOOD, after.log
    assert "[cuda13-torch] build" in after.log
    assert "@sha256:" in after.only("publish").log
