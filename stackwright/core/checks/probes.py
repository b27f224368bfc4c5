"""Which probes a row needs, as words for probes/run.py."""

from __future__ import annotations

from collections.abc import Mapping

from stackwright.core.benchmarks.nccl_tests import PROGRAMS
from stackwright.core.checks import stranger
from stackwright.core.components.table import imported, joined, of
from stackwright.core.model.row import Stack, Tier

WHO = "stranger"
"""The probe of the user that it runs as."""


def words(stack: Stack, gpus: int, not_run: Mapping[Tier, str]) -> tuple[str, ...]:
    """What probes/run.py is asked to do as the image's user."""
    compiling = ("compile",) if stranger.compiles_at_run_time(stack) else ()
    every = [component.words(stack, gpus) for component in of((*stack.frameworks, *stack.communication))]
    linked = f"link={','.join(imported(stack))}"
    ofi = ("ofi",) if stack.plugin else ()
    measures = (f"benchmarks={','.join(PROGRAMS)}",) if stack.nccl_tests else ()
    compiled = (f"compiled={','.join(package.name for package in stack.compiled)}",) if stack.compiled else ()
    tiers: dict[Tier, tuple[str, ...]] = {
        Tier.STATIC: ("system",),
        Tier.LINK: (linked, "fabric", *ofi, *measures, *compiling, *additions_words(stack)),
        Tier.BUILT: compiled,
        Tier.COLLECTIVE: (f"together={','.join(joined(stack))}",) if joined(stack) else (),
    }
    return tuple(
        word
        for tier in Tier
        if tier not in not_run
        for asked in (tiers, *every)
        for word in asked.get(tier, ())
    )


def sealed_words(stack: Stack, not_run: Mapping[Tier, str]) -> tuple[str, ...]:
    """Return what is asked for as an unknown user, with a root that is read-only: part of it once more."""
    compiling = ("compile=own-caches",) if stranger.compiles_at_run_time(stack) else ()
    tiers: dict[Tier, tuple[str, ...]] = {
        Tier.STATIC: (WHO,),
        Tier.LINK: (*compiling, *tool_words(stack, not_run)),
        Tier.COLLECTIVE: tuple(f"collective={run}" for run in stranger.first_run(stack)),
    }
    return tuple(word for tier, words in tiers.items() if tier not in not_run for word in words)


def tool_words(stack: Stack, not_run: Mapping[Tier, str]) -> tuple[str, ...]:
    """Return what is asked for by a user who is not root, in a SIF as well: no tool is served as root."""
    return () if Tier.LINK in not_run else tuple(f"tool={tool.name}" for tool in stack.tools)


def additions_words(stack: Stack) -> tuple[str, ...]:
    """Return what the row adds by name, with modules where it names them, and what came along."""
    if not stack.added:
        return ()
    named = {
        package.name: f"{package.name}{':' if package.modules else ''}{'+'.join(package.modules)}"
        for package in stack.added
    }
    along = (f"+{package.name}" for package in stack.lock.added if package.name not in named)
    return (f"additions={','.join((*named.values(), *along))}",)
