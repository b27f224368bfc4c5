"""How nccl-tests is built for an image: from an archive, against the row's CUDA, NCCL and MPI."""

from __future__ import annotations

from stackwright.core.benchmarks.nccl_tests import BY_VERSION, NAME, PROGRAMS, SCRIPT
from stackwright.core.components.component import Build
from stackwright.core.model.row import Stack
from stackwright.core.render.sources import ARCHIVE, Sources


def _context(stack: Stack, sources: Sources) -> dict[str, bytes]:
    return {
        f"{NAME}/build-nccl-tests.sh": dict(sources.files)[SCRIPT],
        f"{NAME}/{ARCHIVE}": BY_VERSION[stack.nccl_tests].named,
    }


BUILD = Build(
    folder=NAME,
    context=_context,
    values=lambda stack, sources: {"benchmarks": PROGRAMS},
    stage="nccl-tests.j2",
    makes="program",
    install="nccl-tests-install.j2",
    steps="steps/nccl-tests.j2",
    files=(SCRIPT,),
)
