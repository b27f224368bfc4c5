"""Reads what all_reduce_perf of nccl-tests writes, hands it on, and ends with one line: the bus bandwidth of
the largest message. It fails where the table has no end, where values were wrong, and where less came through
than the links of a node should give.

The recipes carry it, and the image's own Python runs it: it imports nothing but Python's own library.
Usage: bandwidth.py RANKS GBIT [FILE], where GBIT is 0 if it is not known what the links give. Without FILE it
reads what is written to it, and hands that on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

SHARE = 0.5
"""Of what the links give, at least: a way that is not taken shows as less, and tuning is about the rest."""
COLUMNS = 13
"""size count type redop root, and twice time algbw busbw #wrong: out of place and in place."""
SIZE, BUS = 0, (7, 11)
RANK = re.compile(r"#\s+Rank\s+(\d+) ")
WRONG = re.compile(r"# Out of bounds values\s*: (\d+)")
BITS = 8


def numbers(line: str) -> tuple[int, float] | None:
    """Return the size of a message and its bus bandwidth, the lower of the two; None for any other line."""
    words = line.split()
    if len(words) != COLUMNS or not (words[0].isdecimal() and words[1].isdecimal()):
        return None
    try:
        return int(words[SIZE]), min(float(words[at]) for at in BUS)
    except ValueError:
        return None


def fault(lines: list[str], ranks: int, last: tuple[int, float] | None) -> str:
    """What makes the numbers worth nothing."""
    seen = {found[1] for line in lines if (found := RANK.match(line))}
    wrong = [int(found[1]) for line in lines if (found := WRONG.match(line))]
    if last is None or not wrong:
        return "all_reduce_perf did not end: the lines above say why"
    if len(seen) != ranks:
        return f"wrong world: {ranks} ranks were started, and {len(seen)} measure together"
    if any(wrong):
        return f"{wrong[0]} values are wrong: what came through is not what was sent"
    return ""


def judged(lines: Iterable[str], ranks: int, gbit: float) -> tuple[str, bool]:
    """Return the last line, and whether all is well."""
    every = list(lines)
    table = [found for line in every if (found := numbers(line))]
    last = max(table, default=None)
    wrong = fault(every, ranks, last)
    if wrong or last is None:
        return f"benchmark: {wrong}", False
    size, bus = last
    said = f"benchmark: {bus:g} GB/s on the bus with {size} bytes over {ranks} ranks"
    if not gbit:
        return said, True
    share = bus * BITS / gbit
    enough = share >= SHARE
    less = "" if enough else f": less than {SHARE:g} of what the links give"
    return f"{said}, {share:.2f} of {gbit:g} Gbit/s{less}", enough


def handed_on(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        print(line, end="", flush=True)
        yield line


def main(ranks: str, gbit: str, *files: str) -> bool:
    if files:
        with open(files[0]) as table:  # noqa: PTH123 (as short as what is pasted should be)
            said, well = judged(table, int(ranks), float(gbit))
    else:
        said, well = judged(handed_on(sys.stdin), int(ranks), float(gbit))
    print(said, flush=True)
    return well


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
