"""``build --gpu``: rows that ask for it are tested on the GPU while they are built.

The image itself is cross-compiled and needs no GPU. The test is one more build on top of it, whose steps are
given the device: where BuildKit can do that by CDI, else by the classic builder and the ``nvidia`` runtime.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from stackwright.build.job import Job
from stackwright.core.components.table import extensions
from stackwright.core.errors import BuildError, EngineError
from stackwright.core.facts.build_failures import BuildFailure, last_lines
from stackwright.core.model.row import Stack
from stackwright.core.render import dockerfile
from stackwright.core.render.sources import Sources
from stackwright.engines import docker as engine
from stackwright.engines.build_gpu import look_for_build_gpu
from stackwright.engines.docker import Docker
from stackwright.engines.gpu import NoGpu
from stackwright.host.runner import Runner

GPU_BUILD = "gpu while building"
"""Among the tools of a record: how the build was given the GPU, where the row asked to be tested on one."""

TIMEOUT = 1800
"""Seconds; the first use of a device may compile kernels."""


def wants_gpu(job: Job) -> bool:
    """Return whether the row is to be tested on a GPU while it is built."""
    return job.gpu and job.row.stack.test_on_gpu


def try_on_gpu(
    stack: Stack,
    reference: str,
    *,
    project: Path,
    sources: Sources,
    docker: Docker,
    runner: Runner,
) -> str:
    """How the device was given. EngineError where no build gets one, BuildError where the test fails."""
    with engine.connected(docker) as client:
        access = look_for_build_gpu(runner, docker, client)
    if isinstance(access, NoGpu):
        raise EngineError(
            f"the row asks to be tested on a GPU, and no build gets one here: {access.reason}",
            place=stack.id,
            hint="./build.py doctor says what the engine has; without --gpu the row is built all the same",
        )
    with tempfile.TemporaryDirectory(prefix="stackwright-gpu-") as folder:
        compiled = [name for name, _ in extensions(stack)]
        text = dockerfile.gpu_test(sources, reference, compiled, access.run_flag)
        (Path(folder) / "Dockerfile").write_text(text)
        (Path(folder) / "gpu.py").write_bytes((project / "probes" / "gpu.py").read_bytes())
        argv = access.command(docker, "--no-cache", folder)
        done = runner(argv, env=access.env, timeout=TIMEOUT)
    if not done.ok:
        failure = BuildFailure(
            row=stack.id, step="", message=f"the test on the GPU failed ({access.detail})", cause=None,
            tail=last_lines((done.stdout + done.stderr).splitlines()), log=None, advice="",
        )  # fmt: skip
        raise BuildError.of(failure)
    return f"{access.way}: {access.detail}"
