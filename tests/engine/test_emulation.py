"""The emulator: the base of a row for another platform, a step of a build on it, and a SIF of that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackwright.build.sif import convert
from stackwright.core.model.row import Stack
from stackwright.core.model.target import ARM64
from stackwright.engines import apptainer, emulation
from stackwright.engines import docker as engine
from stackwright.engines.bases import debian
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import Docker, Job
from stackwright.engines.sif.layout import ARCHITECTURES
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings

ROOT = Path(__file__).parents[2]
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.arm.yaml", out=ROOT / "out")
SCRIPT = str(ROOT / emulation.SCRIPT)
STEP = """ARG BASE_IMAGE
ARG PLATFORM
FROM --platform=${PLATFORM} ${BASE_IMAGE} AS base
RUN uname -m > /machine; dpkg --print-architecture >> /machine
"""


def test_the_script_says_whether_there_is_an_emulator() -> None:
    done = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True, check=False)
    there = emulation.is_native(ARM64) or bool(emulation.emulator(ARM64))
    assert (done.returncode == 0) is there, done.stdout + done.stderr
    assert done.stdout.startswith("emulation: ready" if there else "emulation: missing")


def test_the_script_changes_nothing_in_a_dry_run() -> None:
    before = emulation.emulator(ARM64)
    done = subprocess.run([SCRIPT, "--dry-run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert emulation.emulator(ARM64) == before
    assert before or "binfmt_misc" in done.stdout
    assert subprocess.run([SCRIPT, "--wrong"], capture_output=True, check=False).returncode == 2


@pytest.fixture
def base(docker: Docker, runner: Runner) -> Iterator[tuple[Stack, str]]:
    """That of the row, which a later build uses as well."""
    if not emulation.is_native(ARM64) and not emulation.emulator(ARM64):
        pytest.skip(f"no emulator for {ARM64.name}: {emulation.SCRIPT} installs one, as root")
    (row,) = plan(PROJECT, cells(PROJECT)).rows
    site = settings.site(runner, os.environ)
    ((_, name),) = debian.ensure(row.stack, BaseTools(docker=docker, runner=runner, site=site, say=print))
    yield row.stack, name


@pytest.mark.nightly  # minutes: each script of the packages of a base runs in the emulator
def test_a_base_for_arm_is_made_built_upon_and_converted(
    base: tuple[Stack, str], docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    stack, name = base
    assert "-arm64-" in name
    (tmp_path / "Dockerfile").write_text(STEP)
    made = f"stackwright-test/emulated:{os.getpid()}"
    arguments = ("--build-arg", f"BASE_IMAGE={name}", "--build-arg", f"PLATFORM={ARM64.name}")
    words = ("--progress=plain", "--provenance=false", *emulation.words(stack.platform), *arguments)
    try:
        done = runner(docker.build(*words, "--tag", made, tmp_path))
        assert done.ok, done.stderr
        for image in (name, made):
            found = engine.inspect(docker, image) or {}
            assert (found["Os"], found["Architecture"]) == ("linux", "arm64")
        said = engine.run(docker, Job(image=made, argv=("cat", "/machine"), network=False))
        assert said.stdout.split() == ["aarch64", "arm64"], said.stderr
        program = apptainer.find(runner, docker, mirror=settings.apt_mirror(runner))
        sif = tmp_path / "made.sif"
        convert.to_sif(made, sif, docker=docker, runner=runner, apptainer=program, image_bytes=2 * 10**8)
        assert sif.read_bytes()[45:48] == ARCHITECTURES[ARM64.architecture]
        inside = convert.execute(
            program, sif, ["cat", "/machine"], mounts=(), timeout=300, gpu=None, user=None
        )
        assert inside.stdout.split() == ["aarch64", "arm64"], inside.stderr
    finally:
        engine.remove(docker, made)
