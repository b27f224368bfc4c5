"""Rows of the nvidia provider on the engine: images handed in, and Dockerfiles built on a swapped base.

A registry may be out of reach, so a Debian takes Ubuntu's place: the one that has the packages of the row's
names. NVIDIA's image is one that holds a program named nvcc and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from own_engine import TINY, StartEngine

from stackwright.core.errors import SiteError
from stackwright.core.facts import distributions
from stackwright.core.model.row import Stack
from stackwright.core.model.site import Site
from stackwright.core.render import dockerfile
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.engines import docker as engine
from stackwright.engines.bases.table import ENSURE
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings

ROOT = Path(__file__).parents[2]
ROWS = {
    matrix: {row.stack.id: row for row in plan(project, cells(project)).rows}
    for matrix in ("matrix.yaml", "matrix.nvidia.yaml")
    for project in [Project(root=ROOT, matrix=ROOT / matrix, out=ROOT / "out")]
}
NVCC = "#!/bin/sh\\necho Cuda compilation tools, release"

# The row of matrix.yaml whose Debian takes Ubuntu's place, and the last stage that is built on it. All that a
# toolchain is made of is built once, being 500 MB of packages; no Debian of today has the gcc 7 of the last.
SWAPPED = {
    "cuda11-ubuntu": ("cuda11-legacy", "base"),
    "cuda12-ubuntu": ("cuda12-torch", "toolchain"),
    "cuda12-jammy": ("cuda11-classic", "base"),
    "cuda13-ubuntu": ("cuda12-torch", "base"),
    "oldest-nearest": ("cuda11-legacy", "base"),
}


@pytest.fixture(scope="module")
def site(runner: Runner) -> Site:
    return settings.site(runner)


@pytest.fixture
def debian(docker: Docker, runner: Runner, site: Site) -> Callable[[Stack], str]:
    """The base image of the debian provider; it is made where the engine has none."""

    def ensure(stack: Stack) -> str:
        means = BaseTools(docker=docker, runner=runner, site=site, say=print)
        ((_, name),) = ENSURE["debian"](stack, means)
        return name

    return ensure


def _image(docker: Docker, runner: Runner, text: str, name: str) -> str:
    done = runner(docker.command("build", "--quiet", "--tag", name, "-"), stdin=text, timeout=300)
    assert done.ok, done.stderr
    return name


def test_every_row_is_built_as_far_as_a_debian_allows() -> None:
    assert SWAPPED.keys() == ROWS["matrix.nvidia.yaml"].keys()


QUICKEST = "cuda13-ubuntu"
"""The others need a base of another release of Debian, or a toolchain of 500 MB: minutes to make."""


@pytest.mark.parametrize(
    "id",
    [pytest.param(id, marks=pytest.mark.long if id == QUICKEST else pytest.mark.nightly) for id in SWAPPED],
)
def test_a_row_builds_on_a_swapped_base(
    id: str, docker: Docker, runner: Runner, site: Site, debian: Callable[[Stack], str], tiny: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    row: Planned = ROWS["matrix.nvidia.yaml"][id]
    likely, stage = SWAPPED[id]
    stack = ROWS["matrix.yaml"][likely].stack
    name = f"stackwright/nvidia-test:{uuid4().hex[:12]}"
    # as Ubuntu 24.04, which has a user 1000 of its own
    base = _image(docker, runner, f"FROM {debian(stack)}\nRUN useradd -m -u 1000 ubuntu\n", f"{name}-base")
    nvcc = f"{PROVIDERS['nvidia'].copies(row.stack)}/bin/nvcc"
    fake = f"RUN mkdir -p {Path(nvcc).parent} && printf '{NVCC} {row.stack.cuda}' > {nvcc} && chmod +x {nvcc}"
    cuda = _image(docker, runner, f"FROM {tiny}\n{fake}\n", f"{name}-cuda")
    dockerfile.write(row.recipe, tmp_path / "context")
    own = replace(distributions.known(stack.os), sources=distributions.known(row.stack.os).sources)
    secrets = settings.site_secrets(tmp_path / "private", site, own)
    try:
        done = runner(
            docker.command(
                "buildx", "build", "--provenance=false", "--target", stage, "--tag", name,
                "--build-arg", f"BASE_IMAGE={base}", "--build-arg", f"CUDA_IMAGE={cuda}",
                *(word for secret in secrets for word in ("--secret", secret.argument)),
                *(word for proxy, _ in site.proxies for word in ("--build-arg", proxy)),
                tmp_path / "context",
            ),
            env=dict(site.proxies), timeout=1200,
        )  # fmt: skip
        assert done.ok, done.stderr[-3000:]
        _look_inside(docker, name, row.stack, stage)
    finally:
        runner(docker.command("image", "rm", "--force", name, base, cuda))


def _look_inside(docker: Docker, image: str, stack: Stack, stage: str) -> None:
    def said(script: str) -> str:
        job = engine.Job(image=image, argv=("bash", "-c", script), network=False)
        done = engine.run(docker, job, timeout=60)
        assert done.ok, (script, done.stdout, done.stderr)
        return done.stdout.strip()

    found = engine.inspect(docker, image)
    assert found
    assert found["Config"]["Labels"]["org.stackwright.provider"] == "nvidia"
    assert said("getent passwd 1000 || ls /home") == ""
    assert said("find /etc/apt -name '*.list' -o -name '*.sources' -o -name sources.list") == ""
    python = "python3.9" if stack.python == "3.9" else "python3"
    assert said(f"{python} -m venv /tmp/venv && /tmp/venv/bin/python -c 'print(1)'") == "1"
    if stage == "toolchain":
        release = distributions.gcc_release(stack.gcc)
        assert said(f"gcc-{release} -dumpversion") == said(f"g++-{release} -dumpversion") == release
        assert said("/usr/local/cuda/bin/nvcc") == f"Cuda compilation tools, release {stack.cuda}"
        assert said("cmake --version > /dev/null && mpirun --version | head -1").startswith(
            "mpirun (Open MPI)"
        )


def test_without_a_registry_an_image_is_asked_for_by_name_and_taken_when_it_is_handed_in(
    start_engine: StartEngine, runner: Runner
) -> None:
    """An engine without a network reaches no registry, wherever this runs."""
    own = start_engine().docker
    stack = ROWS["matrix.nvidia.yaml"]["cuda12-ubuntu"].stack
    site = Site(mirror=None, ca=None, pip=(), proxies=())
    means = BaseTools(docker=own, runner=runner, site=site, say=print)
    for argument, name in PROVIDERS["nvidia"].images(stack):
        with pytest.raises(SiteError, match="could not be pulled") as caught:
            ENSURE["nvidia"](stack, means)
        assert caught.value.place == name, argument
        assert runner(own.command("tag", TINY, name)).ok
    assert ENSURE["nvidia"](stack, means) == PROVIDERS["nvidia"].wanted(stack)
