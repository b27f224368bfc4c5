"""What a person sees while rows are worked on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from stackwright.core.credentials import redact
from stackwright.core.steps.progress import Tally
from stackwright.engines.buildkit.progress import SLACK, Event, EventKind, is_noise, shown
from stackwright.records.report.wording import clean, duration, plural

SHOWN_STEPS = 3
"""Steps of one row that the live table shows at a time; BuildKit works on a few at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is known of a build before it begins, by the names of its steps: how many wheels a step fetches,
    and the seconds that it took the last time."""

    wheels: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """Return a step's name with what is expected of it: `frameworks: 24 wheels (50 s last time)`."""
        return self.so_far(name, plural(self.wheels[name], "wheel") if name in self.wheels else "")

    def so_far(self, name: str, said: str) -> str:
        """Return a step's name with what is known of it now, as in `frameworks: 2 of 24 wheels`."""
        between = ", " if ":" in name else ": "
        return f"{name}{between if said else ''}{said}{self._last_time(name)}"

    def _last_time(self, name: str) -> str:
        return f" ({duration(self.seconds[name])} last time)" if name in self.seconds else ""


@dataclass(slots=True)
class Running:
    began: float
    tally: Tally


@dataclass(slots=True)
class Row:
    """``how_far`` says what a phase without steps does at the moment; "" where there is nothing to say."""

    phase: str = "waiting"
    last_time: str = ""
    how_far: Callable[[], str] = str
    began: float = field(default_factory=time.monotonic)
    running: dict[str, Running] = field(default_factory=dict)
    last: str = ""
    finished: int = 0
    expected: Expected = field(default_factory=Expected)

    def lines(self, name: str, now: float) -> Iterator[Text]:
        """What the live display shows of the row: itself, steps that run, and the last line of the log."""
        done = f", {plural(self.finished, 'step')} done" if self.finished else ""
        what = ": ".join(filter(None, (self.phase, self.how_far())))
        yield _line((name, "bold"), f"  {what}, {now - self.began:.0f} s{done}{self.last_time}")
        for step, running in list(self.running.items())[:SHOWN_STEPS]:
            title = redact(shown(step))
            so_far = self.expected.so_far(title, running.tally.text) if running.tally.text else ""
            yield _line(f"{now - running.began:6.0f} s  {so_far or self.expected.of(title)}")
        if self.last:
            yield _line((f"          {self.last}", "dim"))


def _line(*parts: str | tuple[str, str]) -> Text:
    """One line, whatever the width: the end of a long one is left out."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


@dataclass(slots=True)
class Display:
    """Called from the threads of several rows at once. Everything goes to stderr."""

    console: Console
    rows: dict[str, Row] = field(default_factory=dict)
    tellers: dict[tuple[str, str], list[tuple[datetime, str]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(get_renderable=self.live, console=self.console, refresh_per_second=4, transient=True):
            yield

    def say(self, text: str, style: str = "") -> None:
        self.console.print(redact(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def phase(self, row: str, phase: str, *, last_time: float | None = None) -> None:
        """``last_time``: seconds that the phase took when the row was last worked on."""
        known = "" if last_time is None else f" ({duration(last_time)} last time)"
        with self.lock:
            self.rows[row] = Row(phase=phase, last_time=known)
        self.say(f"[{row}] {phase}{known}", style="bold")

    def expect(self, row: str, expected: Expected) -> None:
        with self.lock:
            self.rows.setdefault(row, Row()).expected = expected

    def watch(self, row: str, how_far: Callable[[], str]) -> None:
        with self.lock:
            self.rows.setdefault(row, Row()).how_far = how_far

    def ended(self, row: str, phase: str, seconds: float, note: str = "") -> None:
        with self.lock:
            self.rows.pop(row, None)
        self.say(f"[{row}] {phase}: {seconds:.1f} s{f', {note}' if note else ''}", style="green")

    def event(self, row: str, event: Event) -> None:
        """Print a step of the solve; log lines only move the live table. A step that several rows share is
        printed once, for the first of them."""
        if is_noise(event.step):
            return
        with self.lock:
            state = self.rows.setdefault(row, Row())
            self._move(state, event)
            told = event.kind is EventKind.LOG or self._is_told(row, event)
        if not told:
            took = "" if event.kind in (EventKind.STARTED, EventKind.CACHED) else f" {event.seconds:6.1f} s"
            style = "red" if event.kind is EventKind.FAILED else ""
            title = shown(event.step)
            named = state.expected.of(title) if event.kind is EventKind.STARTED else title
            self.say(f"[{row}] {event.kind:7}{took} {named}", style=style)

    def _is_told(self, row: str, event: Event) -> bool:
        if event.kind not in (EventKind.STARTED, EventKind.DONE) or event.started is None:
            return False
        known = self.tellers.setdefault((event.digest, event.kind), [])
        others = [teller for at, teller in known if abs(at - event.started) < SLACK]
        known += [] if others else [(event.started, row)]
        return any(teller != row for teller in others)

    @staticmethod
    def _move(state: Row, event: Event) -> None:
        if event.kind is EventKind.STARTED:
            wheels = state.expected.wheels.get(shown(event.step), 0)
            state.running[event.step] = Running(began=time.monotonic(), tally=Tally(wheels=wheels))
        elif event.kind is EventKind.LOG:
            state.last = clean(redact(event.text)) or state.last
            if running := state.running.get(event.step):
                running.tally.feed(event.text)
        else:
            state.running.pop(event.step, None)
            state.finished += 1

    def live(self) -> Group:
        now = time.monotonic()
        with self.lock:
            return Group(*(line for name, row in self.rows.items() for line in row.lines(name, now)))
