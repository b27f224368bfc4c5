"""Write the morning report: files next to the night's locks, the summary of a job, JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from stackwright.core.errors import RecordError
from stackwright.core.model.night import Morning
from stackwright.host.files import replace_file
from stackwright.nightly.compare import exit_code
from stackwright.nightly.words import markdown, text

FORMS = {"text": text, "markdown": markdown}
_ADAPTER = TypeAdapter(Morning)

MOST_SUMMARY = 10**6
"""Bytes. GitHub shows nothing of one that is larger than 1 MiB: docs.github.com, "Workflow commands"."""

CUT = b"\n**More of it is in the file morning.md of the artifacts.**\n"


def document(morning: Morning) -> dict[str, Any]:
    """``nightly --format json``; docs/nightly.md says what each field means."""
    found: dict[str, Any] = _ADAPTER.dump_python(morning, mode="json")
    found["upstream"] = [
        {**asdict(change), "rows": list(rows)} for change, rows in morning.upstream
    ]  # fmt: skip
    return {**found, "exit_code": exit_code(morning)}


def write(morning: Morning, folder: Path, summary: Path | None) -> None:
    """Raise RecordError where it cannot be written: by then everything is in the history."""
    content = json.dumps(document(morning), indent=2, sort_keys=True) + "\n"
    try:
        replace_file(folder / "morning.json", content.encode())
        replace_file(folder / "morning.md", markdown(morning).encode())
        replace_file(folder / "morning.txt", text(morning).encode())
        if summary:
            with summary.open("ab") as file:
                file.write(shortened(markdown(morning).encode(), MOST_SUMMARY - file.tell()))
    except OSError as error:
        hint = "./build.py history morning prints it again"
        raise RecordError(f"cannot be written: {error}", place=str(folder), hint=hint) from error


def shortened(text: bytes, most: int) -> bytes:
    """Return as many whole lines as there is room for. What needs attention is first."""
    if len(text) <= most:
        return text
    return text[: text.rfind(b"\n", 0, max(0, most - len(CUT))) + 1] + CUT
