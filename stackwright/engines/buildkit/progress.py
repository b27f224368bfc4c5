"""What BuildKit says while it builds (``--progress=rawjson``), gathered into steps and log lines. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from stackwright.core.steps.names import plain


@dataclass(slots=True, kw_only=True)
class Step:
    """One vertex of the solve. Times are BuildKit's own; a vertex may be started more than once.

    ``digest`` and ``inputs`` are BuildKit's; ``identity`` is the same in every solve, see vertices.py.
    """

    name: str
    digest: str = ""
    inputs: tuple[str, ...] = ()
    identity: str = ""
    started: datetime | None = None
    completed: datetime | None = None
    cached: bool = False
    error: str = ""
    tail: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        if self.started is None or self.completed is None:
            return 0.0
        return max(0.0, (self.completed - self.started).total_seconds())


class EventKind(StrEnum):
    STARTED = "started"
    LOG = "log"
    DONE = "done"
    CACHED = "cached"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a person should see: a step began, ended, failed, or printed a line.

    ``digest`` and ``started`` are the same in all solves that wait for one execution, but for microseconds.
    """

    kind: EventKind
    step: str
    text: str = ""
    seconds: float = 0.0
    digest: str = ""
    started: datetime | None = None


PREPARATION = re.compile(r"(export|rm|ca=|extra=|sed|\[) ?")
"""Commands of our stages that only make way for the one that a person waits for."""

SLACK = timedelta(milliseconds=100)
"""Two solves tell one execution with clocks that are some microseconds apart."""

TAIL = 40
"""Last lines of a step that are kept for the message of a failure."""


@dataclass(slots=True)
class Progress:
    """Feed it lines; it answers with events and keeps all steps, in the order in which they appeared."""

    steps: dict[str, Step] = field(default_factory=dict)
    trailer: list[str] = field(default_factory=list)

    def feed(self, line: str) -> Iterator[Event]:
        """Lines that are not JSON are buildx's own last words and kept in ``trailer``."""
        try:
            status: dict[str, Any] = json.loads(line)
        except ValueError:
            self.trailer.append(line.rstrip("\n"))
            return
        if not isinstance(status, dict):
            return
        for vertex in status.get("vertexes") or ():
            yield from self._vertex(vertex)
        for log in status.get("logs") or ():
            yield from self._log(log)

    @property
    def failed(self) -> Step | None:
        """The step that went wrong; those that BuildKit canceled because of it are not meant."""
        broken = [step for step in self.steps.values() if step.error]
        return next((step for step in broken if "context canceled" not in step.error), None)

    def _vertex(self, vertex: dict[str, Any]) -> Iterator[Event]:
        fresh = Step(name=vertex["name"], digest=vertex["digest"], inputs=tuple(vertex.get("inputs") or ()))
        step = self.steps.setdefault(fresh.digest, fresh)
        was_started, was_completed = step.started, step.completed
        step.started = step.started or _time(vertex.get("started"))
        step.completed = _time(vertex.get("completed")) or step.completed
        step.cached = step.cached or bool(vertex.get("cached"))
        step.error = vertex.get("error", "") or step.error
        if was_started is None and step.started and not step.completed:
            yield Event(kind=EventKind.STARTED, step=step.name, digest=step.digest, started=step.started)
        if step.completed and (was_completed is None or step.error):
            ended = EventKind.CACHED if step.cached else EventKind.DONE
            yield Event(
                kind=EventKind.FAILED if step.error else ended, step=step.name, text=step.error,
                seconds=step.seconds, digest=step.digest, started=step.started,
            )  # fmt: skip

    def _log(self, log: dict[str, Any]) -> Iterator[Event]:
        step = self.steps.get(log["vertex"])
        if step is None:
            return
        text = base64.b64decode(log.get("data", "")).decode("utf-8", "replace")
        for line in text.splitlines():
            step.tail.append(line)
            yield Event(kind=EventKind.LOG, step=step.name, text=line)
        del step.tail[:-TAIL]


def is_noise(name: str) -> bool:
    """Steps of BuildKit's own that say nothing about the image."""
    return name.startswith("[internal]")


def short(name: str) -> str:
    """Return a step's name for one line: `[final 2/5] RUN apt-get …`, from the first command that does the
    work."""
    plain = re.sub(r" +", " ", re.sub(r"--mount=\S+\s*|\s+", " ", name))
    head, run, commands = plain.partition(" RUN ")
    if run:
        working = [part for part in commands.split("; ") if not PREPARATION.match(part)]
        plain = f"{head}{run}{'; '.join(working) or commands}"
    return plain[:96].strip()


def shown(name: str) -> str:
    """Return what a person reads of a step: its plain name, or its text where it has none."""
    return plain(name) or short(name)


def _time(text: str | None) -> datetime | None:
    """RFC 3339 with nanoseconds, which datetime does not read before Python 3.12 beyond six digits."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)) if text else None
