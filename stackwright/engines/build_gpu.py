"""The GPU of a build: a step of the Dockerfile that runs on a device."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from docker import DockerClient

from stackwright.core.model.target import CUDA
from stackwright.engines.docker import Docker
from stackwright.engines.gpu import ABSENT_PROGRAM, ALL, NoGpu, Way, _empty_image
from stackwright.host.runner import Completed, Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildGpu:
    """How a ``RUN`` step gets the GPU.

    CDI: BuildKit, and each step that wants the device says ``run_flag``. RUNTIME: the classic builder, whose
    steps run in the engine's default runtime; it knows no ``RUN --mount``, so only a Dockerfile without one.
    """

    way: Way
    detail: str
    options: tuple[str, ...] = ()

    @property
    def run_flag(self) -> str:
        """The options between ``RUN`` and the command, with their space."""
        return f"--device={ALL} " if self.way is Way.CDI else ""

    @property
    def env(self) -> dict[str, str]:
        return {} if self.way is Way.CDI else {"DOCKER_BUILDKIT": "0"}

    def command(self, docker: Docker, *words: str | Path) -> tuple[str, ...]:
        """Return the argv of a build, to be run with ``env``; ``words`` as for ``docker build``."""
        given = (*self.options, *words)
        return docker.build(*given) if self.way is Way.CDI else docker.command("build", *given)


def look_for_build_gpu(
    runner: Runner, docker: Docker, client: DockerClient, *, syntax: str = ""
) -> BuildGpu | NoGpu:
    """CDI in BuildKit if the engine takes it, else the classic builder if its default runtime is NVIDIA's.

    ``RUN --device`` is known only to a "labs" Dockerfile frontend, and the one built into Docker 28 is none.
    A site that has an image of one (docker/dockerfile:1-labs) names it in ``syntax``.
    """
    frontend = ("--build-arg", f"BUILDKIT_SYNTAX={syntax}") if syntax else ()
    reason = ""
    # The second trial is for a CDI device that its specification lets every build have.
    for allowed in (("--allow", f"device={ALL}"), ()):
        found = BuildGpu(way=Way.CDI, detail=syntax or "built-in frontend", options=(*frontend, *allowed))
        done = _try_build(runner, docker, client, found)
        if ABSENT_PROGRAM in done.stderr.rpartition("ERROR:")[2]:
            return found
        reason = (
            done.stderr.strip().splitlines()[-1].removeprefix("ERROR: failed to build: failed to solve: ")
        )
    default = client.info().get("DefaultRuntime", "")
    if default == CUDA.runtime:
        return BuildGpu(way=Way.RUNTIME, detail=f"the engine's default runtime is {default}")
    runtime = f"the engine's default runtime is {default}, not {CUDA.runtime}"
    return NoGpu(reason=f"cdi: {reason}; runtime: {runtime}")


def _try_build(runner: Runner, docker: Docker, client: DockerClient, gpu: BuildGpu) -> Completed:
    """Like ``_try``: the one step of the build must fail on the program that is not there."""
    image = _empty_image(client)
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        text = f'FROM {image}\nRUN {gpu.run_flag}["{ABSENT_PROGRAM}"]\n'
        (Path(folder) / "Dockerfile").write_text(text)
        argv = gpu.command(docker, "--no-cache", "--network=none", "--progress=plain", folder)
        return runner(argv, env=gpu.env, timeout=120)
