"""The same through a real Slurm: slurmctld and slurmd in two containers, each with one of the two engines."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import cluster as clusters
import node_pair
import pytest
from cluster import SLURM_CONF, Cluster
from distributed import Security
from node_pair import CACHE, DYING, ROWS, Nodes
from rows_run import complete, distinct, ended, in_its_slow_step, records, while_it_runs

from stackwright.core.model.record import Status
from stackwright.engines import docker as engine
from stackwright.engines import stage_cache
from stackwright.engines.bases.table import ENSURE
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import Docker
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytest_plugins = ("node_fixtures",)
pytestmark = pytest.mark.engine
IMAGE = "stackwright-test/slurm-python:1"
PYTHON = "3.13"
"""That of the nodes' distribution: it runs the project there, with the packages of requirements.txt."""
clusters.PACKAGES[IMAGE] = ("slurmctld", "slurmd", "slurm-client", "munge", "python3", "procps")
SHARED = stage_cache.Cache(repository=CACHE)
RUN = "from stackwright.cli.main import main; main(['probe', '--cluster', 'slurm', '--jobs', '2'])"
ASK = """
from stackwright.build.nodes.client import in_queue
from stackwright.host.runner import Runner
print(in_queue(["77777"], Runner()))
"""
JOBQUEUE = """
jobqueue:
  slurm: {cores: 1, memory: 1GB, walltime: "00:10:00", interface: eth0, job-extra-directives: [--exclusive]}
"""


@pytest.fixture(scope="module")
def packages(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    uv = node_pair.ROOT / ".venv/bin/uv"
    done = runner([
        uv, "pip", "install", "--quiet", "--python-version", PYTHON, "--target", target,
        "--require-hashes", "-r", node_pair.ROOT / "requirements.txt",
    ])  # fmt: skip
    assert done.ok, done.stderr
    return target


@pytest.fixture
def slurm(runner: Runner, nodes: Nodes, project: Path, packages: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Each node sees the project under its own path, and one of the engines as if it were its own."""
    docker, folder = engine.find(runner), tmp_path / "job"
    folder.mkdir()
    (folder / "jobqueue.yaml").write_text(JOBQUEUE)
    shared = list(_seen(project, packages, *_client(runner, docker)))
    options = {
        name: [*shared, "--volume", f"{node.folder}/s:/run/docker.sock"]
        for name, node in zip(clusters.HOSTS, nodes.engines, strict=True)
    }
    with clusters.up(runner, docker, folder, image=IMAGE, options=options) as started:
        yield started


def _seen(*paths: Path) -> Iterator[str]:
    for path in paths:
        yield from ("--volume", f"{path}:{path}")


def _client(runner: Runner, docker: Docker) -> tuple[Path, Path]:
    """The docker program and its buildx, which are the host's own."""
    form = '{{range .ClientInfo.Plugins}}{{if eq .Name "buildx"}}{{.Path}}{{end}}{{end}}'
    return Path(docker.program), Path(runner(docker.command("info", "--format", form)).stdout.strip())


@pytest.fixture
def base(project: Path, nodes: Nodes, runner: Runner) -> None:
    """In the registry: the nodes have no way to a mirror."""
    found = Project(root=project, matrix=project / "matrix.yaml", out=project / "out")
    stack = plan(found, cells(found, ROWS[:1])).rows[0].stack
    first = nodes.engines[0].docker
    means = BaseTools(
        docker=first, runner=runner, site=settings.site(runner), say=print, bring=partial(_bring, first)
    )
    for _, image in ENSURE[stack.provider](stack, means):
        stage_cache.send(first, image, SHARED.base(image))


def _bring(docker: Docker, image: str) -> None:
    """What a test before had built."""
    if stage_cache.has(docker, SHARED.base(image)):
        stage_cache.fetch(docker, SHARED.base(image), image)


def start(slurm: Cluster, project: Path, packages: Path, program: str = RUN) -> subprocess.Popen[str]:
    """On the first node, as on a login node."""
    environment = {
        "SLURM_CONF": SLURM_CONF, "STACKWRIGHT_CACHE": CACHE, "DASK_CONFIG": clusters.JOB,
        "PYTHONPATH": f"{project}:{packages}",
    }  # fmt: skip
    given = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
    argv = slurm.docker.command(
        "exec", *given, "--workdir", project, slurm.containers[0], "python3", "-c", program
    )
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def inside(slurm: Cluster, container: str, script: str) -> str:
    return slurm.runner(
        slurm.docker.command("exec", "--env", f"SLURM_CONF={SLURM_CONF}", container, "sh", "-c", script)
    ).stdout


def test_a_broken_connection_takes_others_with_it_unless_it_is_ours(runner: Runner, tmp_path: Path) -> None:
    """The nodes' Python breaks both; when it does so no longer, stackwright/build/nodes/tls.py can go."""
    docker = engine.find(runner)
    clusters.ensure(runner, docker, IMAGE)
    security = Security.temporary()
    (tmp_path / "cert.pem").write_text(security.tls_client_cert)
    (tmp_path / "key.pem").write_text(security.tls_client_key)
    words = docker.command(
        "run", "--rm", *_seen(tmp_path), "--volume", f"{node_pair.ROOT}:/project:ro",
        "--env", "PYTHONPATH=/project", "--env", "PYTHONDONTWRITEBYTECODE=1", "--workdir", tmp_path, IMAGE,
        "python3", "/project/tests/support/cluster/broken_connection.py", "cert.pem", "key.pem",
    )  # fmt: skip
    assert runner(words).stdout.strip() == "BrokenPipeError"
    assert runner([*words, "mended"]).stdout.strip() == "SSLWantReadError"


@pytest.mark.usefixtures("base")
def test_a_job_that_is_killed_in_a_build_has_its_row_done_by_another(
    slurm: Cluster, project: Path, packages: Path, nodes: Nodes
) -> None:
    run = start(slurm, project, packages)
    while_it_runs(run, lambda: in_its_slow_step(project, DYING), "step to die in")
    killed = [container for container in slurm.containers if _kill_worker_of(slurm, container, DYING)]
    assert len(killed) == 1
    said = ended(run)
    assert "not encrypted" not in said
    assert complete(project) == set(ROWS), said
    assert [record.row for record in records(project) if record.status is not Status.COMPLETE] == [DYING], (
        said
    )
    assert distinct(project) <= len(nodes.executed()) <= distinct(project) * 1.1, nodes.executed()
    assert inside(slurm, slurm.containers[0], "squeue --noheader").strip() == ""
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in _files(project / "out" / "cluster"))

    assert ended(start(slurm, project, packages, ASK)) == "False\n"
    inside(slurm, slurm.containers[0], "pkill slurmctld")
    assert ended(start(slurm, project, packages, ASK)) == "True\n"  # nobody knows


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _kill_worker_of(slurm: Cluster, container: str, row: str) -> bool:
    """kill -9 of all that Slurm started on the node that builds the row, if it is this one."""
    pattern = shlex.quote(f"stackwright/[{row[0]}]{row[1:]}:")  # which is not in the words of grep itself
    building = f"grep --text --files-with-matches {pattern} /proc/[0-9]*/cmdline 2>/dev/null"
    if not inside(slurm, container, building).strip():
        return False
    inside(slurm, container, "pkill --signal KILL --full [d]istributed.cli.dask_worker")
    return True
