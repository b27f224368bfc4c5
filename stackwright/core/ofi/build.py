"""How NCCL's plugin for libfabric is built for an image: from an archive, against the row's CUDA."""

from __future__ import annotations

from stackwright.core.components.component import Build
from stackwright.core.model.row import Stack
from stackwright.core.ofi.plugin import BY_VERSION, NAME, PACKAGE, SCRIPT
from stackwright.core.render.sources import ARCHIVE, Sources

PACKAGES = (PACKAGE, "libfabric-bin", "libhwloc15")
"""The distribution's packages in the image: libfabric, its providers, fi_info, what the plugin loads."""
TOOLS = ("autoconf", "automake", "libfabric-dev", "libhwloc-dev", "libtool")
"""Packages with which it is compiled, besides those that compile everything."""


def _context(stack: Stack, sources: Sources) -> dict[str, bytes]:
    release = BY_VERSION[stack.plugin]
    return {
        f"{NAME}/build-ofi-plugin.sh": dict(sources.files)[SCRIPT],
        f"{NAME}/{ARCHIVE}": release.named,
    }


BUILD = Build(
    folder=NAME,
    context=_context,
    stage="aws-ofi-nccl.j2",
    makes="plugin",
    tools=TOOLS,
    install="aws-ofi-nccl-install.j2",
    steps="steps/aws-ofi-nccl.j2",
    files=(SCRIPT,),
)
