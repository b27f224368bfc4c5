"""Rules about DeepSpeed: what it trains on."""

from __future__ import annotations

from stackwright.core.components.component import Place, Placed
from stackwright.core.components.shared.wheel_rules import rule
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import Answer, Clash, Ruling

NEEDS = read("deepspeed 0.19.8, requirements/requirements.txt and deepspeed/comm/torch.py", "2026-11-22")


def _needs(cell: Cell) -> Answer:
    version = cell.value("deepspeed")
    if version is None:
        return Ruling.SILENT
    if cell.value("torch") and cell.value("torch_distributed"):
        return Ruling.FITS
    lacks = "torch" if not cell.value("torch") else "torch_distributed"
    return Clash(
        values=(("deepspeed", version), (lacks, "none")),
        reason="DeepSpeed trains on torch.distributed, so that a row with it has that layer as well",
    )


RULES = (
    Placed(
        at=Place.INDEX + 6,
        rule=rule("deepspeed", ("deepspeed", "torch", "torch_distributed"), NEEDS, _needs,
                  "DeepSpeed trains on torch.distributed"),
    ),
)  # fmt: skip
