"""A cluster for the tests: containers with Debian's Slurm and Apptainer, where a job runs as on a real one.

A rank is what slurmd starts, in the way that the recipes say: apptainer itself, by a user without privileges.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from stackwright.build.sif import convert
from stackwright.core.launch import fabric
from stackwright.core.launch.recipe import Fabric, Site
from stackwright.engines import apptainer
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Project
from stackwright.host.runner import Completed, Runner
from stackwright.host.site import settings as host

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "out"
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=OUT)
TRAP = "singleton trap: 2 ranks were started, and"
"""What a job says whose ranks do not find each other."""
HOSTS = ("a", "b")
USER = 1000
JOB = "/job"
"""The disk that every node sees."""
SIFS = "/sifs"
"""What the rows' SIFs lie below, as the nodes see it."""
SLURM_CONF = f"{JOB}/slurm/slurm.conf"
LIMIT = 600
WAITED = """
job=$(sbatch --parsable "$@") || exit
while found=$(scontrol --oneliner show job "$job"); do
    case $found in
    *JobState=COMPLETED*) exit 0 ;;
    *JobState=PENDING* | *JobState=RUNNING* | *JobState=COMPLETING* | *JobState=CONFIGURING*) sleep 0.2 ;;
    *) echo "$found" >&2; exit 1 ;;
    esac
done
"""
"""sbatch --wait asks every ten seconds only."""
IMAGE = "stackwright-test/slurm:1"
MPI_IMAGES = {"openmpi": "stackwright-test/openmpi:1", "mpich": "stackwright-test/mpich:1"}
"""Debian 13's MPI and Python, and nothing else: 160 and 240 MB."""
SUITE = "trixie"
"""Its slurm-wlm-basic-plugins have mpi/pmix; those of sid have not."""

LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
ROCM = ("*/libLLVM*", "*/libz3*", "*/libamd*")
"""240 MB that UCX loads for AMD's GPUs only."""
PACKAGES = {
    IMAGE: ("slurmctld", "slurmd", "slurm-client", "munge", "squashfuse", "squashfs-tools", "apptainer/sid"),
    MPI_IMAGES["openmpi"]: ("openmpi-bin", "python3"),
    MPI_IMAGES["mpich"]: ("mpich", "python3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``folder`` is /job on the nodes, and belongs to their user."""

    runner: Runner
    docker: Docker
    containers: tuple[str, ...]
    folder: Path

    def run(self, *argv: str, timeout: float = LIMIT) -> Completed:
        """On the first node, which is the login node too."""
        options = ("--user", str(USER), "--workdir", JOB, "--env", f"SLURM_CONF={SLURM_CONF}")
        return self.runner(self.docker.command("exec", *options, self.containers[0], *argv), timeout=timeout)

    def submit(self, script: str) -> Completed:
        """A script for sbatch, waited for; ``stdout`` is all that the job wrote."""
        name = uuid4().hex[:8]
        (self.folder / f"{name}.sh").write_text(script)
        done = self.run("sh", "-c", WAITED, "sh", "--time=10", f"--output={name}.out", f"{name}.sh")
        output = self.folder / f"{name}.out"
        text = output.read_text(errors="replace") if output.exists() else ""
        return Completed(argv=done.argv, returncode=done.returncode, stdout=text, stderr=done.stderr)


@contextlib.contextmanager
def up(
    runner: Runner,
    docker: Docker,
    folder: Path,
    *,
    image: str = IMAGE,
    options: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Cluster]:
    """Nodes on a private network, all idle. A job finds the probes in /probes, the examples in /examples.

    ``options`` are more words for `docker run`, by the node's name.
    """
    ensure(runner, docker, image)
    tag = uuid4().hex[:8]
    network, containers = f"slurm-{tag}", tuple(f"slurm-{host}-{tag}" for host in HOSTS)
    (folder / "slurm").mkdir()
    for proof in fabric.proofs(Site(nodes=2, fabric=Fabric.INFINIBAND), ""):
        (folder / proof.file).write_text(proof.program)
    OUT.mkdir(exist_ok=True)  # else the engine makes it
    for path in (folder, folder / "slurm"):
        os.chown(path, USER, USER)
    _must(runner(docker.command("network", "create", "--internal", network)))
    try:
        for name, container in zip(HOSTS, containers, strict=True):
            words = (*_options(name, container, network, folder), *(options or {}).get(name, ()))
            _must(runner(docker.command("run", "--detach", *words, image, "sleep", "infinity")))
        start = f"/scripts/slurm.sh {JOB}/slurm {','.join(HOSTS)}"
        ready = "useradd --create-home --uid 1000 user && chmod 666 /dev/fuse"
        for container in reversed(containers):  # the first one waits for the others
            wait = "" if container == containers[0] else "--detach"
            words = ("exec", *filter(None, (wait,)), container, "sh", "-c", f"{ready} && exec {start}")
            _must(runner(docker.command(*words), timeout=120))
        yield Cluster(runner=runner, docker=docker, containers=containers, folder=folder)
    finally:
        runner(docker.command("rm", "--force", *containers))
        runner(docker.command("network", "rm", network))


def _options(name: str, container: str, network: str, folder: Path) -> Iterator[str]:
    yield from ("--name", container, "--hostname", name, "--network", network, "--network-alias", name)
    # Privileged, as in scripts/apptainer: a SIF is mounted by FUSE, in a user namespace.
    yield from ("--privileged", "--init", "--label", f"{engine.MADE_BY_US}={os.getpid()}", "--shm-size", "1g")
    yield from ("--volume", f"{folder}:{JOB}", "--volume", f"{OUT}:{SIFS}:ro")
    for shared in ("scripts", "probes", "examples"):
        yield from ("--volume", f"{ROOT / shared}:/{shared}:ro")
    yield from ("--env", "APPTAINER_BIND=/probes,/examples")


def ensure(runner: Runner, docker: Docker, image: str) -> None:
    """Make the image of the distribution's packages if it is not there (a minute)."""
    if engine.image_exists(docker, image):
        return
    mirror = host.apt_mirror(runner)
    sources = [f"deb {mirror} {suite} main" for suite in (SUITE, "sid")] if mirror else []
    options = [f"--dpkgopt=path-exclude={path}" for path in (*LEFT_OUT, *(() if image == IMAGE else ROCM))]
    options += ['--aptopt=Acquire::Retries "3"', '--aptopt=Acquire::Check-Valid-Until "false"']
    options += [f'--aptopt=APT::Default-Release "{SUITE}"']
    with tempfile.TemporaryDirectory(prefix="stackwright-") as scratch:
        archive = Path(scratch) / "image.tar"
        include = f"--include={','.join(PACKAGES[image])}"
        argv: list[str | Path] = [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            include,
            *options,
            SUITE,
            archive,
            *sources,
        ]
        _must(runner(argv, timeout=1800))
        label = "LABEL org.stackwright.row=hpc-test"
        _must(runner(docker.command("import", "--change", label, archive, image), timeout=600))


def sif(runner: Runner, docker: Docker, flavour: str, folder: Path) -> Path:
    """A SIF with this MPI, made as those of the rows are."""
    ensure(runner, docker, MPI_IMAGES[flavour])
    target = folder / f"{flavour}.sif"
    program = apptainer.find(runner, docker, mirror=host.apt_mirror(runner))
    convert.to_sif(
        MPI_IMAGES[flavour], target, docker=docker, runner=runner, apptainer=program, image_bytes=3 * 10**8
    )
    return target


def _must(done: Completed) -> None:
    assert done.ok, f"{shlex.join(done.argv)[:300]}: {done.stderr}{done.stdout}"
