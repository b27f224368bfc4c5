"""Records in formats of earlier releases, made into today's. What is not valid is found by the caller."""

from __future__ import annotations

import json
from typing import Any

from stackwright.core.model.record import Phase, Status
from stackwright.core.model.row import World

SAME = ("row", "key", "started", "finished", "reason", "cause", "sif", "tools", "host")
MARK = b'"build_seconds"'
"""Until 2026-11, builds from definition files had a format of their own; all their files have this field."""


def todays(text: bytes) -> bytes:
    """Return the record in today's format; the same bytes where it is in no earlier one."""
    if MARK not in text:
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(document, dict) or not isinstance(document.get("definition"), str):
        return text
    return json.dumps(_definition_build(document)).encode()


def _definition_build(old: dict[str, Any]) -> dict[str, Any]:
    """The row's lock and what it declares were not noted: they stay empty."""
    seconds = {Phase.DEFINITION: old.get("build_seconds"), Phase.PROBE_DEFINITION: old.get("probe_seconds")}
    verdict = old.get("verdict")
    if isinstance(verdict, dict):
        verdict = {**verdict, "world": World.DEFINITION}
    return {
        **{name: old[name] for name in SAME if name in old},
        "lock": "", "definition": {"key": old["definition"], "differences": old.get("differences")},
        "status": Status.FAILED if old.get("reason") else Status.COMPLETE,
        "phase": Phase.COMPARE_DEFINITION if old.get("sif") else Phase.DEFINITION,
        "timings": [
            {"phase": phase, "seconds": spent} for phase, spent in seconds.items() if spent is not None
        ],
        "verdicts": [] if verdict is None else [verdict],
    }  # fmt: skip
