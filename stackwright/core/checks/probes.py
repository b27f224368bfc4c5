"""Which probes a row needs, as words for probes/run.py."""

from __future__ import annotations

from collections.abc import Mapping

from stackwright.core.checks.tables.collective import runs
from stackwright.core.checks.tables.link import modules
from stackwright.core.model.row import Stack, Tier


def words(stack: Stack, gpus: int, not_run: Mapping[Tier, str]) -> tuple[str, ...]:
    """What probes/run.py is asked to do as the image's user."""
    compiling = ("compile",) if "torch" in stack.modules else ()
    tiers: dict[Tier, tuple[str, ...]] = {
        Tier.STATIC: ("system",),
        Tier.LINK: (f"link={','.join(modules(stack))}", "fabric", *compiling),
        Tier.BUILT: (*(f"built={name}" for name in stack.extensions), "attack"),
        Tier.COLLECTIVE: tuple(f"collective={run}" for run in runs(stack)),
        Tier.GPU: tuple(f"gpu={name}/{gpus}" for name in stack.extensions if gpus),
    }
    return tuple(word for tier, asked in tiers.items() if tier not in not_run for word in asked)
