"""Rules about nccl-tests."""

from __future__ import annotations

from stackwright.core.archive import known
from stackwright.core.benchmarks.nccl_tests import BY_VERSION, REPOSITORY, asked
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import About, Answer, CellRule

FIELD = "benchmarks"
TABLE = read(f"{REPOSITORY}: sources of its releases", "2026-11-23")


def _known(cell: Cell) -> Answer:
    return known(asked(cell.benchmarks), BY_VERSION, FIELD)


RULES = (
    CellRule(
        name="nccl-tests-release", about=About.RELEASE, fields=(FIELD,), fact=TABLE, ask=_known,
        says="the source of the row's release of nccl-tests is known by its hash",
    ),
)  # fmt: skip
