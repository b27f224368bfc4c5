"""What one run did to one row, as one JSON file: docs/record.md says what each field means.

A record grows during its run: ``begin`` makes the file, each phase that ends replaces it. Until the
run ends the file says "interrupted", so a run that was killed leaves a true record by itself, and the
next run continues from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import (
    TypeAdapter,
    ValidationError,
)

from stackwright.core.credentials import redacted_json
from stackwright.core.errors import RecordError
from stackwright.core.model.record import Host, Phase, Record, Status, Timing
from stackwright.core.model.row import Verdict
from stackwright.host.files import replace_durably
from stackwright.host.shipped import called
from stackwright.records import earlier

DEFINITION = "definition"
"""The folder of a row's builds from its definition file, below that of its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """``warnings`` names each file that could not be read, with the cause, for the caller to show."""

    records: tuple[Record, ...]
    warnings: tuple[str, ...]


_ADAPTER = TypeAdapter(Record)
MADE_AGAIN = "remove the file, or make it again by running the row"


# -- a record that grows ---------------------------------------------------------------------------


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def entered(record: Record, phase: Phase) -> Record:
    """Return the record of a run that is in ``phase`` now: if it is killed there, this stays true."""
    return replace(
        record, phase=phase, status=Status.INTERRUPTED, finished=None, reason="", cause="", tail=()
    )


def timed(record: Record, phase: Phase, seconds: float) -> Record:
    """The phase has ended. A phase that is done again replaces its old time."""
    others = (timing for timing in record.timings if timing.phase is not phase)
    timings = (*others, Timing(phase=phase, seconds=round(seconds, 3)))
    order = tuple(Phase)
    return replace(record, timings=tuple(sorted(timings, key=lambda timing: order.index(timing.phase))))


def judged(record: Record, verdict: Verdict) -> Record:
    others = (old for old in record.verdicts if old.world != verdict.world)
    return replace(record, verdicts=tuple(sorted((*others, verdict), key=lambda known: known.world)))


def closed(
    record: Record,
    status: Status,
    *,
    at: datetime,
    reason: str = "",
    cause: str = "",
    tail: tuple[str, ...] = (),
) -> Record:
    """The run has ended, in the phase that it is in. ``reason`` is one line for a person.

    ``tail`` has the last lines of the log.
    """
    ended = replace(record, status=status, finished=utc(at), reason=called(reason))
    return replace(ended, cause=cause, tail=tail)


# -- files -----------------------------------------------------------------------------------------


def path_of(record: Record, folder: Path) -> Path:
    """``folder`` is that of all records (out/records)."""
    stamp = record.started.replace("-", "").replace(":", "")
    of_row = _of_row(folder, record.row, definition=record.definition is not None)
    return of_row / f"{stamp}-{record.key[:12]}.json"


def _of_row(folder: Path, row: str, *, definition: bool) -> Path:
    return folder / row / DEFINITION if definition else folder / row


def paths(folder: Path, *, definition: bool = False) -> list[Path]:
    """Return the records of the rows' images, or of their definition files: by row and from old to new."""
    return sorted(folder.glob(f"*/{DEFINITION}/[!.]*.json" if definition else "*/[!.]*.json"))


def of_row(folder: Path, row: str, *, definition: bool = False) -> list[Path]:
    """Return the same of one row."""
    return sorted(_of_row(folder, row, definition=definition).glob("[!.]*.json"))


def begin(record: Record, folder: Path) -> Record:
    """Make the file of a new run and return the record to continue with.

    Where another run took the same name in the same second, ``started`` moves on to the next free second.
    """
    while True:
        try:
            replace_durably(path_of(record, folder), dumps(record), exclusive=True)
        except FileExistsError:
            later = datetime.fromisoformat(record.started) + timedelta(seconds=1)
            record = replace(record, started=utc(later))
        else:
            return record


def write(record: Record, folder: Path) -> Path:
    """Replace the record's file as a whole: a reader sees the old one or the new one, never a part."""
    return replace_durably(path_of(record, folder), dumps(record))


def dumps(record: Record) -> bytes:
    """The file's content, read back before it is given out: what is written can be loaded.

    Records are published: one that holds a credential (of an instruction, of a log) holds it redacted.
    """
    try:
        content = redacted_json(_ADAPTER.dump_json(record, indent=2, warnings="error") + b"\n")
        _ADAPTER.validate_json(content, strict=True)
    except ValueError as error:
        hint = "this is a defect of the stage that made the value: please report it"
        raise RecordError(
            f"the record of {record.row!r} is not valid: {first_complaint(error)}", hint=hint
        ) from error
    return content


def as_json(record: Record) -> Any:
    """Return the record in JSON types, as its file has it."""
    return json.loads(dumps(record))


def load(path: Path) -> Record:
    try:
        return loads(path.read_bytes(), str(path))
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", place=str(path), hint=MADE_AGAIN) from error


def loads(content: bytes | str, place: str) -> Record:
    try:
        text = content.encode() if isinstance(content, str) else content
        return _ADAPTER.validate_json(earlier.todays(redacted_json(text)), strict=True)
    except ValidationError as error:
        raise RecordError(f"not a record: {first_complaint(error)}", place=place, hint=MADE_AGAIN) from error


def load_all(folder: Path, *, definition: bool = False) -> Loaded:
    """Return all records of images below ``folder``, or those of definition files: by row and from old to
    new."""
    records, warnings = [], []
    for path in paths(folder, definition=definition):
        try:
            records.append(_loaded(path, definition=definition))
        except RecordError as error:
            warnings.append(str(error))
    return Loaded(records=tuple(records), warnings=tuple(warnings))


def latest(folder: Path, row: str, key: str, *, definition: bool = False) -> Record | None:
    """Return the newest record of the image with exactly this content, or of the definition file of that
    image.

    Damaged files are passed over.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        return None
    of_row = _of_row(folder, row, definition=definition)
    for path in sorted(of_row.glob(f"[!.]*-{key[:12]}.json"), reverse=True):
        with contextlib.suppress(RecordError):
            record = _loaded(path, definition=definition)
            if record.key == key and record.row == row:
                return record
    return None


def _loaded(path: Path, *, definition: bool) -> Record:
    record = load(path)
    if (record.definition is not None) is not definition:
        what = "definition file" if record.definition else "image"
        raise RecordError(f"the record of a row's {what}, in the wrong folder", place=str(path))
    return record


def newest(records: Iterable[Record]) -> tuple[Record, ...]:
    """One record per row, the one that started last."""
    rows: dict[str, Record] = {}
    for record in records:
        known = rows.get(record.row)
        rows[record.row] = record if known is None or record.started >= known.started else known
    return tuple(rows[row] for row in sorted(rows))


def schema() -> dict[str, Any]:
    """Return what docs/record.schema.json holds."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "stackwright/record/1"}
    return {**head, **_ADAPTER.json_schema(mode="serialization")}


def schema_text() -> str:
    return json.dumps(schema(), indent=2) + "\n"


def this_host() -> Host:
    release = platform.freedesktop_os_release()
    return Host(
        cpus=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        machine=platform.machine(),
        kernel=platform.release(),
        os=release.get("PRETTY_NAME", release.get("ID", "")),
    )


def first_complaint(error: ValueError) -> str:
    """Return the first complaint and its place in the record, in one line."""
    if not isinstance(error, ValidationError):
        return str(error).splitlines()[0]
    complaint = error.errors(include_url=False)[0]
    place = ".".join(map(str, complaint["loc"]))
    return f"{place}: {complaint['msg']}" if place else complaint["msg"]


if __name__ == "__main__":  # how docs/record.schema.json is made
    sys.stdout.write(schema_text())
