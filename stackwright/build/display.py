"""What a person sees while rows are worked on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from stackwright.core.credentials import redact
from stackwright.engines.buildkit.progress import SLACK, Event, EventKind, is_noise, short

SHOWN_STEPS = 3
"""Steps of one row that the live table shows at a time; BuildKit works on a few at once."""


@dataclass(slots=True)
class Row:
    phase: str = "waiting"
    began: float = field(default_factory=time.monotonic)
    running: dict[str, float] = field(default_factory=dict)
    last: str = ""
    finished: int = 0


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
        with Live(get_renderable=self.table, console=self.console, refresh_per_second=4, transient=True):
            yield

    def say(self, text: str, style: str = "") -> None:
        self.console.print(redact(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def phase(self, row: str, phase: str) -> None:
        with self.lock:
            self.rows[row] = Row(phase=phase)
        self.say(f"[{row}] {phase}", style="bold")

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
            self._move(self.rows.setdefault(row, Row()), event)
            told = event.kind is EventKind.LOG or self._is_told(row, event)
        if not told:
            took = "" if event.kind in (EventKind.STARTED, EventKind.CACHED) else f" {event.seconds:6.1f} s"
            style = "red" if event.kind is EventKind.FAILED else ""
            self.say(f"[{row}] {event.kind:7}{took} {short(event.step)}", style=style)

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
            state.running[event.step] = time.monotonic()
        elif event.kind is EventKind.LOG:
            state.last = redact(event.text.strip()) or state.last
        else:
            state.running.pop(event.step, None)
            state.finished += 1

    def table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        with self.lock:
            for name, row in self.rows.items():
                spent = f"{now - row.began:.0f} s"
                table.add_row(f"[bold]{name}", row.phase, spent, f"{row.finished} steps done")
                for step, began in list(row.running.items())[:SHOWN_STEPS]:
                    table.add_row("", "", f"{now - began:.0f} s", short(redact(step)).replace("[", r"\["))
                if row.last:
                    table.add_row("", "", "", f"[dim]{row.last[:100].replace('[', chr(92) + '[')}")
        return table
