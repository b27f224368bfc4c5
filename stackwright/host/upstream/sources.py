"""Sources of what a row compiles: which files an index has, and what each says that it needs."""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from stackwright.core.compiled.source import Source, read, with_needs
from stackwright.core.components.table import compiled
from stackwright.core.errors import LockError, SiteError
from stackwright.core.model.row import Cell
from stackwright.core.resolve.additions import no_source
from stackwright.core.resolve.lockfile import NAME, PIN
from stackwright.core.resolve.requirements import platform
from stackwright.host.runner import Runner
from stackwright.host.upstream import web

SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
ARCHIVE = ".tar.gz"


def read_sources(
    cell: Cell,
    *,
    uv: Path,
    runner: Runner,
    environment: Mapping[str, str],
    options: tuple[str | Path, ...] = ("--no-config",),
    addresses: Iterable[str] = (),
) -> tuple[Source, ...] | str:
    """Return the newest source of each distribution that the row compiles; why there is none, as text.

    ``addresses`` of indexes may have a login, which their files need as well.
    """
    asked = "".join(f"{addition.requirement}\n" for addition in compiled(cell))
    answer = runner(
        [
            uv, "pip", "compile", "-", "--quiet", "--no-deps", "--no-binary", ":all:",
            "--format", "pylock.toml", "--no-header", "--python-version", cell.python,
            "--python-platform", platform(cell.os, cell.platform),
            "--no-python-downloads", "--python", sys.executable,
            *options,
        ],
        stdin=asked,
        env=environment,
        timeout=600,
    )  # fmt: skip
    if not answer.ok and "No solution found" in answer.stderr:
        return no_source(answer.stderr, cell)
    if not answer.ok:
        first, *more = answer.stderr.strip()[-600:].splitlines() or ["it printed nothing"]
        details = tuple(line.strip() for line in more)
        raise SiteError(f"uv could not ask the package index: {first}", place=cell.id, details=details)
    logins = _logins(addresses)
    found = (_fetched(*_entry(package), logins) for package in _packages(answer.stdout))
    return tuple(with_needs(source, compiled(cell)) for source in found)


def _packages(pylock: str) -> list[dict[str, Any]]:
    try:
        return list(tomllib.loads(pylock)["packages"])
    except (ValueError, KeyError, TypeError) as error:
        raise SiteError(f"uv gave no list of sources: {error}") from error


def _entry(package: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return name, version, address and hash of a source, each in its notation."""
    name, version = str(package["name"]), str(package["version"])
    source = package.get("sdist", {})
    url, sha256 = str(source.get("url", "")), str(source.get("hashes", {}).get("sha256", ""))
    if not (NAME.fullmatch(name) and PIN.fullmatch(f"{name}=={version}") and SHA256.fullmatch(sha256)):
        raise LockError(f"the index names no source of {name[:60]} with a SHA-256")
    if not urlsplit(url).path.endswith(ARCHIVE):
        raise LockError(f"the source of {name} {version} is no {ARCHIVE}", hint="compile another release")
    return name, version, url, sha256


def _logins(addresses: Iterable[str]) -> dict[str, str]:
    """Return the logins of addresses, by host."""
    parts = (urlsplit(word).netloc.rpartition("@") for address in addresses for word in address.split())
    return {host: login for login, _, host in parts if login}


def _fetched(name: str, version: str, url: str, sha256: str, logins: Mapping[str, str]) -> Source:
    parts = urlsplit(url)
    login = logins.get(parts.netloc)
    address = urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}")) if login else url
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        path = Path(folder) / f"{name}-{version}{ARCHIVE}"
        web.download(address, sha256, path)
        return read(name, version, sha256, path.read_bytes())
