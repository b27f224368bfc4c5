"""The files that Stackwright itself puts into an image: in the context, and where they end up. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import Distribution
from stackwright.core.model.row import Stack
from stackwright.core.model.target import APT

FOLDER = "image/"
PROGRAMS = ("sshd-as-user", "with-home")
SERVE_TOOL = "/usr/local/bin/serve-tool"
NAME_SERVICE = "nss-caller.c"
SOURCES = "sources"
SERVER = "serve_tool.py"
"""Of a row with tools."""
OWN_PACKAGES, SHARED_PACKAGES = "own-packages.pth", "shared-packages.pth"


def own_files(stack: Stack, given: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return those of the context; ``given`` are the files of the project's folder of the same name."""
    known = {name: given[name] for name in (*PROGRAMS, NAME_SERVICE, *_servers(stack))}
    own = given[OWN_PACKAGES].replace(b"ROW", stack.id.encode())
    shared = given[SHARED_PACKAGES].replace(b"MINOR", minor(stack).encode())
    sources = public_sources(distributions.known(stack.os)).encode()
    files = {**known, OWN_PACKAGES: own, SHARED_PACKAGES: shared, SOURCES: sources}
    return {f"{FOLDER}{name}": content for name, content in files.items()}


def places(stack: Stack) -> dict[str, str]:
    """Return by the name in the context: the path in the image."""
    python = f"lib/python{minor(stack)}"
    found = {
        **{name: f"/usr/local/bin/{name}" for name in PROGRAMS},
        **dict.fromkeys(_servers(stack), SERVE_TOOL),
        NAME_SERVICE: f"/usr/local/src/{NAME_SERVICE}",
        SOURCES: distributions.known(stack.os).sources,
        OWN_PACKAGES: f"/opt/stack/{python}/site-packages/stackwright.pth",
        SHARED_PACKAGES: f"/usr/local/{python}/dist-packages/stackwright.pth",
    }
    return {f"{FOLDER}{name}": path for name, path in found.items()}


def _servers(stack: Stack) -> tuple[str, ...]:
    return (SERVER,) if stack.tools else ()


def digests(stack: Stack, files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each, by its path in the image; ``files`` are those of the context."""
    return {
        path: hashlib.sha256(files[name]).hexdigest() for name, path in places(stack).items() if name in files
    }


def minor(stack: Stack) -> str:
    return ".".join(stack.python.split(".")[:2])


def public_sources(release: Distribution) -> str:
    """Return the sources that an image is shipped with: the distribution's public mirror, and no site's."""
    return "\n".join(
        APT.sources(address, suites, release.components, release.key, in_lines=release.in_lines)
        for address, suites in release.public
    )
