"""A digest of everything that judges an image."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

JUDGES = (
    "probes/*.py", "stackwright/core/checks/**/*.py", "stackwright/core/components/**/*.py",
    "stackwright/core/compiled/checks.py", "stackwright/core/ledger/*.py", "stackwright/core/ofi/*.py",
    "stackwright/core/benchmarks/*.py",
    "stackwright/probe/outside/*.py", "stackwright/probe/agreement.py",
    "stackwright/core/render/configuration.py", "stackwright/core/credentials.py",
    "stackwright/core/shapes.py", "tests/images/*.py",
)  # fmt: skip
"""Files that a verdict follows from."""


@functools.cache
def checks_digest(root: Path) -> str:
    """Return what judges an image: a verdict of other probes or other checks is not a verdict of these."""
    digest = hashlib.sha256()
    for pattern in JUDGES:
        for path in sorted(root.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
