"""How much work a call is, whatever else the host does: how many Python functions it calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(act: Callable[[], object]) -> int:
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count
