"""A registry: python-dxf speaks to it; here are the login, the retries, and what is already there.

Credentials come from Docker's configuration and its credential helpers alone, by Docker's own SDK. They stay
in this process: never on a command line, in no message.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import requests
from dxf import DXF, DXFBase
from dxf.exceptions import DXFMountFailed
from requests.utils import should_bypass_proxies

from stackwright.core.errors import PublishError, SiteError
from stackwright.host.retry import Again, Patience, retried
from stackwright.host.site import credentials
from stackwright.publish.registry import failures

PATIENCE = 300.0
"""Seconds that a registry may be away before it is given up."""

FEWEST_TRIES = 4
"""One try may take longer than all patience: a layer has GBs."""

LONGEST_ASKED = 600.0
"""Seconds that a registry may ask to wait: what limits the pulls of a day may ask for hours."""

TIMEOUT = 120.0
"""Seconds without a byte from the registry; it may have to read several GB again before it answers."""

API_HOSTS = {"docker.io": "registry-1.docker.io"}
"""Where the API is not at the host that images are named by."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to get to a registry. ``host`` is HOST or HOST:PORT; ``ca`` a file of certificates in PEM.

    ``plain``: it speaks http. ``proxies`` as in ``host.Site``.
    """

    host: str
    ca: Path | None = None
    plain: bool = False
    proxies: tuple[tuple[str, str], ...] = ()
    timeout: float = TIMEOUT
    patience: float = PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.content)
        return document

    @property
    def blobs(self) -> dict[str, int]:
        """Digest to size of everything that it consists of."""
        parts = (self.document["config"], *self.document["layers"])
        return {part["digest"]: part["size"] for part in parts}


@dataclass(slots=True)
class Registry:
    """Every call retries transient failures, with growing pauses, and says so."""

    access: Access
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    _login: tuple[str, str] | None = field(default=None, repr=False)
    _clients: dict[str, DXF] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._login = login_for(self.access.host)
        _require_certificates(self.access.ca)

    def has_blob(self, repository: str, digest: str) -> bool:
        return self._found(repository, lambda client: client.blob_size(digest)) is not None

    def push_blob(self, repository: str, digest: str, path: Path) -> None:
        """Send a blob, unless the registry has it already; the registry compares it with the digest.

        After a failure it is sent without asking again whether it is there: a registry that was killed while
        it wrote the blob's link answers 500 to that for ever, and writes the link anew where it is sent.
        """
        tries = itertools.count()
        sent = self._patiently(
            repository, lambda client: client.push_blob(str(path), check_exists=next(tries) == 0)
        )
        if sent != digest:
            hint = "another process writes there; publish again"
            raise PublishError(
                f"changed while it was sent: it should be {digest}", place=str(path), hint=hint
            )

    def mount_blob(self, repository: str, digest: str, origin: str) -> bool:
        """Return whether the registry took it over from another of its repositories."""
        try:
            self._patiently(repository, lambda client: client.mount_blob(origin, digest))
        except DXFMountFailed:  # it need not be able to
            return False
        return True

    def read_blob(self, repository: str, digest: str) -> bytes:
        def read(client: DXF) -> bytes:
            chunks = client.pull_blob(digest)
            assert not isinstance(chunks, tuple), "its size was not asked for"
            return b"".join(chunks)

        return self._patiently(repository, read)

    def digest_of(self, repository: str, reference: str) -> str | None:
        """Of the manifest that a tag or a digest leads to."""
        found = self._found(repository, lambda client: client.head_manifest_and_response(reference))
        if found is None or found[0]:
            return found[0] if found else None
        there = self.manifest(repository, reference)  # one that does not say it in a header
        return there.digest if there else None

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        found = self._found(repository, lambda client: client.get_manifest_and_response(reference)[1])
        if found is None:
            return None
        media_type = found.headers.get("Content-Type", "").partition(";")[0]
        manifest = Manifest(content=found.content, media_type=media_type)
        place = f"{self.access.host}/{repository}"
        if reference.startswith("sha256:") and manifest.digest != reference:
            cause = f"asked for {reference}, it gave {manifest.digest}"
            raise PublishError(cause, place=place, hint="check its storage")
        _object(manifest.content, place)
        return manifest

    def put_manifest(self, repository: str, reference: str, manifest: Manifest) -> None:
        """``reference`` is its own digest, which gives it no tag, or a tag."""
        headers = {"Content-Type": manifest.media_type}
        path = f"manifests/{reference}"
        self._patiently(repository, lambda client: _put(client, path, manifest.content, headers))

    def referrers(self, repository: str, digest: str, kind: str) -> tuple[str, ...]:
        """Digests of the manifests that refer to this one, of one artifactType.

        Asked of the API, and where a registry has none, of the tag that clients keep instead (OCI
        distribution-spec 1.1, "Referrers Tag Schema").
        """
        path = f"referrers/{digest}"
        found = self._found(repository, lambda client: _get(client, path))
        index = found if found else self.manifest(repository, digest.replace(":", "-"))
        place = f"{self.access.host}/{repository}"
        listed = _object(index.content, place).get("manifests") or [] if index else []
        return tuple(manifest["digest"] for manifest in listed if manifest.get("artifactType") == kind)

    def _found(self, repository: str, ask: Callable[[DXF], T]) -> T | None:
        def asked(client: DXF) -> T | None:
            try:
                return ask(client)
            except requests.HTTPError as error:
                if error.response is not None and error.response.status_code == 404:
                    return None
                raise

        return self._patiently(repository, asked)

    def _patiently(self, repository: str, act: Callable[[DXF], T]) -> T:
        """Retry what the registry, or the network before it, may answer otherwise in a moment."""
        host, failed_at = self.access.host, list[float]()

        def transient(error: Exception) -> Again | None:
            if not isinstance(error, (requests.RequestException, *failures.KINDS)):
                return None
            failed_at.append(time.monotonic())
            if final := failures.final(error, host, repository, login=self._login is not None):
                raise final from None
            asked, why = failures.asked_to_wait(error), failures.why(error)
            if asked > LONGEST_ASKED:
                raise self._given_up(failed_at, f"{why}; come again in {asked:.0f} s") from None
            return Again(why=f"{host}: {why}", wait=asked)

        patience = Patience(seconds=self.access.patience, fewest=FEWEST_TRIES)
        try:
            return retried(
                lambda: act(self._client(repository)), transient, patience, say=self.say, sleep=self.sleep
            )
        except (requests.RequestException, *failures.KINDS) as error:
            raise self._given_up(failed_at, failures.why(error)) from None

    def _given_up(self, failed_at: Sequence[float], cause: str) -> PublishError:
        seconds = time.monotonic() - failed_at[0]
        hint = "try again when it is back; what it has already is not sent again"
        error = PublishError(f"given up after {seconds:.0f} s: {cause}", place=self.access.host, hint=hint)
        error.away = True
        return error

    def _client(self, repository: str) -> DXF:
        if repository not in self._clients:
            access = self.access
            host = API_HOSTS.get(access.host, access.host)
            client = DXF(
                host, repository, self._authenticate, insecure=access.plain,
                tlsverify=str(access.ca) if access.ca else True, timeout=access.timeout,
            )  # fmt: skip
            client._sessions.insert(0, _session(access))
            self._clients[repository] = client
        return self._clients[repository]

    def _authenticate(self, client: DXFBase, response: requests.Response) -> None:
        """Before the first request, and again when its token has expired: also in the middle of a push."""
        body: Any = response.request.body
        if hasattr(body, "seek"):
            body.seek(0)  # python-dxf sends the same file again, of which the first request has read the end
        user, password = self._login or (None, None)
        client.authenticate(user, password, response=response)


def login_for(host: str) -> tuple[str, str] | None:
    """User and password. python-dxf has no way for identity tokens."""
    known = credentials.of(host)
    if "identitytoken" in known:
        hint = "log in with a user and a password, or a token as the password"
        place = f"Docker's configuration for {host}"
        raise PublishError("identity tokens are not supported", place=place, hint=hint)
    return (known["username"], known.get("password", "")) if "username" in known else None


def _require_certificates(ca: Path | None) -> None:
    """Check the file first: requests reports a wrong one only as an error of TLS."""
    try:
        if ca:
            ssl.create_default_context(cafile=str(ca))
    except OSError as error:
        cause = f"no certificates in PEM: {error.strerror or error}"
        raise SiteError(cause, place=str(ca), hint="correct 'ca' of the site's registry, or 'ca'") from None


def _object(content: bytes, place: str) -> dict[str, Any]:
    """Raise PublishError where an answer is no JSON object, as a proxy's page is none."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise failures.stranger(content[:1000].decode(errors="replace"), place)
    return document


def _session(access: Access) -> requests.Session:
    """trust_env would read ~/.netrc, whose password then goes before Docker's, and other CAs."""
    session = requests.Session()
    session.trust_env = False
    proxies = dict(access.proxies)
    address = f"{'http' if access.plain else 'https'}://{access.host}/"
    if not should_bypass_proxies(address, proxies.pop("no_proxy", None)):
        session.proxies = {name.removesuffix("_proxy"): url for name, url in proxies.items()}
    return session


def _put(client: DXF, path: str, content: bytes, headers: Mapping[str, str]) -> None:
    client._request("put", path, data=content, headers=headers)  # type: ignore[no-untyped-call]


def _get(client: DXF, path: str) -> requests.Response:
    response: requests.Response = client._request("get", path)  # type: ignore[no-untyped-call]
    return response
