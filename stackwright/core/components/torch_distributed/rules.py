"""Rules about torch.distributed: what it is a part of, and what it loads."""

from __future__ import annotations

from stackwright.core.components.component import Place, Placed
from stackwright.core.components.shared.wheel_rules import rule
from stackwright.core.components.torch_distributed import facts
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.model.row import Cell, Lock
from stackwright.core.rules.derived import brought
from stackwright.core.rules.rule import About, Answer, Clash, LockRule, Ruling

FIELDS = ("torch_distributed", "torch")


def _part(cell: Cell) -> Answer:
    if cell.value("torch_distributed") is None:
        return Ruling.SILENT
    if cell.value("torch"):
        return Ruling.FITS
    return Clash(
        values=(("torch_distributed", "true"), ("torch", "none")),
        reason="torch.distributed is a part of PyTorch, and the row has none",
    )


def _tried(cell: Cell) -> Answer:
    version = cell.value("torch")
    if cell.value("torch_distributed") is None or version is None:
        return Ruling.SILENT
    if as_numbers(version) >= as_numbers(facts.OLDEST):
        return Ruling.FITS
    reason = f"torch.distributed was not tried with PyTorch before {facts.OLDEST}"
    return Clash(values=(("torch_distributed", "true"), ("torch", version)), reason=reason)


def _nccl(cell: Cell, lock: Lock) -> Clash | None:
    if cell.value("torch_distributed") is None or brought(lock, "nccl"):
        return None
    return Clash(
        values=(("torch_distributed", "true"), ("nccl", "none in the lock")),
        reason="PyTorch's wheel requires no NCCL, so that the one of torch.distributed cannot be named",
    )


RULES = (
    Placed(
        at=Place.INDEX + 5,
        rule=rule("torch-distributed", FIELDS, facts.PART, _part, "torch.distributed comes with PyTorch"),
    ),
    Placed(
        at=Place.RELEASE + 75,
        rule=rule("torch-distributed-tried", FIELDS, facts.UNTRIED, _tried,
                  "torch.distributed was tried with the row's PyTorch", about=About.RELEASE),
    ),
)  # fmt: skip

LOCK_RULES = (
    LockRule(
        name="torch-distributed-nccl",
        says="PyTorch brings the NCCL that torch.distributed loads",
        fact=facts.PART,
        ask=_nccl,
    ),
)
