"""How long `plan --all` takes, and how much memory, compared with asking the rules cell by cell.

    .venv/bin/python bench/plan_all.py

Prints a table; it is a measurement and no test. Memory is the process' peak, read after the sweep.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stackwright.core.resolve.sweep import of_tables, sweep
from stackwright.core.rules.table import CELL_RULES, first_clash

SAMPLE = 20_000


def main() -> None:
    start = time.perf_counter()
    rest, axes = of_tables()
    swept = sweep(rest, axes, CELL_RULES)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    start = time.perf_counter()
    for number in range(SAMPLE):
        first_clash(replace(rest, **{axis.field: axis.values[number % len(axis.values)] for axis in axes}))
    each = (time.perf_counter() - start) / SAMPLE
    print(f"cells      {swept.cells:,}, {swept.left:,} left, {swept.asked:,} questions asked")
    print(f"sweep      {seconds:.1f} s, {peak:.0f} MiB at most")
    print(f"one by one {each * 1e6:.0f} us a cell: {swept.cells * each / seconds:,.0f} times as long")


if __name__ == "__main__":
    main()
