"""Folders that steps keep for later builds (`--mount=type=cache`), and how to be rid of one's own."""

from __future__ import annotations

import re

from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner

SECONDS = 120


def forget(docker: Docker, runner: Runner, namespace: str) -> None:
    """Free the folders of a namespace that one build had for itself (BUILDKIT_CACHE_MOUNT_NS).

    What cannot be freed is left to the engine, which frees its cache by itself when it grows.
    """
    words = ("buildx", "du", "--builder", "default", "--verbose", "--filter", "type=exec.cachemount")
    listed = runner(docker.command(*words), timeout=SECONDS)
    for identity in identities(listed.stdout, namespace):
        prune = ("buildx", "prune", "--builder", "default", "--force", "--filter", f"id={identity}")
        runner(docker.command(*prune), timeout=SECONDS)


def identities(listed: str, namespace: str) -> tuple[str, ...]:
    """Return which entries of `docker buildx du --verbose` are folders of a namespace.

    An entry begins with its ID. What it was made for follows: lines of a script, and then the folder's name.
    """
    found, current = [], ""
    for line in listed.splitlines():
        if match := re.fullmatch(r"ID:\s*([a-z0-9]+)\*?", line):
            current = match[1]
        elif current and re.search(rf'with id "/*{re.escape(namespace)}/[^"]*"$', line):
            found.append(current)
            current = ""
    return tuple(found)
