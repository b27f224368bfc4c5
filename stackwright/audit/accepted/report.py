"""What was asked and what was found, as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """``said`` is the summary; ``wrong`` has a line for each answer that breaks the promise."""

    title: str
    said: str
    wrong: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def page(day: str, command: str, rows: int, sections: Sequence[Section]) -> str:
    """Markdown; what is wrong comes before the details."""
    parts = [
        f"# Accepted rows, tried on {day}",
        f"Made by `{command}`.",
        f"The rules accept {rows:,} combinations of the values of their tables.",
    ]
    for section in sections:
        parts += [f"## {section.title}", section.said]
        if section.wrong:
            parts.append("\n".join(f"- **wrong**: {line}" for line in section.wrong))
        if section.lines:
            parts.append("\n".join(section.lines))
    return "\n\n".join(parts) + "\n"
