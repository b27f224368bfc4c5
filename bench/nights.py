"""How long a night takes in which nothing changed, and what it starts.

    .venv/bin/python bench/nights.py

Over the shipped matrix and over 1,000 rows, from the locks as they are and with upstream asked (this host's
index and mirror, every page again), with the tests' made-up records of last night. The first night has the
inputs of all keys to note, and fills the cache of the index; the others are what a night without a change
costs, with the start of the program. An engine's client that is started ends it. Prints a table; fails where
a night takes longer than it may.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support" / "samples"))

from quiet_nights import ROWS, generated, proven
from rich.console import Console
from rows import ROOT

from stackwright.core.model.night import State
from stackwright.core.model.row import Lock
from stackwright.host.project import Project, cells
from stackwright.host.runner import Completed, Runner
from stackwright.host.site import settings
from stackwright.nightly import night, tags
from stackwright.nightly.night import Order
from stackwright.nightly.upstream import Upstream, fresh_locks

ALLOWED = {"shipped": 5.0, "1,000 rows": 10.0}
"""Seconds that a night without work may take."""

NIGHTS = 4
ASKS = frozenset(("uv", "apt-get"))
"""What asks the index, and what says which mirror this host has."""


class Counting(Runner):
    """Starts what asks upstream, and counts it. Anything else is an error, an engine's client above all."""

    def __init__(self) -> None:
        super().__init__()
        self.started: Counter[str] = Counter()

    def __call__(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        name = Path(argv[0]).name
        if name not in ASKS:
            sys.exit(f"a night without a change started {name}")
        self.started[name] += 1
        return super().__call__(argv, **options)


def asking(project: Project, runner: Runner) -> Upstream:
    site = settings.site(runner)
    return Upstream(
        site=site, runner=runner, kept=project.out / "cache", digest=partial(tags.digest, site), same_night=0
    )


def of_upstream(project: Project) -> dict[str, Lock]:
    """What upstream has now; the committed locks may be older."""
    answers = fresh_locks(asking(project, Counting()), cells(project))
    wrong = [str(answer) for answer in answers.values() if not isinstance(answer, Lock)]
    if wrong:
        sys.exit(wrong[0])
    return {row: answer for row, answer in answers.items() if isinstance(answer, Lock)}


def one_night(project: Project, *, locked: bool) -> tuple[float, Counter[str]]:
    start, runner, wanted = time.perf_counter(), Counting(), cells(project)
    ask = partial(night.committed_locks, project) if locked else partial(fresh_locks, asking(project, runner))
    order = Order(
        cells=wanted, whole=True, ask=ask, site=lambda: settings.site(runner), locked=locked
    )  # fmt: skip
    path = project.out / "history.sqlite"
    morning = night.work(project, order, history_path=path, runner=runner, console=Console(stderr=True))
    took = time.perf_counter() - start
    states = {row.state for row in morning.rows}
    if states != {State.UNCHANGED}:
        sys.exit(f"this is no night without a change: {states}")
    return took, runner.started


def starting() -> float:
    """Seconds until Python has what the command needs; all nights here share it."""
    start = time.perf_counter()
    words = "import stackwright.cli.commands.nightly, stackwright.nightly.night, stackwright.nightly.tags"
    subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=True)
    return time.perf_counter() - start


def measure(name: str, project: Project, *, locked: bool) -> bool:
    proven(project, None if locked else of_upstream(project))
    first, *others = [one_night(project, locked=locked) for _ in range(NIGHTS)]
    start, allowed = starting(), ALLOWED[name]
    again = start + median(took for took, _ in others)
    way = "--locked" if locked else "upstream asked"
    started = ", ".join(f"{name} {count}" for name, count in sorted(others[-1][1].items())) or "nothing"
    within = "within" if again < allowed else "OVER"
    print(
        f"{name:10}  {way:14}  first {start + first[0]:.1f} s, then {again:.1f} s (median of {len(others)}),"
        f" {within} {allowed:g} s; started: {started}",
        flush=True,
    )
    return again < allowed


def main() -> None:
    os.environ.setdefault(*settings.RESOLVER)  # as the command does
    with tempfile.TemporaryDirectory() as name:
        folder, good = Path(name), True
        thousand = generated(folder, ROWS)
        for locked in (True, False):
            out = folder / ("locked" if locked else "asked")
            shipped = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=out / "shipped")
            good &= measure("shipped", shipped, locked=locked)
            large = Project(root=ROOT, matrix=thousand.matrix, out=out / "thousand")
            good &= measure("1,000 rows", large, locked=locked)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
