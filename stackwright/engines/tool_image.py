"""Images of programs that the host lacks, made of Debian's own packages: no registry is asked."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from stackwright.core.errors import EngineError
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Completed, Runner

TOOL_LABEL = "org.stackwright.tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeImage:
    """``purpose`` is its label's value."""

    name: str
    purpose: str
    suite: str
    packages: tuple[str, ...]


def ensure(wanted: MadeImage, runner: Runner, docker: Docker, *, mirror: str | None = None) -> None:
    """Make the image if it is not there (a minute).

    An index is dated to expire after a week, and a mirror may be older; its signature is checked.
    """
    if engine.image_exists(docker, wanted.name):
        return
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        archive = Path(folder) / "image.tar"
        argv: list[str | Path] = ["mmdebstrap", "--quiet", "--variant=minbase"]
        argv += [f"--include={','.join(wanted.packages)}", '--aptopt=Acquire::Check-Valid-Until "false"']
        argv += [wanted.suite, archive]
        if mirror:
            argv.append(f"deb {mirror} {wanted.suite} main")
        _must(runner(argv, timeout=1800), "mmdebstrap", wanted.name)
        changes = ("--change", f"LABEL {TOOL_LABEL}={wanted.purpose}")
        _must(
            runner(docker.command("import", *changes, archive, wanted.name), timeout=600),
            "docker import",
            wanted.name,
        )


def _must(done: Completed, what: str, image: str) -> None:
    if not done.ok:
        raise EngineError(f"{what}: {last_line(done)}", place=image, hint="build.py doctor")


def last_line(done: Completed) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
