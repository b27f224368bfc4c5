"""How much longer the probes take because an image is read from outside, file by file, for its ledger.

    .venv/bin/python bench/ledger.py ROW

Probes the row's image and its SIF, in turn with that reading and without; without it the image's own Python
reads the files, as before there was a ledger, and no layer is searched for the site's settings. So the
difference is the most that the ledger can cost. `build.py run ROW` goes before it. It makes a record of the
row for each turn: use a clone. It is a measurement and no test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMES = 2
RUN = """
import dataclasses, sys
from stackwright.build import phases, row
from stackwright.cli.main import main
from stackwright.probe.outside.documents import not_read
row._judged_by_others = lambda *given: True
if sys.argv.pop(1) == "without":
    phases.of_image = phases.of_sif = lambda *given, **named: not_read("left out, to measure the rest")
    kept = {name: dataclasses.replace(one, problem=lambda record: None) for name, one in row.PHASES.items()}
    row.PHASES = kept
main()
"""
"""As if the checks had changed: what is built stays, and what is proven is proven again.

Without the reading its checks are red, and the SIF is probed all the same.
"""


def main() -> None:
    (row,) = sys.argv[1:]
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(TIMES):
        for way in ("with", "without"):
            for world, seconds in probed(way, row).items():
                taken.setdefault((world, way), []).append(seconds)
    print(f"{row}, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    for world in ("docker", "sif"):
        for way in ("with", "without"):
            print(f"{world:7}{way:8}" + ", ".join(f"{seconds:.1f} s" for seconds in taken[world, way]))
        one, other = (min(taken[world, way]) for way in ("with", "without"))
        print(f"{world:7}longer by {one - other:.1f} s, {one / other:.2f} times")


def probed(way: str, row: str) -> dict[str, float]:
    """Return the seconds of the probes by world."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, way, "run", row], cwd=ROOT, check=False, capture_output=True, text=True
    )
    records = sorted((ROOT / "out" / "records" / row).glob("*.json"))
    if not records:
        sys.exit(done.stdout + done.stderr)
    timings = {
        timing["phase"]: timing["seconds"] for timing in json.loads(records[-1].read_text())["timings"]
    }
    return {world: timings[f"probe {world}"] for world in ("docker", "sif")}


if __name__ == "__main__":
    main()
