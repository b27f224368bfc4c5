"""What a Debian suite offers today: its Release date and digest, and the versions of some packages."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import urllib.request
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit

from stackwright.core.errors import LockError, SiteError
from stackwright.core.facts.distributions import Distribution
from stackwright.core.model.row import Base, Package
from stackwright.core.model.site import Mirror
from stackwright.core.model.target import AMD64, APT, Platform
from stackwright.host.files import replace_file
from stackwright.host.retry import Again, Patience, retried, transient_answer

COMPONENTS = {"debian": ("main", "contrib", "non-free"), "ubuntu": ("main", "universe")}
TIMEOUT = 60  # seconds without an answer
PATIENCE = Patience(most=3, factor=4.0)


def fetch(url: str) -> bytes:
    """Fetch with retries, and with the login that is in the address. SiteError with the last error."""
    request = _request(url)

    def ask() -> bytes:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 (checked by host.py)
            content: bytes = answer.read()
            return content

    try:
        return retried(ask, lambda error: Again() if transient_answer(error) else None, PATIENCE)
    except (OSError, HTTPException) as error:
        if proxy := dead_proxy(url, error):
            hint = "check http_proxy and no_proxy, or the keys `proxy` of site.yaml"
            raise SiteError(f"the proxy {proxy} does not answer", hint=hint) from error
        raise SiteError(
            f"the distribution's mirror did not give {url.rsplit('/dists/')[-1]}: {error}",
            hint="check the network and the host's apt sources, or set STACKWRIGHT_APT_MIRROR",
        ) from error


def dead_proxy(url: str, error: Exception) -> str:
    """Return HOST:PORT of the proxy on the way to ``url`` where it is what did not answer, else nothing."""
    parts = urlsplit(url)
    proxy = urlsplit(urllib.request.getproxies().get(parts.scheme, ""))
    if not isinstance(error, URLError) or isinstance(error, HTTPError) or not proxy.hostname:
        return ""
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return ""
    return f"{proxy.hostname}:{proxy.port}" if proxy.port else proxy.hostname


def _request(url: str) -> urllib.request.Request:
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    headers = {"Authorization": f"Basic {b64encode(unquote(login).encode()).decode()}"} if login else {}
    return urllib.request.Request(urlunsplit(parts._replace(netloc=host)), headers=headers)  # noqa: S310


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A suite's Release file: its point release, its date, its digest, and path -> sha256 of its indexes."""

    version: str
    date: str
    digest: str
    indexes: tuple[tuple[str, str], ...]


def read_release(mirror: str, suite: str) -> Release:
    content = fetch(f"{mirror.rstrip('/')}/dists/{suite}/InRelease")
    text = content.decode("utf-8", "replace")
    fields = dict(re.findall(r"^([A-Z][A-Za-z-]+): (.+)$", text, re.MULTILINE))
    listed = re.findall(r"^ ([0-9a-f]{64})\s+\d+\s+(\S+)$", text, re.MULTILINE)
    if "Date" not in fields:
        raise SiteError(f"what the mirror calls InRelease of {suite} is not one", hint="check the mirror")
    return Release(
        version=fields.get("Version", ""),
        date=parsedate_to_datetime(fields["Date"]).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ"),
        digest=hashlib.sha256(content).hexdigest(),
        indexes=tuple((path, digest) for digest, path in listed),
    )


def read_suite(
    mirror: Mirror, known: Distribution, wanted: Iterable[str], platform: Platform = AMD64
) -> Base:
    """Return the state of a release on the mirror. Raise LockError where a package is not in it.

    Each index is compared with the sha256 that the Release file names. The signature of that file is
    checked where it counts: by apt and mmdebstrap, when the base is made. Date and digest are those of the
    last of its suites, the one that moves.
    """
    releases = tuple(read_release(mirror.address, suite) for suite in known.suites)
    versions = _all_versions(mirror, known, releases, platform)
    missing = sorted(set(wanted) - versions.keys())
    if missing:
        on = f" for {platform.named}" if platform.named else ""
        raise LockError(
            f"{known.suite} has no package {', '.join(missing)}{on}",
            hint="correct the row's versions",
        )
    return Base(
        os=known.id,
        suite=known.suite,
        release=releases[-1].version,
        date=releases[-1].date,
        digest=releases[-1].digest,
        packages=tuple(Package(name=name, version=versions[name]) for name in sorted(wanted)),
    )


def _all_versions(
    mirror: Mirror, known: Distribution, releases: tuple[Release, ...], platform: Platform
) -> dict[str, str]:
    """Package to version; from ``kept`` where the Release files are those of last time."""
    digests = [release.digest for release in releases]
    path = mirror.kept / f"{known.id}{platform.suffix}.json" if mirror.kept else None
    if path and path.exists():
        kept = json.loads(path.read_text())
        if kept["releases"] == digests:
            return dict(kept["versions"])
    versions: dict[str, str] = {}
    for suite, release in zip(known.suites, releases, strict=True):
        indexes = dict(release.indexes)
        for component in COMPONENTS[known.family]:
            index = APT.index(component, platform)
            packed = fetch(f"{mirror.address.rstrip('/')}/dists/{suite}/{index}")
            if hashlib.sha256(packed).hexdigest() != indexes.get(index):
                raise SiteError(
                    f"{index} of {suite} is not the file that Release names", hint="try again later"
                )
            versions.update(_versions(lzma.decompress(packed).decode()))
    if path:
        replace_file(path, json.dumps({"releases": digests, "versions": versions}).encode())
    return versions


def _versions(index: str) -> dict[str, str]:
    return dict(re.findall(r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)$", index, re.MULTILINE))
