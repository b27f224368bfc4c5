"""Where the files are that Stackwright comes with: templates, steps, patches, probes, scripts, examples.

In a checkout they are next to the package; a wheel has them in the package, below ``shipped``.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package ``stackwright``."""

IN_CHECKOUT = (PACKAGE.parent / "build.py").is_file()
ROOT = PACKAGE.parent if IN_CHECKOUT else PACKAGE / "shipped"
"""The folder that holds them."""

SCRIPTS = ROOT / "scripts"
