"""Keys that sign and that verify. A public key never expires; a certificate does, and that is checked.

What a site hands to those who verify is one file: the public key, or a certificate over it (its own, or of
its CA). The file is what is trusted, so a certificate's issuer is not asked about: its dates are.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from stackwright.core.errors import AttestError, SiteError
from stackwright.engines.oci_tools import Tool
from stackwright.engines.sif.sign import MAKE, OF_COSIGN, openssl, read_key
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Runner
from stackwright.host.site.settings import SIGNING_PASSWORD
from stackwright.publish.attest.tools import ran

_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----(.+?)-----END PUBLIC KEY-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """``pem`` is the bare key. ``since`` and ``until`` are None where nothing bounds it."""

    pem: bytes
    place: str
    since: datetime | None = None
    until: datetime | None = None

    @property
    def id(self) -> str:
        return keyid(self.pem)

    def require_valid(self, at: datetime) -> None:
        """Raise AttestError where the certificate has expired, or is not valid yet.

        It holds for signatures of any age: without an independent log, its time cannot be known.
        """
        if self.since and at < self.since:
            raise AttestError(
                f"the key is valid from {self.since:%Y-%m-%d %H:%M} UTC on, and it is {at:%Y-%m-%d %H:%M}",
                place=self.place, hint="check this machine's clock",
            )  # fmt: skip
        if self.until and at > self.until:
            raise AttestError(
                f"the key has expired: it was valid until {self.until:%Y-%m-%d %H:%M} UTC", place=self.place,
                hint="ask the site for its present certificate",
            )  # fmt: skip


def keyid(pem: bytes) -> str:
    """sha256 of the key in DER: a hint that finds the key, and proves nothing."""
    match = _PEM.search(pem)
    return hashlib.sha256(base64.b64decode(match[1]) if match else pem).hexdigest()


def public_key(path: Path, runner: Runner) -> PublicKey:
    """Raise SiteError where the file is neither a public key nor a certificate, in PEM."""
    hint = "hand the public key over (openssl pkey -in KEY -pubout), or a certificate over it"
    content = read_key(path, hint)
    if b"-----BEGIN CERTIFICATE-----" in content:
        return _certified(path, runner)
    if b"PRIVATE KEY-----" in content:
        raise SiteError("a private key: who verifies must not have it", place=str(path), hint=hint)
    done = openssl(runner, "pkey", "-pubin", "-in", path, "-pubout")
    if not done.ok:
        raise SiteError(f"no public key in PEM: {last_line(done)}", place=str(path), hint=hint)
    return PublicKey(pem=done.stdout.encode(), place=str(path))


def _certified(path: Path, runner: Runner) -> PublicKey:
    asked = ("-noout", "-pubkey", "-startdate", "-enddate")
    done = openssl(runner, "x509", "-in", path, *asked)
    dates = dict(re.findall(r"^(notBefore|notAfter)=(.+)$", done.stdout, re.MULTILINE))
    if not done.ok or len(dates) != 2:
        raise SiteError(
            f"no certificate in PEM: {last_line(done)}", place=str(path), hint="openssl x509 -text"
        )
    key = _PEM.search(done.stdout.encode())
    assert key is not None, "openssl prints the key that it was asked for"
    since, until = (_moment(dates[name]) for name in ("notBefore", "notAfter"))
    return PublicKey(pem=key[0] + b"\n", place=str(path), since=since, until=until)


def _moment(text: str) -> datetime:
    """As openssl writes it: "Nov 20 16:00:00 2026 GMT"."""
    return datetime.strptime(text.strip(), "%b %d %H:%M:%S %Y %Z").replace(tzinfo=UTC)


# -- the private key -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A key as cosign reads it, in a private folder; ``env`` has its password."""

    path: Path
    public: bytes
    env: dict[str, str]


@contextmanager
def loaded(key: Path, cosign: Tool, password: str = "") -> Iterator[Loaded]:
    """The site's private key: ed25519 in PEM, as ``--sign`` takes it for SIFs, or a key of cosign's own.

    ``password`` is of the latter. SiteError where it is none of the two.
    """
    with TemporaryDirectory(prefix="stackwright-key-") as name:
        folder = Path(name)
        content = read_key(key, MAKE)
        (folder / "in").write_bytes(content)
        own = OF_COSIGN.search(content) is not None
        env = {SIGNING_PASSWORD: password if own else secrets.token_hex(16)}
        ready = folder / ("in" if own else "site.key")
        if not own:
            words = ("--yes", "--key", folder / "in", "--output-key-prefix", folder / "site")
            _must(cosign, "import-key-pair", *words, folder=folder, env=env, place=key)
        shown = _must(cosign, "public-key", "--key", ready, folder=folder, env=env, place=key)
        yield Loaded(path=ready, public=shown.encode(), env=env)


def _must(cosign: Tool, *words: str | Path, folder: Path, env: dict[str, str], place: Path) -> str:
    done = ran(cosign, *words, folders=(folder,), env=env, timeout=120)
    if not done.ok:
        cause = f"not a key that cosign can sign with: {last_line(done)}"
        raise SiteError(cause, place=str(place), hint=f"{MAKE}; of a key of cosign's own: {SIGNING_PASSWORD}")
    return done.stdout
