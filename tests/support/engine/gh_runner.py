"""Runs a workflow file of GitHub's as its runners do, on this machine: what the file says, and nothing else.

Each job has a fresh folder as its home and its checkout, and sees of others their declared outputs and the
artifacts that were uploaded. A key, an action or an expression that is not known here is an error.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from gh_expressions import Unsupported, as_text, interpolate

JOB_KEYS = {
    "name", "needs", "if", "runs-on", "timeout-minutes", "permissions", "outputs", "strategy", "env", "steps",
    "concurrency", "environment",
}  # fmt: skip
STEP_KEYS = {"name", "id", "if", "uses", "with", "run", "env"}
WORKFLOW_KEYS = {"name", "on", "permissions", "concurrency", "defaults", "env", "jobs"}
MOST_OUTPUT = 2**20
"""Bytes of all outputs of a job: docs.github.com, "Workflow commands"."""

Result = Literal["success", "failure", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """``git`` is what is checked out, ``variables`` and ``secrets`` are its owner's.

    ``runners``: labels that a runner has. ``host``: the environment that every runner of the site has, and
    ``tools`` what its image has installed: the .venv that `make env` finds up to date. ``instead``: commands
    that are not run, and why. ``caches`` outlives a run. ``clean`` takes away what a job left on the
    machine, given its checkout.
    """

    git: Path
    variables: Mapping[str, str]
    secrets: Mapping[str, str]
    runners: frozenset[str]
    host: Mapping[str, str]
    caches: Path
    tools: Path | None = None
    instead: Mapping[str, str] = field(default_factory=dict)
    clean: Callable[[Path], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One ``run:``; ``output`` is stdout and stderr together."""

    text: str
    code: int
    output: str


@dataclass(slots=True, kw_only=True)
class JobRun:
    """One job, or one of a matrix."""

    id: str
    folder: Path
    matrix: Mapping[str, Any] = field(default_factory=dict)
    result: Result = "success"
    outputs: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def summary(self) -> str:
        file = self.folder / "summary"
        return file.read_text() if file.exists() else ""

    @property
    def log(self) -> str:
        return "\n".join(f"$ {command.text}\n{command.output}" for command in self.commands)


class Run:
    """One run of a workflow; ``jobs`` holds what became of each."""

    def __init__(
        self, workflow: str, folder: Path, repository: Repository, *, event: str, inputs: Mapping[str, str]
    ) -> None:
        self.repository, self.folder = repository, folder
        self.document = yaml.safe_load((repository.git / ".github" / "workflows" / workflow).read_text())
        _only(set(self.document) - {True}, WORKFLOW_KEYS, workflow)  # YAML 1.1 reads `on` as true
        assert event in self.document[True], f"{workflow} is not started by {event}"
        self.contexts: dict[str, Any] = {
            "github": {
                "event_name": event,
                "run_id": folder.name,
                "run_attempt": "1",
                "ref": "refs/heads/main",
            },
            "inputs": dict(inputs),
            "vars": dict(repository.variables),
            "secrets": dict(repository.secrets),
        }
        self.jobs: dict[str, list[JobRun]] = {}

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def execute(self) -> None:
        waiting = dict(self.document["jobs"])
        while waiting:
            ready = [name for name, job in waiting.items() if not set(_needs(job)) & set(waiting)]
            assert ready, f"these wait for each other: {list(waiting)}"
            for name in ready:
                self.jobs[name] = self._job(name, waiting.pop(name))

    def result(self, job: str) -> Result:
        results = {run.result for run in self.jobs[job]}
        return "failure" if "failure" in results else "skipped" if results == {"skipped"} else "success"

    @property
    def log(self) -> str:
        """For the message of a test that fails."""
        runs = (run for runs in self.jobs.values() for run in runs)
        return "\n".join(f"== {run.id}: {run.result}\n{run.log}" for run in runs)

    def only(self, job: str) -> JobRun:
        (found,) = self.jobs[job]
        return found

    def _job(self, name: str, job: Mapping[str, Any]) -> list[JobRun]:
        _only(set(job), JOB_KEYS, name)
        results = {need: self.result(need) for need in _needs(job)}
        needs = {need: {"result": results[need], "outputs": self._outputs(need)} for need in results}
        contexts = {**self.contexts, "needs": needs}
        if not _condition(job.get("if"), contexts, set(results.values())):
            return [JobRun(id=name, folder=self.folder / name, result="skipped")]
        matrix = interpolate_all(job.get("strategy", {}).get("matrix", {"include": [{}]}), contexts)
        _only(set(matrix), {"include"}, f"the matrix of {name}")
        assert len(matrix["include"]) in range(1, 257), f"{len(matrix['include'])} jobs of {name}"
        runs = []
        for number, values in enumerate(matrix["include"]):
            folder = self.folder / name / str(number)
            runs.append(_OneJob(self, job, {**contexts, "matrix": values}, folder, name).execute())
            self.repository.clean(runs[-1].workspace)
        return runs

    def _outputs(self, job: str) -> Mapping[str, str]:
        """Those that a job declares; empty where it did not come to them."""
        declared = dict.fromkeys(self.document["jobs"][job].get("outputs", {}), "")
        return declared | {name: value for run in self.jobs[job] for name, value in run.outputs.items()}


class _OneJob:
    def __init__(
        self, run: Run, job: Mapping[str, Any], contexts: dict[str, Any], folder: Path, name: str
    ) -> None:
        self._run, self._job = run, job
        self._contexts = {**contexts, "steps": {}, "runner": {"temp": str(folder / "temp")}}
        self._ran = JobRun(id=name, folder=folder, matrix=contexts["matrix"])

    def execute(self) -> JobRun:
        for name in ("workspace", "home", "temp"):
            (self._ran.folder / name).mkdir(parents=True)
        labels = interpolate_all(self._job["runs-on"], self._contexts)
        wanted = {labels} if isinstance(labels, str) else set(labels)
        assert wanted <= self._run.repository.runners, f"no runner has the labels {wanted}"
        assert float(interpolate_all(self._job["timeout-minutes"], self._contexts)) <= 360
        for step in self._job["steps"]:
            _only(set(step), STEP_KEYS, f"a step of {self._ran.id}")
            if _condition(step.get("if"), self._contexts, {self._ran.result}) and not self._step(step):
                self._ran.result = "failure"
        for name, value in self._job.get("outputs", {}).items():
            if self._ran.result == "success":
                self._ran.outputs[name] = as_text(interpolate(value, self._contexts))
        assert sum(map(len, self._ran.outputs.values())) < MOST_OUTPUT
        return self._ran

    def _step(self, step: Mapping[str, Any]) -> bool:
        if "run" in step:
            return self._command(step)
        action = step["uses"].partition("@")[0]
        given = {
            key: as_text(interpolate_all(value, self._contexts))
            for key, value in step.get("with", {}).items()
        }
        return ACTIONS[action](self._run, self._ran.workspace, given)

    def _command(self, step: Mapping[str, Any]) -> bool:
        text = step["run"]
        if "${{" in text:
            raise Unsupported(f"an expression within a command: {text}")
        if text.strip() in self._run.repository.instead:
            return True
        output = self._ran.folder / "output"
        output.write_text("")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text], cwd=self._ran.workspace,
            env=self._environment(step, output), stdin=subprocess.DEVNULL, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=1800,
        )  # fmt: skip
        self._ran.commands.append(Command(text=text, code=done.returncode, output=done.stdout))
        if "id" in step:
            lines = (line.partition("=") for line in output.read_text().splitlines())
            self._contexts["steps"][step["id"]] = {"outputs": {name: value for name, _, value in lines}}
        return done.returncode == 0

    def _environment(self, step: Mapping[str, Any], output: Path) -> dict[str, str]:
        folder, run = self._ran.folder, self._run
        own: dict[str, str] = {}
        for level in (run.document.get("env", {}), self._job.get("env", {}), step.get("env", {})):
            own |= {name: as_text(interpolate_all(value, self._contexts)) for name, value in level.items()}
        return {
            **run.repository.host,
            "HOME": str(folder / "home"),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self._ran.workspace),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "RUNNER_TEMP": str(folder / "temp"),
            **own,
        }


# -- actions ---------------------------------------------------------------------------------------


def _checkout(run: Run, workspace: Path, given: Mapping[str, str]) -> bool:
    _only(set(given), {"persist-credentials"}, "checkout")
    subprocess.run(["git", "clone", "--quiet", run.repository.git, workspace], check=True)
    if run.repository.tools:  # as a runner's image has programs in it
        (workspace / ".venv").symlink_to(run.repository.tools)
    return True


def _upload(run: Run, workspace: Path, given: Mapping[str, str]) -> bool:
    """Files keep their place below what the paths have in common; hidden ones are left out, as the action
    does. What stands before the first wildcard counts as a path (its src/shared/search.ts)."""
    _only(set(given), {"name", "path", "if-no-files-found", "retention-days"}, "upload-artifact")
    target, patterns = run.artifacts / given["name"], given["path"].split()
    assert not target.exists(), f"{target.name} is uploaded twice"
    found = [path for pattern in patterns for path in workspace.glob(pattern)]
    files = [
        file for path in found for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()
    ]
    root = Path(os.path.commonpath([workspace / _literal(pattern) for pattern in patterns]))
    root = root.parent if root.is_file() else root
    for file in files:
        place = file.relative_to(root)
        if not any(part.startswith(".") for part in place.parts):
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / place)
    return bool(files) or given.get("if-no-files-found") != "error"


def _literal(pattern: str) -> Path:
    parts = Path(pattern).parts
    return Path(*itertools.takewhile(lambda part: "*" not in part, parts))


def _download(run: Run, workspace: Path, given: Mapping[str, str]) -> bool:
    _only(set(given), {"name", "pattern", "path", "merge-multiple"}, "download-artifact")
    target = workspace / given["path"]
    if "name" in given:
        found = [run.artifacts / given["name"]]
    else:
        assert given["merge-multiple"] == "true"
        found = sorted(run.artifacts.glob("*"))
        found = [artifact for artifact in found if fnmatch.fnmatchcase(artifact.name, given["pattern"])]
    for artifact in found:
        if not artifact.is_dir():
            return False
        shutil.copytree(artifact, target, dirs_exist_ok=True)
    return True


def _restore(run: Run, workspace: Path, given: Mapping[str, str]) -> bool:
    """One file, of the key or else of the newest one that begins as ``restore-keys`` does."""
    _only(set(given), {"path", "key", "restore-keys"}, "cache/restore")
    kept = sorted(
        run.repository.caches.glob(f"{given['restore-keys']}*"), key=lambda path: path.stat().st_mtime
    )
    exact = run.repository.caches / given["key"]
    if exact.exists() or kept:
        (workspace / given["path"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(exact if exact.exists() else kept[-1], workspace / given["path"])
    return True


def _save(run: Run, workspace: Path, given: Mapping[str, str]) -> bool:
    _only(set(given), {"path", "key"}, "cache/save")
    run.repository.caches.mkdir(exist_ok=True)
    shutil.copyfile(workspace / given["path"], run.repository.caches / given["key"])
    return True


ACTIONS = {
    "actions/cache/restore": _restore,
    "actions/cache/save": _save,
    "actions/checkout": _checkout,
    "actions/upload-artifact": _upload,
    "actions/download-artifact": _download,
}


# -- parts -----------------------------------------------------------------------------------------


def interpolate_all(value: Any, contexts: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: interpolate_all(part, contexts) for key, part in value.items()}
    if isinstance(value, list):
        return [interpolate_all(part, contexts) for part in value]
    return interpolate(value, contexts) if isinstance(value, str) else value


def _condition(text: str | None, contexts: Mapping[str, Any], before: set[Result]) -> bool:
    """``if:``, which is success() where it does not ask how it went before."""
    good = before <= {"success"}
    functions = {
        "always": lambda: True,
        "cancelled": lambda: False,
        "success": lambda: good,
        "failure": lambda: "failure" in before,
    }
    if text is None:
        return good
    inner = text.strip()
    inner = inner if inner.startswith("${{") else "${{ " + inner + " }}"
    asked = any(f"{name}(" in inner for name in functions)
    return bool(interpolate(inner, contexts, functions)) and (asked or good)


def _needs(job: Mapping[str, Any]) -> Sequence[str]:
    needs = job.get("needs", [])
    return [needs] if isinstance(needs, str) else needs


def _only(found: set[Any], known: set[str], place: str) -> None:
    if found - known:
        raise Unsupported(f"{place}: {sorted(found - known)}")


def host_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a runner of this site has: programs, mirror, certificates and proxies; nothing of the person."""
    kept = ("PATH", "LANG", "DOCKER_HOST", "SSL_CERT_FILE", "SSL_CERT_DIR", "STACKWRIGHT_APT_MIRROR")
    proxies = ("http_proxy", "https_proxy", "no_proxy")
    return {
        name: value
        for name, value in environ.items()
        if name in kept or name.lower() in proxies or name.startswith("PIP_")
    }
