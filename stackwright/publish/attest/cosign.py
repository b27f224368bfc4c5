"""Signs statements with cosign, offline: no transparency log, no certificate service."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from stackwright.core.errors import AttestError, SiteError
from stackwright.engines.oci_tools import Tool
from stackwright.engines.tool_image import last_line
from stackwright.publish.attest.keys import Loaded, PublicKey, keyid
from stackwright.publish.attest.statements import statement
from stackwright.publish.attest.statements.statement import Envelope, Kind
from stackwright.publish.attest.tools import ran

TIMEOUT = 120


def sign(payload: bytes, by: Loaded, cosign: Tool) -> bytes:
    """Return the envelope around a statement. cosign's own ``attest-blob`` would write a Statement v0.1."""
    with TemporaryDirectory(prefix="stackwright-sign-") as name:
        folder = Path(name)
        (folder / "pae").write_bytes(statement.to_be_signed(payload))
        done = ran(
            cosign, "sign-blob", "--yes", "--tlog-upload=false", "--key", by.path,
            "--output-signature", folder / "sig", folder / "pae",
            folders=(folder, by.path.parent), env=by.env, timeout=TIMEOUT,
        )  # fmt: skip
        if not done.ok:
            raise SiteError(f"cosign does not sign: {last_line(done)}", hint="is the key's password right?")
        signature = (folder / "sig").read_text().strip()
    return statement.enclose(payload, signature=signature, keyid=keyid(by.public))


def check(found: Envelope, kind: Kind, manifest: bytes, *, key: PublicKey, cosign: Tool, place: str) -> None:
    """Raise AttestError unless the key signed the envelope, and it is about the manifest. Asks no network.

    EngineError where cosign said neither.

    cosign is given the bytes that were read, not the file that they came from.
    """
    with TemporaryDirectory(prefix="stackwright-check-") as name:
        folder = Path(name)
        files = {"envelope": found.content, "manifest": manifest, "key.pub": key.pem}
        for leaf, content in files.items():
            (folder / leaf).write_bytes(content)
        done = ran(
            cosign, "verify-blob-attestation", "--insecure-ignore-tlog", "--offline", "--type", str(kind),
            "--key", folder / "key.pub", "--signature", folder / "envelope", folder / "manifest",
            folders=(folder,), timeout=TIMEOUT,
        )  # fmt: skip
    if done.ok:
        return
    if key.id not in found.keyids:
        other = ", ".join(found.keyids)[:16] or "none"
        raise AttestError(f"signed by another key ({other}…, not {key.id[:16]}…)", place=place)
    raise AttestError(f"changed since it was signed: {last_line(done)}", place=place)
