"""What Podman's builder says while it builds, as the steps and events that BuildKit's would be.

It prints `[2/5] STEP 3/4: RUN …`, what the instruction prints, and `--> ID` when its layer is kept.
It works on one stage at a time; what needs another stage waits for it, and continues without a word. It
prints no times: they are of the moment in which a line is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stackwright.core.model.row import Recipe
from stackwright.core.render.instructions import Instruction, instructions, logical_lines
from stackwright.engines.buildkit.progress import TAIL, Event, EventKind, Step

STEP = re.compile(
    r"(?:\[(?P<stage>\d+)/\d+\] )?STEP (?P<number>\d+)(?:/(?P<of>\d+))?: (?P<text>.*)", re.DOTALL
)
KEPT = re.compile(r"--> (?P<cache>Using cache )?[0-9a-f]{12,64}")
COMMITTED = re.compile(r"(?:\[\d+/\d+\] )?COMMIT\b")
FAILED = re.compile(r"Error: (?P<text>.+)", re.DOTALL)
_FROM = re.compile(r"FROM\s+(?:--\S+\s+)*\S+(?:\s+AS\s+(?P<stage>\S+))?", re.IGNORECASE)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, kw_only=True)
class Progress:
    """Feed it lines; it answers with events and keeps all steps, in the order in which they appeared."""

    recipe: Recipe
    now: Callable[[], datetime] = _now
    steps: dict[str, Step] = field(default_factory=dict)
    trailer: list[str] = field(default_factory=list)
    current: Step | None = None
    waiting: list[Step] = field(default_factory=list)
    stage: str | None = None
    stages: tuple[str, ...] = ()
    known: Mapping[tuple[str, int], Instruction] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = logical_lines(self.recipe.text("Dockerfile"))
        found = (match["stage"] or "" for line in lines if (match := _FROM.fullmatch(line)))
        self.stages = tuple(found)
        self.known = _by_line(self.recipe)
        self.ends = {stage: made.number for (stage, _), made in self.known.items()}

    def feed(self, line: str) -> Iterator[Event]:
        """Return what a line says."""
        text = line.rstrip("\n")
        if match := STEP.fullmatch(text):
            if self.current and self.current.identity and match["stage"] != self.stage:
                self.waiting.append(self.current)
                self.current = None
            yield from self._ended()
            yield from self._begun(match)
            return
        if self.current is None and self.waiting:
            self.current = self.waiting.pop()
        if match := KEPT.fullmatch(text):
            yield from self._kept(cached=bool(match["cache"]))
        elif COMMITTED.match(text):
            yield from self._ended()
        elif match := FAILED.fullmatch(text):
            self.trailer.append(text)
            yield from self._failed(match["text"])
        elif self.current is None:
            self.trailer.append(text)
        else:
            self.current.tail = [*self.current.tail, text][-TAIL:]
            yield Event(kind=EventKind.LOG, step=self.current.name, text=text)

    @property
    def failed(self) -> Step | None:
        return next((step for step in self.steps.values() if step.error), None)

    def own(self) -> tuple[Step, ...]:
        """Return the steps that take time; others change only the image's settings."""
        return tuple(step for step in self.steps.values() if step.identity)

    def _begun(self, match: re.Match[str]) -> Iterator[Event]:
        index, number, text = int(match["stage"] or 1) - 1, int(match["number"]), match["text"]
        stage, self.stage = self.stages[index] if index < len(self.stages) else "", match["stage"]
        made = self.known.get((stage, number))
        name = f"[{stage} {made.number}/{self.ends[stage]}] {text}" if made else f"[internal] {text}"
        digest = "sha256:" + hashlib.sha256(f"{index} {number} {text}".encode()).hexdigest()
        began = self.now()
        step = Step(name=name, digest=digest, identity=made.identity if made else "", started=began)
        self.steps[digest] = self.current = step
        if made:
            yield Event(kind=EventKind.STARTED, step=name, digest=digest, started=began)

    def _kept(self, *, cached: bool) -> Iterator[Event]:
        """A layer from the cache is printed twice, first that it is from there."""
        if not cached:
            yield from self._ended()
        elif self.current:
            self.current.cached = True

    def _ended(self) -> Iterator[Event]:
        step, self.current = self.current, None
        if step is None:
            return
        step.completed = self.now()
        if step.identity:
            kind = EventKind.CACHED if step.cached else EventKind.DONE
            yield Event(
                kind=kind, step=step.name, seconds=step.seconds, digest=step.digest, started=step.started
            )

    def _failed(self, error: str) -> Iterator[Event]:
        """It repeats the whole instruction: another stage may have begun before the error is printed."""
        said = " ".join(error.split())
        for step in reversed(self.steps.values()):
            head = f'building at STEP "{" ".join(step.name.partition("] ")[2].split())}": '
            if said.startswith(head):
                step.completed, step.error = self.now(), said.removeprefix(head)
                yield Event(
                    kind=EventKind.FAILED, step=step.name, text=step.error, seconds=step.seconds,
                    digest=step.digest, started=step.started,
                )  # fmt: skip
                return


def _by_line(recipe: Recipe) -> dict[tuple[str, int], Instruction]:
    """Return the instructions that take time by their stage and their number among all of its lines."""
    ends = {made.end: made for made in instructions(recipe)}
    found: dict[tuple[str, int], Instruction] = {}
    stage, number = "", 0
    for end, line in enumerate(logical_lines(recipe.text("Dockerfile")), start=1):
        if match := _FROM.fullmatch(line):
            stage, number = match["stage"] or "", 0
        number += 1
        if end in ends:
            found[stage, number] = ends[end]
    return found
