"""Rules about nccl-tests."""

from __future__ import annotations

from stackwright.core.benchmarks.nccl_tests import BY_VERSION, NAME, RELEASES, REPOSITORY, asked
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling

FIELD = "benchmarks"
TABLE = read(f"{REPOSITORY}: sources of its releases", "2026-11-23")


def _known(cell: Cell) -> Answer:
    release = asked(cell.benchmarks)
    if not release or release in BY_VERSION:
        return Ruling.FITS if release else Ruling.SILENT
    there = ", ".join(one.version for one in RELEASES)
    reason = f"the hash of its source is in no table; there are {there}"
    return Clash(values=((FIELD, f"{NAME} {release}"),), reason=reason)


RULES = (
    CellRule(
        name="nccl-tests-release", about=About.RELEASE, fields=(FIELD,), fact=TABLE, ask=_known,
        says="the source of the row's release of nccl-tests is known by its hash",
    ),
)  # fmt: skip
