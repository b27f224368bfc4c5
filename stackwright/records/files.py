"""What one run did to one row, as one JSON file: docs/record.md says what each field means.

A record grows while its run goes on: ``begin`` makes the file, each phase that ends replaces it. Until the
run ends the file says "interrupted", so a run that was killed leaves a true record without anyone's help, and
the next run goes on from it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from stackwright.core.credentials import redacted_json
from stackwright.core.errors import RecordError
from stackwright.core.model.row import Verdict
from stackwright.host.atomic import publish


class Phase(StrEnum):
    """What a run does to a row, in this order."""

    BASE = "base"
    BUILD = "build"
    PROBE_DOCKER = "probe docker"
    SIF = "sif"
    PROBE_SIF = "probe sif"


class Status(StrEnum):
    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


def _pairs(value: object) -> object:
    return tuple(value.items()) if isinstance(value, Mapping) else value


def _within_project(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("a path in a record is relative to the project and stays inside it")
    return value


Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Utc = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
"""Whole seconds: what jq's ``fromdate`` reads, and what sorts as text."""
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
RowId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+=@,~-]*$", max_length=200)]
"""It is a folder's name too."""
ProjectPath = Annotated[str, AfterValidator(_within_project)]
Fields = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(_pairs),
    PlainSerializer(dict),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]
"""Name and value. Pairs here, so that a record is frozen all the way down; an object in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """``id`` is the engine's ("sha256:…"), ``digest`` the registry's: empty until it is published."""

    reference: str
    id: str
    bytes: Count
    base: str
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """``what`` is the stage or purpose in a word; ``created_by`` the instruction, shortened."""

    created_by: str
    what: str
    bytes: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part of the image's files that a person knows by name: "torch", "nvidia/cudnn", "os"."""

    name: str
    bytes: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class SifFile:
    """``compression`` is as ``--sif-compression`` names it; empty in records older than that."""

    path: ProjectPath
    bytes: Count
    sha256: Sha256
    compression: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``digest`` and ``started`` tell executions apart, ``identity`` steps; "" and None where not known."""

    name: str
    seconds: Seconds
    cached: bool = False
    outcome: Literal["done", "failed", "canceled"] = "done"
    phase: Phase = Phase.BUILD
    digest: str = ""
    identity: str = ""
    started: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A phase that has ended; one that has not ended is not in the record."""

    phase: Phase
    seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The class of machine, never which one: no name, no address. ``memory`` is in bytes."""

    cpus: Count
    memory: Count
    machine: str
    kernel: str
    os: str
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """``declared`` and ``found`` use the same names (see ``flatten``), so that they can be compared."""

    version: Literal[1] = 1
    row: RowId
    key: Sha256
    lock: Sha256
    started: Utc
    finished: Utc | None = None
    status: Status = Status.INTERRUPTED
    phase: Phase = Phase.BASE
    reason: str = ""
    declared: Fields = ()
    found: Fields = ()
    image: Image | None = None
    layers: tuple[Layer, ...] = ()
    components: tuple[Component, ...] = ()
    sif: SifFile | None = None
    timings: tuple[Timing, ...] = ()
    steps: tuple[Step, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    tools: Fields = ()
    host: Host

    def verdict(self, world: str) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if verdict.world == world), None)

    def seconds(self, phase: Phase) -> float | None:
        """How long the phase took, or None if it has not ended: then it is still to be done."""
        return next((timing.seconds for timing in self.timings if timing.phase is phase), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """``warnings`` names each file that could not be read, with the cause, for the caller to show."""

    records: tuple[Record, ...]
    warnings: tuple[str, ...]


_ADAPTER = TypeAdapter(Record)
MADE_AGAIN = "remove the file, or make it again by running the row"


# -- a record that grows ---------------------------------------------------------------------------


def flatten(row: Mapping[str, object], prefix: str = "") -> tuple[tuple[str, str], ...]:
    """A row as pairs of text: ``{"mpi": {"version": "5"}}`` is ("mpi.version", "5"); None is left out.

    ``frameworks`` is not part of a name: a framework is called as in the matrix, "torch".
    """
    pairs: list[tuple[str, str]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            pairs += flatten(value, prefix if name == "frameworks" else f"{prefix}{name}.")
        elif isinstance(value, bool):
            pairs.append((prefix + name, str(value).lower()))
        elif isinstance(value, (tuple, list)):
            pairs.append((prefix + name, " ".join(map(str, value))))
        elif value is not None:
            pairs.append((prefix + name, str(value)))
    return tuple(pairs)


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def entered(record: Record, phase: Phase) -> Record:
    """The record of a run that is in ``phase`` now: if it is killed there, this stays true."""
    return replace(record, phase=phase, status=Status.INTERRUPTED, finished=None, reason="")


def timed(record: Record, phase: Phase, seconds: float) -> Record:
    """The phase has ended. A phase that is done again replaces its old time."""
    others = (timing for timing in record.timings if timing.phase is not phase)
    timings = (*others, Timing(phase=phase, seconds=round(seconds, 3)))
    order = tuple(Phase)
    return replace(record, timings=tuple(sorted(timings, key=lambda timing: order.index(timing.phase))))


def judged(record: Record, verdict: Verdict) -> Record:
    others = (old for old in record.verdicts if old.world != verdict.world)
    return replace(record, verdicts=tuple(sorted((*others, verdict), key=lambda one: one.world)))


def closed(record: Record, status: Status, *, at: datetime, reason: str = "") -> Record:
    """The run has ended, in the phase that it is in. ``reason`` is one line for a person."""
    return replace(record, status=status, finished=utc(at), reason=reason)


# -- files -----------------------------------------------------------------------------------------


def path_of(record: Record, folder: Path) -> Path:
    """``folder`` is that of all records (out/records)."""
    stamp = record.started.replace("-", "").replace(":", "")
    return folder / record.row / f"{stamp}-{record.key[:12]}.json"


def begin(record: Record, folder: Path) -> Record:
    """Make the file of a new run and return the record to go on with.

    Where another run took the same name in the same second, ``started`` moves on to the next free second.
    """
    while True:
        try:
            publish(dumps(record), path_of(record, folder), exclusive=True)
        except FileExistsError:
            later = datetime.fromisoformat(record.started) + timedelta(seconds=1)
            record = replace(record, started=utc(later))
        else:
            return record


def write(record: Record, folder: Path) -> Path:
    """Replace the record's file as a whole: a reader sees the old one or the new one, never a part."""
    return publish(dumps(record), path_of(record, folder))


def dumps(record: Record) -> bytes:
    """The file's content, read back before it is given out: what is written can be loaded.

    Records are published: one that holds a credential (of an instruction, of a log) holds it redacted.
    """
    try:
        content = redacted_json(_ADAPTER.dump_json(record, indent=2, warnings="error") + b"\n")
        _ADAPTER.validate_json(content, strict=True)
    except ValueError as error:
        hint = "this is a defect of the stage that made the value: please report it"
        raise RecordError(f"the record of {record.row!r} is not valid: {_first(error)}", hint=hint) from error
    return content


def as_json(record: Record) -> Any:
    """The record in JSON types, as its file has it."""
    return json.loads(dumps(record))


def load(path: Path) -> Record:
    try:
        return loads(path.read_bytes(), str(path))
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", place=str(path), hint=MADE_AGAIN) from error


def loads(content: bytes | str, place: str) -> Record:
    try:
        text = content.encode() if isinstance(content, str) else content
        return _ADAPTER.validate_json(redacted_json(text), strict=True)
    except ValidationError as error:
        raise RecordError(f"not a record: {_first(error)}", place=place, hint=MADE_AGAIN) from error


def load_all(folder: Path) -> Loaded:
    """All records below ``folder``, by row and from old to new."""
    records, warnings = [], []
    for path in sorted(folder.glob("*/[!.]*.json")):
        try:
            records.append(load(path))
        except RecordError as error:
            warnings.append(str(error))
    return Loaded(records=tuple(records), warnings=tuple(warnings))


def latest(folder: Path, row: str, key: str) -> Record | None:
    """The newest record of exactly this content; damaged files are passed over."""
    return next(_newest_first(folder, row, key), None)


def newest(records: Iterable[Record]) -> tuple[Record, ...]:
    """One record per row, the one that started last."""
    rows: dict[str, Record] = {}
    for record in records:
        known = rows.get(record.row)
        rows[record.row] = record if known is None or record.started >= known.started else known
    return tuple(rows[row] for row in sorted(rows))


def schema() -> dict[str, Any]:
    """What docs/record.schema.json holds."""
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


def _newest_first(folder: Path, row: str, key: str) -> Iterator[Record]:
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        return
    for path in sorted((folder / row).glob(f"[!.]*-{key[:12]}.json"), reverse=True):
        try:
            record = load(path)
        except RecordError:
            continue
        if record.key == key and record.row == row:
            yield record


def _first(error: ValueError) -> str:
    """The first complaint and its place in the record, in one line."""
    if not isinstance(error, ValidationError):
        return str(error).splitlines()[0]
    complaint = error.errors(include_url=False)[0]
    place = ".".join(map(str, complaint["loc"]))
    return f"{place}: {complaint['msg']}" if place else complaint["msg"]


if __name__ == "__main__":  # how docs/record.schema.json is made
    sys.stdout.write(schema_text())
