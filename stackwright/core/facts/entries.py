"""Tables that ``build.py facts`` writes: a JSON file each below ``data``, with one entry per line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stackwright.core.facts.provenance import How, Provenance

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """``value`` is as in the file: a text, a number, or texts and numbers by name or in a list."""

    key: str
    value: Any
    fact: Provenance


@cache
def load(table: str) -> tuple[Entry, ...]:
    """Return the entries of a table, in the order of its file."""
    return parse((DATA / f"{table}.json").read_bytes())


def parse(text: bytes) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            key=entry["key"],
            value=entry["value"],
            fact=Provenance(how=How(entry["how"]), source=entry["source"], when=entry["when"]),
        )
        for entry in json.loads(text)
    )


def written(entries: Iterable[Entry]) -> bytes:
    """Return the bytes of a table's file: an entry per line, so that a diff shows what changed."""
    lines = (
        json.dumps(
            {
                "key": entry.key, "value": entry.value, "how": entry.fact.how, "when": entry.fact.when,
                "source": entry.fact.source,
            }
        )
        for entry in entries
    )  # fmt: skip
    return ("[\n" + ",\n".join(lines) + "\n]\n").encode()


def tables() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in DATA.glob("*.json")))
