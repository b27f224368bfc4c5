"""Where the files are that Stackwright comes with: templates, steps, patches, probes, scripts, examples.

In a checkout they are next to the package; a wheel has them in the package, below ``shipped``.
"""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package ``stackwright``."""

IN_CHECKOUT = (PACKAGE.parent / "build.py").is_file()
ROOT = PACKAGE.parent if IN_CHECKOUT else PACKAGE / "shipped"
"""The folder that holds them."""

SCRIPTS = ROOT / "scripts"

PROGRAM = "./build.py" if IN_CHECKOUT else "stackwright"
"""What a person types to start this program."""

NAMED = re.compile(r"(?<![\w/.-])(?:\./)?build\.py(?= (?:--matrix|--help|[a-z]))")
"""A command in a sentence; not the file, and not a path of another program."""


def called(text: str, program: str = PROGRAM, options: str = "") -> str:
    """Return a text in which each command begins with the words that work here."""
    return NAMED.sub(lambda found: f"{program}{options}", text)
