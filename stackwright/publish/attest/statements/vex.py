"""Whether the published vulnerabilities of Horovod are in an image, as an OpenVEX 0.2.0 document.

Pure. The status follows from the record: the patches that Horovod was built with, and the checks that attack
it inside the image. Sources: openvex/spec, OPENVEX-SPEC.md and ATTESTING.md.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

from packageurl import PackageURL

from stackwright import __version__
from stackwright.core.checks.observed import dig
from stackwright.core.components.shared.vulnerability import Status, Vulnerability
from stackwright.core.components.table import KNOWN, PATCHED
from stackwright.core.errors import AttestError
from stackwright.core.model.record import Record
from stackwright.publish.attest.statements.provenance import judged

CONTEXT = "https://openvex.dev/ns/v0.2.0"
ABSENT = "component_not_present"
ACTION = (
    "Do not use this image where others can reach its network. "
    f"Build the row again: the patches of this {PATCHED.title} fix it."
)


def vex(record: Record, *, image: str, patches: Mapping[str, bytes]) -> dict[str, Any]:
    """``image`` is the manifest's digest, ``patches`` the content of each by its name."""
    return {
        "@context": CONTEXT,
        "@id": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'vex/{image}/{record.row}/{record.started}')}",
        "author": "Stackwright, for the holder of the key that signed this",
        "role": "Document Creator",
        "timestamp": record.finished or record.started,
        "version": 1,
        "tooling": f"stackwright {__version__}",
        "statements": [_statement(vulnerability, record, image, patches) for vulnerability in KNOWN],
    }


def statuses(record: Record) -> dict[str, Status]:
    """Return the status of each known vulnerability, as the record shows it."""
    if PATCHED.name not in dict(record.declared):
        return dict.fromkeys((vulnerability.id for vulnerability in KNOWN), Status.NOT_AFFECTED)
    applied, checks = _applied(record), judged(record).checks
    return {vulnerability.id: vulnerability.status(applied, checks) for vulnerability in KNOWN}


def _statement(
    vulnerability: Vulnerability, record: Record, image: str, patches: Mapping[str, bytes]
) -> dict[str, Any]:
    status = statuses(record)[vulnerability.id]
    if status is Status.NOT_AFFECTED:
        notes, more = f"There is no {PATCHED.title} in this image.", {"justification": ABSENT}
    else:
        notes = _notes(vulnerability, record, patches)
        more = {"action_statement": ACTION} if status is Status.AFFECTED else {}
    return {
        "vulnerability": {
            "@id": vulnerability.source,
            "name": vulnerability.id,
            "description": vulnerability.description,
        },
        "products": [_product(record, image)],
        "status": str(status),
        "status_notes": notes,
        **more,
    }


def _product(record: Record, image: str) -> dict[str, Any]:
    version = dict(record.found).get(PATCHED.name)
    patched = _purl(PackageURL("pypi", None, PATCHED.package, version))
    return {
        **_purl(PackageURL("oci", None, record.row, image)),
        "hashes": {"sha-256": image.removeprefix("sha256:")},
        **({"subcomponents": [patched]} if PATCHED.name in dict(record.declared) else {}),
    }


def _purl(purl: PackageURL) -> dict[str, Any]:
    return {"@id": str(purl), "identifiers": {"purl": str(purl)}}


def _notes(vulnerability: Vulnerability, record: Record, patches: Mapping[str, bytes]) -> str:
    """Return what the status was read from. AttestError where an applied patch has no text to be named by."""
    applied = [name for name in _applied(record) if name in vulnerability.patches]
    if missing := [name for name in applied if name not in patches]:
        raise AttestError(f"no text of the patch {missing[0]}", place=record.row)
    named = [f"{name} sha256:{hashlib.sha256(patches[name]).hexdigest()}" for name in applied]
    outcomes = {check.id: check.outcome for check in judged(record).checks}
    checks = [f"{name} {outcomes.get(name, 'not run')}" for name in vulnerability.checks]
    return (
        f"Patches of {PATCHED.title} in this image: {', '.join(named) or 'none'}. "
        f"Attacks on its servers inside this image: {', '.join(checks)}."
    )


def _applied(record: Record) -> list[str]:
    """Return the patches that the wheel notes; a record that says nothing of them has none."""
    return dict(record.found).get("patches", "").split()


# -- compared with the record ----------------------------------------------------------------------


def statuses_of(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Id and status of each statement."""
    return tuple(
        (str(dig(statement, "vulnerability", "name")), str(dig(statement, "status")))
        for statement in _said(document)
    )


def disagreement(document: Mapping[str, Any], record: Record, image: str) -> str:
    """Return what the document says otherwise than image and record, in a line; "" where they agree.

    A vulnerability that only one of the two versions of Stackwright knows is not compared.
    """
    if not _said(document):
        return "it says nothing of any vulnerability"
    derived = statuses(record)
    for statement in _said(document):
        name, status, products = (
            dig(statement, "vulnerability", "name"),
            dig(statement, "status"),
            dig(statement, "products"),
        )
        digests = [dig(product, "hashes", "sha-256") for product in _list(products)]
        if digests != [image.removeprefix("sha256:")]:
            return f"its statement on {name} is about another image"
        if name in derived and status != derived[name]:
            return f"{name} is {derived[name]} by the record, and {status} in it"
    return ""


def _said(document: Mapping[str, Any]) -> list[Any]:
    return _list(document.get("statements"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
