"""A small Debian with some packages, for stand-ins that need a compiler and a loader."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Completed, Runner
from stackwright.host.site.settings import apt_mirror


def image(docker: Docker, runner: Runner, folder: Path, packages: tuple[str, ...]) -> str:
    """Return its name; it is kept in the engine by what is in it."""
    name = f"stackwright/ofi-base:{hashlib.sha256(json.dumps(packages).encode()).hexdigest()[:12]}"
    if not engine.image_exists(docker, name):
        mirror = apt_mirror(runner)
        assert mirror, "the host's apt sources name no mirror"
        options = ("--quiet", "--variant=minbase", f"--include={','.join(packages)}")
        must(runner(["mmdebstrap", *options, "trixie", folder / "base.tar", mirror], timeout=600))
        must(runner(docker.command("image", "import", folder / "base.tar", name)))
    return name


def must(done: Completed) -> None:
    assert done.ok, done.stdout + done.stderr
