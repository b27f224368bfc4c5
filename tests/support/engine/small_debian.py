"""A small Debian with some packages, for stand-ins that need a compiler and a loader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Mount
from stackwright.host.runner import Completed, Runner
from stackwright.host.site.settings import apt_mirror

ROOT = Path(__file__).parents[3]


def probed(lines: Sequence[str], stand_ins: Path, packages: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Run lines of bash as root in it, and return what they leave in /facts, by the files' names.

    They see the probes in /probes and ``stand_ins`` in /stand-ins, and no network.
    """
    runner = Runner()
    docker, facts = engine.find(runner), folder / "facts"
    facts.mkdir()
    job = engine.Job(
        image=_image(docker, runner, folder, packages), network=False, entrypoint=("bash", "-c"),
        argv=("\n".join(lines),),
        mounts=(
            Mount(source=ROOT / "probes", target="/probes"), Mount(source=stand_ins, target="/stand-ins"),
            Mount(source=facts, target="/facts", read_only=False),
        ),
    )  # fmt: skip
    _must(engine.run(docker, job, timeout=300))
    return {path.stem: json.loads(path.read_text()) for path in facts.iterdir()}


def _image(docker: Docker, runner: Runner, folder: Path, packages: tuple[str, ...]) -> str:
    """Return its name; it is kept in the engine by what is in it."""
    name = f"stackwright-test/debian:{hashlib.sha256(json.dumps(packages).encode()).hexdigest()[:12]}"
    if not engine.image_exists(docker, name):
        mirror = apt_mirror(runner)
        assert mirror, "the host's apt sources name no mirror"
        options = ("--quiet", "--variant=minbase", f"--include={','.join(packages)}")
        _must(runner(["mmdebstrap", *options, "trixie", folder / "base.tar", mirror], timeout=600))
        _must(runner(docker.command("image", "import", folder / "base.tar", name)))
    return name


def _must(done: Completed) -> None:
    assert done.ok, done.stdout + done.stderr
