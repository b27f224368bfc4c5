"""skopeo, oras and cosign: the host's own, else those of a small image of Debian's packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from stackwright.core.errors import EngineError
from stackwright.engines import docker as engine
from stackwright.engines import tool_image
from stackwright.engines.docker import Docker
from stackwright.host.runner import Completed, Runner


class Name(StrEnum):
    """Programs for images of the OCI."""

    SKOPEO = "skopeo"
    ORAS = "oras"
    COSIGN = "cosign"


IMAGE = tool_image.MadeImage(
    name="stackwright/oci-tools:1",
    purpose="oci-tools",
    suite="trixie",  # the first release that has oras and cosign
    packages=(*Name, "ca-certificates"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Without ``docker`` it is the host's own, which runs in an empty folder. In its image it sees the
    network of the host and, of its files, the folders of each call, under their own names, as the user who
    calls.

    ``offline``: in its image it sees no network at all.
    """

    name: Name
    runner: Runner = field(repr=False, compare=False)
    docker: Docker | None = None
    offline: bool = False

    def __call__(
        self,
        *argv: str | Path,
        folders: tuple[Path, ...] = (),
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """One command, as it is. Secrets go through ``env`` or a file: an argv is seen by every user."""
        if self.docker is None:
            # oras takes names of files from the registry, and writes them to the folder where it runs
            with TemporaryDirectory(prefix=f"stackwright-{self.name}-") as folder:
                own = (self.name, *argv)
                return self.runner(own, env=env, stdin=stdin, timeout=timeout, cwd=Path(folder))
        container = f"stackwright-{self.name}-{uuid4().hex[:12]}"
        options = (
            "--name",
            container,
            *self.docker.label_words,
            *_options(folders, env or {}, "none" if self.offline else "host"),
            *(("-i",) if stdin is not None else ()),
        )
        words = self.docker.command("run", *options, IMAGE.name, self.name, *argv)
        ended = False
        try:
            done = self.runner(words, env=env, stdin=stdin, timeout=timeout)
            ended = done.returncode != engine.TIMED_OUT
        finally:
            if not ended:  # the container outlives a client that was killed
                self.runner(self.docker.command("rm", "--force", container), timeout=60)
        return done


def _options(folders: tuple[Path, ...], env: Mapping[str, str], network: str) -> Iterator[str]:
    yield from ("--rm", "--init", "--network", network, "--pull", "never", "--log-driver", "none")
    yield from ("--user", f"{os.getuid()}:{os.getgid()}")
    yield from ("--workdir", "/tmp", "--env", "HOME=/tmp")  # noqa: S108 (the container's own)
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        yield from ("--mount", f'type=bind,"source={folder}","target={folder}"')
    for name in env:  # the value comes from the client's environment
        yield from ("--env", name)


def find(name: Name, runner: Runner, docker: Docker | None, *, mirror: str | None = None) -> Tool:
    """Return the host's own program, else the one in its image, which is made if it is not there (a
    minute)."""
    if shutil.which(name):
        return Tool(name=name, runner=runner)
    if docker is None:
        raise EngineError(f"no {name} on the PATH, and no engine to run one in", hint=engine.BRING_UP)
    tool_image.ensure(IMAGE, runner, docker, mirror=mirror)
    return Tool(name=name, runner=runner, docker=docker)
