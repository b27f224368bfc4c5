"""Signatures of a SIF by a key of the site's (PEM, as `apptainer sign --key` reads it), and registries."""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stackwright.core.errors import ConvertError, SiteError
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.sif.layout import require_whole
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import ABSENT, Completed, Runner

MAKE = "openssl genpkey -algorithm ed25519 -out KEY"
OF_COSIGN = re.compile(rb"-----BEGIN ENCRYPTED (SIGSTORE|COSIGN) PRIVATE KEY-----")
LIMIT = 2**16
"""Bytes of a key's file."""

TIMEOUT = 1800
"""Seconds for a file of several GB through a registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """``key`` is the private key's file, ``public`` the public one in PEM."""

    key: Path
    public: bytes

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.public).hexdigest()[:16]


def signer(key: Path, runner: Runner) -> Signer:
    """Raise SiteError where the file is no private key, or one that asks for a passphrase."""
    if OF_COSIGN.search(read_key(key, f"{MAKE}; put ROW before --sign")):
        cause = "a key of cosign's own, which Apptainer cannot read"
        raise SiteError(cause, place=str(key), hint=f"a plain key signs images and SIFs: {MAKE}")
    done = openssl(runner, "pkey", "-in", key.resolve(), "-passin", "pass:", "-pubout")
    if not done.ok:
        cause = f"not a private key in PEM without a passphrase: {last_line(done)}"
        raise SiteError(cause, place=str(key), hint=MAKE)
    return Signer(key=key.resolve(), public=done.stdout.encode())


def read_key(path: Path, hint: str) -> bytes:
    """Return the head of a file; SiteError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LIMIT)
    except OSError as error:
        raise SiteError(f"cannot be read: {error.strerror}", place=str(path), hint=hint) from error


def openssl(runner: Runner, *argv: str | Path) -> Completed:
    """Raise SiteError where the host has none."""
    done = runner(["openssl", *argv], env={"LC_ALL": "C"}, timeout=60)
    if done.returncode == ABSENT:
        raise SiteError("no openssl on the PATH, which reads keys", hint="install openssl")
    return done


def sign(apptainer: Apptainer, sif: Path, by: Signer) -> None:
    """Sign all objects of the file, and verify it at once."""
    folders = (sif.resolve().parent, by.key.parent)
    done = apptainer("sign", "--key", by.key, sif.resolve(), folders=folders, timeout=TIMEOUT)
    if not done.ok:
        raise ConvertError(
            f"cannot be signed: {last_line(done)}", place=str(sif), hint=f"try {by.key} by hand"
        )
    verify(apptainer, sif, by.public)


def verify(apptainer: Apptainer, sif: Path, public: bytes) -> None:
    """Raise ConvertError where an object is not signed by the key, or is not as it was signed."""
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        path = Path(folder) / "key.pub"
        path.write_bytes(public)
        words = ("verify", "--all", "--key", path, sif.resolve())
        done = apptainer(*words, folders=(Path(folder), sif.resolve().parent), timeout=TIMEOUT)
    if not done.ok:
        cause = f"is not what was signed: {last_line(done)}"
        raise ConvertError(cause, place=str(sif), hint="do not use it; get it anew, or ask who signed it")


def push(apptainer: Apptainer, sif: Path, address: str, *, public: bytes | None, plain: bool = False) -> str:
    """Push a SIF to ``oras://…``, pull it back and compare. The file's sha256.

    Without ``public`` the file is not signed, and said to be so. ``plain``: the registry speaks http.
    """
    if not address.startswith("oras://"):
        raise SiteError("not an address of a registry for SIFs", place=address, hint="oras://HOST/NAME:TAG")
    require_whole(sif)
    if public is not None:
        verify(apptainer, sif, public)
    options = (*(("--no-https",) if plain else ()), *(() if public else ("--allow-unsigned",)))
    done = apptainer(
        "push", *options, sif.resolve(), address, folders=(sif.resolve().parent,), timeout=TIMEOUT
    )
    if not done.ok:
        raise SiteError(
            f"could not be pushed: {last_line(done)}", place=address, hint="apptainer registry login"
        )
    sent = file_sha256(sif)
    with tempfile.TemporaryDirectory(prefix=".pulled-", dir=sif.resolve().parent) as folder:
        back = Path(folder) / "back.sif"
        pull(apptainer, address, back, public=public, plain=plain)
        if file_sha256(back) != sent:
            raise ConvertError("the registry gave back another file", place=address, hint="push it again")
    return sent


def pull(
    apptainer: Apptainer, address: str, target: Path, *, public: bytes | None, plain: bool = False
) -> None:
    """Pull a SIF; it gets its name once it opens and, where there is a key, is what was signed."""
    with tempfile.TemporaryDirectory(prefix=".pulled-", dir=target.resolve().parent) as folder:
        fresh = Path(folder) / "fresh.sif"
        options = ("--no-https",) if plain else ()
        done = apptainer(
            "pull", "--disable-cache", *options, fresh, address, folders=(Path(folder),), timeout=TIMEOUT
        )
        if not done.ok:
            raise SiteError(f"could not be pulled: {last_line(done)}", place=address, hint="is it there?")
        if public is not None:
            verify(apptainer, fresh, public)
        apptainer.inspect(fresh)
        fresh.replace(target)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
