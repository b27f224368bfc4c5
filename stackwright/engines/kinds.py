"""The engines that have Docker's interface, Docker's own and Podman: told apart, and checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stackwright.core.errors import EngineError
from stackwright.engines.buildah.words import of_buildkit
from stackwright.host.runner import Runner
from stackwright.host.site.settings import DOCKER_FOLDERS

OLDEST = 23
"""Docker's first release whose BuildKit is the default builder and has ``COPY --link``."""

OLDEST_PODMAN = 5
"""Podman's first release that was tried: that of Debian 13."""

BUILDERS = ("buildah", "podman")
"""Programs that build into the storage of the user who calls them; the second has the first in it."""

ROOTLESS = "scripts/engine.sh --rootless"


def is_podman(info: Mapping[str, Any]) -> bool:
    """Return whether Podman answers. ``info`` is its answer to `docker info`."""
    return bool(info.get("BuildahVersion"))


def is_rootless(info: Mapping[str, Any]) -> bool:
    """Return whether an engine of either kind runs as an ordinary user."""
    options = (str(option) for option in info.get("SecurityOptions") or ())
    return bool(info.get("Rootless")) or any(option.startswith("name=rootless") for option in options)


def checked_version(info: Mapping[str, Any], host: str) -> str:
    """Return the engine's version. EngineError where it is too old for us."""
    version = str(info.get("ServerVersion", ""))
    major = version.partition(".")[0]
    name, oldest = ("Podman", OLDEST_PODMAN) if is_podman(info) else ("the engine", OLDEST)
    if not major.isdigit() or int(major) < oldest:
        cause = f"{name} is {version or 'of an unknown version'}, and {oldest} is needed"
        raise EngineError(cause, place=host, hint="upgrade it, or stop it and run scripts/engine.sh")
    return version


def client(runner: Runner, environ: Mapping[str, str]) -> str:
    """Return the first docker that is Docker's: Podman's program of that name takes other words."""
    folders = (*environ.get("PATH", os.defpath).split(os.pathsep), *DOCKER_FOLDERS)
    for program in dict.fromkeys(filter(None, (shutil.which("docker", path=folder) for folder in folders))):
        if runner([program, "--version"], timeout=20).stdout.startswith("Docker version"):
            return program
    raise EngineError("Podman answers, but there is no docker client to ask it with", hint=ROOTLESS)


def builder(environ: Mapping[str, str]) -> str:
    """Return the program that builds for Podman. EngineError where none is on the PATH."""
    path = environ.get("PATH", os.defpath)
    found = next((program for name in BUILDERS if (program := shutil.which(name, path=path))), None)
    if found is None:
        cause = "Podman answers, but neither buildah nor podman is on the PATH to build with"
        raise EngineError(cause, hint=ROOTLESS)
    return found


def build(program: str, *words: str | Path) -> tuple[str, ...]:
    """Return the argv of a build by Podman's builder. ``words`` are BuildKit's."""
    return (program, "build", *of_buildkit(words))
