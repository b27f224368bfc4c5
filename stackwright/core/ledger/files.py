"""What the checks of files read, of a tree that was read from outside: as probes/files.py says it inside.

A unit test keeps both the same. Here nothing is unreadable, and a key is known by its content alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from stackwright.core.ledger.debian import real_path
from stackwright.core.ledger.entry import Entry, Kind, Tree

HOST_KEY = re.compile(r"ssh_host_\w+_key(\.pub)?")
CUDA_LIBRARY = re.compile(r"lib(nccl|cudart|cudnn)(-[0-9a-f]+)?\.so(\.[0-9.]+)?")
DRIVER_LIBRARY = re.compile(r"libcuda\.so(\.[0-9.]+)?")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
PLACES = {
    "pip_cache": re.compile(r"(/root|/home/[^/]+)/\.cache/(pip|uv)/.*"),
    "pip_config": re.compile(r"/etc/pip\.conf|.*/\.(config/)?pip/pip\.conf|.*/\.netrc"),
    "apt_archives": re.compile(r"/var/cache/apt/(archives/.*\.deb|.*\.bin)"),
    "apt_lists": re.compile(r"/var/lib/apt/lists/(?!lock$).*"),
    "apt_sources": re.compile(r"/etc/apt/(sources\.list(\.d/.*\.(list|sources))?|auth\.conf.*)"),
    "temporary": re.compile(r"/(tmp|var/tmp|run/secrets)/.*"),
    "apt_proxy": re.compile(r"/etc/apt/apt\.conf\.d/.*proxy.*"),
}
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
INSIDE = re.compile(r"/opt/stack/lib/python[0-9.]+/site-packages/([^/]+)(?:/([^/]+))?.*", re.DOTALL)


def document(tree: Tree, keys: Collection[str]) -> dict[str, Any]:
    """``keys`` are the paths of files with a private key in them."""
    files = [tree.entries[path] for path in sorted(tree.entries) if tree.entries[path].kind is Kind.FILE]
    names = [(path, posixpath.basename(path)) for path in sorted(tree.entries)]
    libraries = (path for path, name in names if CUDA_LIBRARY.fullmatch(name))
    return {
        "outside": True,
        "uid": 0,
        "unreadable": [],
        "private_keys": [{"path": path, "readable": True} for path in sorted(keys)],
        "host_keys": [path for path, name in names if HOST_KEY.fullmatch(name)],
        "authorities": _authorities(tree),
        "leftovers": {name: _left(files, pattern, name == "apt_sources") for name, pattern in PLACES.items()},
        "nvcc": [
            file.path for file in files
            if posixpath.basename(file.path) in ("nvcc", "nvcc.real") and file.mode & 0o111
        ],
        "cuda_libraries": sorted({found for path in libraries if (found := _end_of(tree, path))}),
        "driver_libraries": [path for path, name in names if DRIVER_LIBRARY.fullmatch(name)],
        "sizes": _sizes(files),
        "files": len(files),
    }  # fmt: skip


def _left(files: Iterable[Entry], pattern: re.Pattern[str], hashed: bool) -> list[dict[str, Any]]:
    return [
        {"path": file.path, "bytes": file.size, **({"sha256": file.sha256} if hashed else {})}
        for file in files
        if file.size and pattern.fullmatch(file.path)
    ]


def _end_of(tree: Tree, path: str, most: int = 40) -> str | None:
    """The file that a chain of links leads to; None where there is none."""
    real = real_path(tree, path)
    found = tree.entries.get(real)
    if found is None or (found.kind is Kind.LINK and not most):
        return None
    if found.kind is not Kind.LINK:
        return real
    return _end_of(tree, posixpath.normpath(posixpath.join(posixpath.dirname(real), found.target)), most - 1)


def _authorities(tree: Tree) -> dict[str, Any]:
    inside = _certificates(tree.texts.get(BUNDLE))
    packaged = (path for path in tree.texts if path.startswith("/usr/share/ca-certificates/"))
    known = {digest for path in packaged for digest in _certificates(tree.texts[path])}
    return {
        "bundle": BUNDLE if BUNDLE in tree.texts else None,
        "count": len(inside),
        "known": len(known),
        "extra": sorted(set(inside) - known),
        "local": [
            path for path in sorted(tree.entries)
            if path.startswith("/usr/local/share/ca-certificates/") and tree.entries[path].kind is Kind.FILE
        ],
        "sha256": hashlib.sha256("".join(inside).encode()).hexdigest(),
    }  # fmt: skip


def _certificates(text: str | None) -> list[str]:
    """Digests of the certificates in a PEM file, by their DER form; what is none has a digest of its text."""
    return [hashlib.sha256(_der(block)).hexdigest() for block in CERTIFICATE.findall(text or "")]


def _der(block: str) -> bytes:
    raw = block.encode(errors="surrogateescape")
    try:
        return base64.b64decode(raw)
    except binascii.Error:
        return raw


def _sizes(files: Iterable[Entry]) -> Mapping[str, int]:
    """Bytes by component: each package of the venv, each nvidia package, then /usr, /opt and others."""
    totals: dict[str, int] = {}
    for file in files:
        if not file.again:
            name = component(file.path)
            totals[name] = totals.get(name, 0) + file.size
    return totals


def component(path: str) -> str:
    if inside := INSIDE.fullmatch(path):
        top, below = inside.groups()
        return f"python/nvidia/{below}" if top == "nvidia" and below else f"python/{top}"
    if path.startswith("/opt/stack/"):
        return "python"
    parts = path.split("/")
    return "/".join(parts[:3]) if parts[1] == "usr" and len(parts) > 3 else f"/{parts[1]}"
