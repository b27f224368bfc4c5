"""CPU time of short commands, and the ratio to that of another checkout, measured in turns.

    .venv/bin/python bench/start_up.py [../an-older-checkout] [--times 9]

Each command runs in a process of its own, by this interpreter and from bytecode that is there already. The
median of user and system time is what counts: a machine that others use too changes the time on the clock.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (("--help",), ("plan",), ("plan", "--json"), ("explain",), ("plan", "--help"))


def seconds(checkout: Path, words: Sequence[str], bytecode: Path) -> float:
    """Return the CPU time of a command. It runs in its checkout's folder, by the matrix that is there."""
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    program = f"import sys; sys.path[0] = {str(checkout)!r}; from stackwright.cli.main import main; main()"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", program, *words], cwd=checkout, env=environ, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(checkouts: Sequence[Path], words: Sequence[str], times: int, bytecode: Path) -> list[float]:
    """Return the median for each checkout. The first round, which writes the bytecode, does not count."""
    rounds = [[seconds(checkout, words, bytecode) for checkout in checkouts] for _ in range(times + 1)]
    return [median(took) for took in zip(*rounds[1:], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("older", nargs="?", type=Path, help="another checkout to compare with")
    parser.add_argument("--times", type=int, default=9)
    given = parser.parse_args()
    checkouts = [ROOT, *([given.older.resolve()] if given.older else [])]
    with tempfile.TemporaryDirectory() as bytecode:
        for words in COMMANDS:
            here, *older = measured(checkouts, words, given.times, Path(bytecode))
            ratio = f"  before {older[0]:.3f} s, ratio {here / older[0]:.2f}" if older else ""
            print(f"{' '.join(words):12} {here:.3f} s{ratio}", flush=True)


if __name__ == "__main__":
    main()
