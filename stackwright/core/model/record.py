"""What one run did to one row. docs/record.md says what each field means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

from stackwright.core.checks.compare import Difference
from stackwright.core.model.row import Verdict


class Phase(StrEnum):
    """What a run does, in this order: to a row's image, or to its definition file."""

    BASE = "base"
    BUILD = "build"
    PROBE_DOCKER = "probe docker"
    SIF = "sif"
    PROBE_SIF = "probe sif"
    DEFINITION = "def"
    PROBE_DEFINITION = "probe def"
    COMPARE_DEFINITION = "compare def"


IMAGE_PHASES = (Phase.BASE, Phase.BUILD, Phase.PROBE_DOCKER, Phase.SIF, Phase.PROBE_SIF)
DEFINITION_PHASES = (Phase.DEFINITION, Phase.PROBE_DEFINITION, Phase.COMPARE_DEFINITION)


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
    """``what`` is the stage or purpose in a word; ``created_by`` the instruction, shortened.

    ``digest`` is that of the unpacked layer, "" where the engine does not say it and in older records.
    """

    created_by: str
    what: str
    bytes: Count
    digest: str = ""


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
class Definition:
    """What a SIF was built from, other than an image. ``key`` is that of the definition file and its folder.

    ``differences`` are from the facts of the image with the record's key; None where there were none.
    """

    key: Sha256
    differences: tuple[Difference, ...] | None = None

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        return tuple(found for found in self.differences or () if not found.why)


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
    """A phase that has ended; one that still runs is not in the record.

    ``run`` is when the earlier run began that did it, where this one took over what it made; else None.
    """

    phase: Phase
    seconds: Seconds
    run: Utc | None = None


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
    """``declared`` and ``found`` use the same names (see ``flatten``), so that they can be compared.

    ``definition`` is None where the run worked on the row's image. ``lock`` is "" in records of a definition
    file that an earlier release wrote.
    """

    version: Literal[1] = 1
    row: RowId
    key: Sha256
    definition: Definition | None = None
    lock: Sha256 | Literal[""]
    started: Utc
    finished: Utc | None = None
    status: Status = Status.INTERRUPTED
    phase: Phase = Phase.BASE
    reason: str = ""
    cause: str = ""
    tail: tuple[str, ...] = ()
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
        """Return how long the phase took, or None if it did not end: then it is still to be done."""
        return next((timing.seconds for timing in self.timings if timing.phase is phase), None)

    @property
    def own_seconds(self) -> float | None:
        """How long this run itself took; None where no phase of it has ended."""
        own = [timing.seconds for timing in self.timings if timing.run is None]
        return sum(own) if own else None

    def run_of(self, phase: Phase) -> str:
        """Return when the run began that did the phase: an earlier one where what it made was taken over."""
        runs = (timing.run for timing in self.timings if timing.phase is phase and timing.run)
        return next(runs, self.started)


def flatten(row: Mapping[str, object], prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Return a row as pairs of text: ``{"mpi": {"version": "5"}}`` is ("mpi.version", "5"); None is left out.

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
