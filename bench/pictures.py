"""The pictures of the documentation, made again: what the program prints and shows, and the site.

`python bench/pictures.py` writes them to docs/pictures. The live display is the real one. It is fed the steps
of a recorded run, up to the moment at which half of the longest one is done, with a line of make's for that
moment, and knows how long they took in the run before.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.text import Text

from stackwright.build.display import Display, Expected
from stackwright.core.model.record import Phase, Record
from stackwright.core.steps.names import of_record
from stackwright.engines.buildkit.progress import Event, EventKind
from stackwright.records import files as records
from stackwright.records.last_time import SHORTEST

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
RECORD = ROOT / "docs" / "results" / "2026-11-22" / "cuda12-torch.json"
BEFORE = ROOT / "docs" / "results" / "2026-11-20" / "cuda12-torch.json"
MAKE = (
    "[ 50%] Building CXX object third_party/compatible_gloo/gloo/CMakeFiles/"
    "compatible_gloo.dir/transport/tcp/context.cc.o"
)
REFUSED = ("./build.py", "explain", "--set", "gcc=14")
LEFT_OUT = "fits: "
"""The answer is shown up to here: names of all other rules follow."""
COLUMNS = 104
WIDTHS = (1280, 400)
SITE = ROOT / "out" / "docs" / "html" / "docs" / "index.html"


def terminal() -> Console:
    return Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )


def answer(words: tuple[str, ...]) -> str:
    """Return what a command prints on a terminal, as SVG."""
    colours = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(words, cwd=ROOT, env=colours, capture_output=True, text=True, check=False)
    console = terminal()
    said = done.stdout.splitlines()
    console.print(Text.from_ansi("\n".join(takewhile(lambda line: LEFT_OUT not in line, said))))
    return svg(console, " ".join(words))


def live(record: Record, before: Record) -> str:
    """Return the live display while the longest step of a recorded build runs, as SVG."""
    console = terminal()
    display = Display(console)
    display.phase(record.row, Phase.BUILD)
    known = zip(of_record(before), before.steps, strict=True)
    seconds = {name: step.seconds for name, step in known if step.seconds >= SHORTEST}
    display.expect(record.row, Expected(seconds=seconds))
    named = zip(of_record(record), record.steps, strict=True)  # a record has the beginning of a step's text
    steps = sorted(
        (replace(step, name=name) for name, step in named if step.started),
        key=lambda step: step.started or "",
    )
    longest = max(steps, key=lambda step: step.seconds)
    now = moment(longest.started) + timedelta(seconds=longest.seconds / 2)
    for step in steps:
        began = moment(step.started)
        if began > now:
            continue
        display.event(record.row, Event(kind=EventKind.STARTED, step=step.name))
        if began + timedelta(seconds=step.seconds) < now:
            display.event(record.row, Event(kind=EventKind.DONE, step=step.name, seconds=step.seconds))
        else:
            display.rows[record.row].running[step.name].began -= (now - began).total_seconds()
    display.event(record.row, Event(kind=EventKind.LOG, step=longest.name, text=MAKE))
    display.rows[record.row].began -= (now - moment(steps[0].started)).total_seconds()
    console.print(display.live())
    return svg(console, f"./build.py run {record.row}")


def svg(console: Console, title: str) -> str:
    """Without the fonts that rich would load from a server of others: every browser has one."""
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.DOTALL)


def moment(text: str | datetime | None) -> datetime:
    return text if isinstance(text, datetime) else datetime.fromisoformat(text or "")


def site() -> None:
    """Take pictures of the site that `make docs` built, in a real browser."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None or not SITE.is_file():
        print("pictures: no browser, or no site (make docs): its pictures stay as they are", file=sys.stderr)
        return
    for width in WIDTHS:
        picture = PICTURES / f"site-{width}.png"
        options = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu")
        words = [program, *options, f"--window-size={width},900", f"--screenshot={picture}", SITE.as_uri()]
        subprocess.run(words, check=True, capture_output=True, timeout=60)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "refused.svg").write_text(answer(REFUSED))
    (PICTURES / "live.svg").write_text(live(records.load(RECORD), records.load(BEFORE)))
    site()


if __name__ == "__main__":
    main()
