"""What is in a proven image, as a CycloneDX document next to its build log: the page leads to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from stackwright.core.checks.observed import Facts
from stackwright.core.errors import AttestError
from stackwright.core.model.record import Record
from stackwright.core.model.row import World
from stackwright.host.files import replace_durably
from stackwright.publish.attest.statements import sbom


def write_sbom(path: Path, current: Record, facts: Facts, files: Mapping[str, bytes]) -> str:
    """Write what the probes saw of the image that was built from ``files``; return why not, or "".

    Nothing is written where a check failed: such facts may be of any shape. What is signed when the image is
    published is made of the same facts, with the registry's digest.
    """
    path.unlink(missing_ok=True)
    verdict = current.verdict(World.DOCKER)
    if verdict is None or verdict.failed or current.image is None:
        return "the image is not proven"
    try:
        document = sbom.bom(current, facts, image=current.image.id, patches=sbom.patches_of(files))
    except AttestError as error:
        return error.cause
    replace_durably(path, (json.dumps(document, indent=1) + "\n").encode())
    return ""
