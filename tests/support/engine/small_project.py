"""A project whose rows build in seconds: the real pipeline over templates of five small stages."""

from __future__ import annotations

import shutil
from pathlib import Path

from stackwright.core.components.table import FILES

ROOT = Path(__file__).parents[3]
BASE = "stackwright/base:debian-13-20260101T000000Z"
"""What the base of UpstreamServer's suite is called."""

NAP = "sleep 0.3"
"""What each step waits for where a night is to be killed in its middle."""

DOCKERFILE = """\
ARG BASE_IMAGE
FROM ${{BASE_IMAGE}} AS base
RUN --network=none echo {salt} python {{{{ stack.python }}}}; {nap}
FROM base AS toolchain
RUN --network=none echo {salt} gcc {{{{ stack.gcc }}}}; {nap}
FROM base AS frameworks
RUN --network=none --mount=type=bind,source=requirements.txt,target=/in cat /in > /new; echo {salt}; {nap}
FROM toolchain AS horovod
RUN --network=none --mount=type=bind,from=frameworks,target=/new cat /new/new > /wheel; echo {salt}; {nap}
FROM base AS final
COPY --link --from=horovod /wheel /wheel
COPY --link row.json /row.json
LABEL org.stackwright.stack={{{{ row_json | dockerfile_literal }}}}
"""
HEAD = """\
defaults:
  provider: debian
  os: debian-13
  python: "3.13"
  gcc: "13"
  cuda: "12.4"
  mpi: {flavour: openmpi, version: "5.0"}
  horovod: "0.28.1"
  torch: "2.6.0"
  gpu_arch: ["8.0"]
include:
"""
ROWS = ("small-a", "small-b", "small-c")
NCCL = {"small-a": "", "small-b": "2.27.7", "small-c": "2.27.7"}


def make(folder: Path, salt: str, *, nap: str = "true") -> Path:
    """A project's root. ``salt`` keeps its steps from being those of another test."""
    for name in ("patches/horovod", "image", "probes"):
        shutil.copytree(ROOT / name, folder / name)
    for name in (*FILES, "singularity/judge.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "dockerfiles").mkdir()
    (folder / "dockerfiles" / "Dockerfile.j2").write_text(DOCKERFILE.format(salt=salt, nap=nap))
    write_matrix(folder, NCCL)
    return folder


def write_matrix(folder: Path, nccl: dict[str, str]) -> None:
    """One row for each name; its NCCL is given, or left to the lock where it is empty."""
    lines = [f"  - id: {row}\n" + (f'    nccl: "{found}"\n' if found else "") for row, found in nccl.items()]
    (folder / "matrix.yaml").write_text(HEAD + "".join(lines))
