"""Versions as text: compare, normalise, convert."""

from __future__ import annotations

import re

from stackwright.core.errors import LockError


def upstream(version: str) -> str:
    """Return the project's own version: 1:13.3.0-16+b1 is 13.3.0, and 12.4.131~12.4.1-2 is 12.4.131.

    4.3.0+really4.2.1-1 is 4.2.1: that is how Debian goes back to an older release.
    """
    head = version.split(":", 1)[-1].rsplit("-", 1)[0].rsplit("+really", 1)[-1].lstrip(".")
    match = re.match(r"\d+(\.\d+)*", head)
    if match is None:
        raise LockError(f"no version number in {version!r}")
    return match[0]


def covers(declared: str | None, found: str) -> bool:
    """Return whether a declared version, which may leave parts out, names the found one: 5.0 covers 5.0.7."""
    return declared is None or found == declared or found.startswith(declared + ".")
