"""Results of SIFs of definition files: one JSON file for each build, next to the records of its row."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from stackwright.core.checks.compare import Difference
from stackwright.core.credentials import redacted_json
from stackwright.core.errors import RecordError
from stackwright.core.model.record import Fields, Host, RowId, Seconds, Sha256, SifFile, Utc
from stackwright.core.model.row import Verdict
from stackwright.host.files import replace_durably
from stackwright.records.files import first_complaint

FOLDER = "definition"
"""Below a row's folder of records, which are not looked for there."""

SHOWN = 200
"""Letters of a value that differs: the symbols of a library are thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """``key`` is that of the row's image, ``definition`` that of the definition file with all that it takes.

    ``reason`` is why there is no good file, in one line; "" where there is. ``differences`` are from the
    facts of the image with that key; None where those were not there.
    """

    version: Literal[1] = 1
    row: RowId
    key: Sha256
    definition: Sha256
    started: Utc
    finished: Utc
    reason: str = ""
    cause: str = ""
    build_seconds: Seconds | None = None
    probe_seconds: Seconds | None = None
    sif: SifFile | None = None
    verdict: Verdict | None = None
    differences: tuple[Difference, ...] | None = None
    tools: Fields = ()
    host: Host

    @property
    def compared(self) -> str:
        """Return the result of the comparison with the Docker image, as text."""
        if self.differences is None:
            return "not compared: the image's facts are not there"
        if not self.differences:
            return "no difference from the image"
        bad = sum(not one.why for one in self.differences)
        told = f"differences from the image: {len(self.differences)}"
        return f"{told}, unexplained: {bad}" if bad else f"{told}, all explained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """``warnings`` names each file that could not be read, with the cause."""

    natives: tuple[Native, ...]
    warnings: tuple[str, ...]


_ADAPTER = TypeAdapter(Native)


def shortened(found: Difference) -> Difference:
    """The same with values that a person can read."""
    return replace(found, one=_shown(found.one), other=_shown(found.other))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def as_json(one: Native) -> Any:
    return json.loads(_dumps(one))


def write(one: Native, records: Path) -> Path:
    """``records`` is the folder of all records (out/records)."""
    stamp = one.started.replace("-", "").replace(":", "")
    return replace_durably(records / one.row / FOLDER / f"{stamp}-{one.key[:12]}.json", _dumps(one))


def load(path: Path) -> Native:
    try:
        return _ADAPTER.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError) as error:
        said = first_complaint(error) if isinstance(error, ValidationError) else error.strerror
        cause = f"not the result of a definition file: {said}"
        raise RecordError(cause, place=str(path), hint="remove the file, or build the row anew") from error


def newest(records: Path) -> Loaded:
    """Of each row the build that started last."""
    natives: dict[str, Native] = {}
    warnings = []
    for path in sorted(records.glob(f"*/{FOLDER}/[!.]*.json")):
        try:
            one = load(path)
        except RecordError as error:
            warnings.append(str(error))
        else:
            natives[one.row] = one
    return Loaded(natives=tuple(natives.values()), warnings=tuple(warnings))


def _dumps(one: Native) -> bytes:
    try:
        content = redacted_json(_ADAPTER.dump_json(one, indent=2, warnings="error") + b"\n")
        _ADAPTER.validate_json(content, strict=True)
    except ValueError as error:
        cause = f"the result of {one.row!r} is not valid: {first_complaint(error)}"
        raise RecordError(cause, hint="this is a defect: please report it") from error
    return content
