"""The debian provider's base image: made by mmdebstrap from the host's mirror, kept by suite and date."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from stackwright.engines.docker import Docker, image_exists
from stackwright.errors import EngineError, SiteError
from stackwright.model import Base
from stackwright.runner import Runner

KEEP_NOTHING_OF_THE_SITE = (
    "rm -f $1/etc/apt/sources.list $1/etc/apt/sources.list.d/* $1/etc/resolv.conf $1/etc/hostname",
    "rm -rf $1/var/log/* $1/var/cache/ldconfig/aux-cache $1/var/lib/apt/lists/*",
)


def reference(base: Base) -> str:
    return f"stackwright/base:{base.os}-{base.date}"


def ensure(base: Base, *, docker: Docker, runner: Runner, mirror: str) -> str:
    """The name of the base image; made first if the engine does not have it.

    The mirror gives what it has today. Where it moved on since the row was locked, the image's own
    release is compared with the row's by a probe, which says so.
    """
    name = reference(base)
    if image_exists(docker, name):
        return name
    with tempfile.TemporaryDirectory(prefix="stackwright-base-") as folder:
        tar = Path(folder) / "base.tar"
        hooks = [f"--customize-hook={hook}" for hook in KEEP_NOTHING_OF_THE_SITE]
        options = ("--quiet", "--variant=minbase", "--include=ca-certificates", *hooks)
        done = runner(["mmdebstrap", *options, base.suite, tar, mirror], timeout=900)
        if not done.ok:
            raise SiteError(
                f"mmdebstrap could not make {base.suite}: {_last_error(done.stderr)}",
                hint="scripts/engine.sh installs mmdebstrap; ./build.py doctor says which mirror is used",
            )
        label = f"LABEL org.stackwright.base={base.os}"
        done = runner(docker.command("image", "import", "--change", label, tar, name))
        if not done.ok:
            raise EngineError(f"the base could not be imported: {done.stderr.strip()}", place=name)
    return name


def _last_error(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"E:|.*error", line, re.IGNORECASE)]
    return (errors or lines or ["it said nothing"])[-1]
