"""Describe the records of a row in the words and units that every report uses.

A tier that could not run is "not run" with its reason, everywhere; nothing here turns it into a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stackwright.core.components.table import COMMUNICATION, COMPONENTS, MODULES
from stackwright.core.facts.build_failures import cause_named
from stackwright.core.model.record import Record, Status
from stackwright.core.model.row import IMAGE_WORLDS, Check, Outcome, Tier, World
from stackwright.host.shipped import called

LABELS = {
    "cuda": "CUDA", "cuda_runtime": "CUDA runtime", "cudnn": "cuDNN", "flavour": "Flavour", "gcc": "GCC",
    "gpu_arch": "GPU arch", "mpi.flavour": "MPI flavour", "mpi.version": "MPI version", "nccl": "NCCL",
    "os": "OS", "patches": "Patches", "provider": "Base provider", "python": "Python",
    **{component.name: component.title for component in COMPONENTS},
}  # fmt: skip
"""How people write the names of a row's fields; a name that is not here is shown as it is."""

KEY_VERSIONS = (*(component.name for component in (*MODULES, *COMMUNICATION)), "cuda", "nccl")


class State(StrEnum):
    """The state of a row over all its worlds."""

    PROVEN = "proven"
    PARTLY = "partly proven"
    UNPROVEN = "not proven"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCell:
    """One tier in one world. ``reason`` says why a tier is not run; it is empty for the others."""

    world: str
    tier: Tier
    outcome: Outcome
    checks: tuple[Check, ...]
    reason: str = ""

    @property
    def passed(self) -> int:
        return sum(check.outcome is Outcome.PASSED for check in self.checks)


def tier_cells(record: Record, world: str) -> tuple[TierCell, ...]:
    """All tiers in their order, whether or not the record says anything about them."""
    return tuple(_cell(record, world, tier) for tier in Tier)


def state(record: Record) -> State:
    if record.status is Status.FAILED or any(verdict.failed for verdict in record.verdicts):
        return State.FAILED
    if record.status is Status.INTERRUPTED:
        return State.INTERRUPTED
    outcomes = {cell.outcome for world in IMAGE_WORLDS for cell in tier_cells(record, world)}
    if outcomes == {Outcome.PASSED}:
        return State.PROVEN
    return State.PARTLY if Outcome.PASSED in outcomes else State.UNPROVEN


def not_run(record: Record) -> dict[str, str]:
    """Reason to the tiers that it kept from running, as in "gpu in docker and sif"."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for world in IMAGE_WORLDS:
        for cell in tier_cells(record, world):
            if cell.outcome is Outcome.NOT_RUN:
                reasons.setdefault(cell.reason, {}).setdefault(world, []).append(cell.tier.value)
    return {reason: _where(worlds) for reason, worlds in reasons.items()}


def _where(worlds: dict[str, list[str]]) -> str:
    by_tiers: dict[str, list[str]] = {}
    for world, tiers in worlds.items():
        words = "all tiers" if len(tiers) == len(Tier) else ", ".join(tiers)
        by_tiers.setdefault(words, []).append(world)
    return "; ".join(f"{words} in {' and '.join(names)}" for words, names in by_tiers.items())


# -- words and units ---


def clean(text: str) -> str:
    """One line without control characters: a name from outside must not steer the terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def size(count: int) -> str:
    """Decimal units, as disks and registries count: GB = 10^9 bytes."""
    if count >= 10**9:
        return f"{count / 10**9:.1f} GB"
    return f"{count / 10**6:.0f} MB" if count >= 10**6 else f"{count / 10**3:.0f} kB"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def agrees(declared: str, found: str) -> bool:
    """In both directions: "12.4" agrees with "12.4.131", "2.6.0" with "2.6.0+cu124", "12.4" not with "12.41".

    A list, as of GPU architectures, agrees in any order.
    """
    short, long = sorted((declared, found), key=len)
    longer = bool(short) and long.startswith(short) and long[len(short) :][:1] in tuple(".+-~")
    return longer or sorted(declared.split()) == sorted(found.split())


def key_versions(record: Record) -> str:
    """Return what a person knows a row by: found inside where it was read back, else as declared."""
    known = {**dict(record.declared), **dict(record.found)}
    return clean(", ".join(f"{LABELS[name]} {known[name]}" for name in KEY_VERSIONS if known.get(name)))


def ending(record: Record) -> str:
    """Return how a run that did not complete ended, or nothing."""
    if record.status is Status.COMPLETE:
        return ""
    reason, cause = clean(record.reason), cause_named(record.cause)
    change = f"; next: {called(clean(cause.change))}" if cause else ""
    where = f"{record.status.value} in the phase {record.phase.value}"
    return where + (f": {reason}" if reason else "") + change


def _cell(record: Record, world: str, tier: Tier) -> TierCell:
    verdict = record.verdict(world)
    if verdict is None:
        reason = _why_no_verdict(record, world)
        return TierCell(world=world, tier=tier, outcome=Outcome.NOT_RUN, checks=(), reason=reason)
    checks = tuple(check for check in verdict.checks if check.tier is tier)
    outcome = verdict.tier(tier)
    reason = _why_not(checks) if outcome is Outcome.NOT_RUN else ""
    return TierCell(world=world, tier=tier, outcome=outcome, checks=checks, reason=reason)


def _why_not(checks: tuple[Check, ...]) -> str:
    details = (clean(check.detail) for check in checks if check.outcome is Outcome.NOT_RUN)
    reasons = "; ".join(dict.fromkeys(detail or "no reason was given" for detail in details))
    return reasons or "no check of this tier was asked for"


def _why_no_verdict(record: Record, world: str) -> str:
    if world == World.DEFINITION and record.sif is None and record.reason:
        return f"no SIF was built: {clean(record.reason)}"
    if record.status is not Status.COMPLETE:
        return f"the run {_ended(record)} in the phase {record.phase.value}"
    return "no SIF was made" if world == World.SIF and record.sif is None else "this world was not probed"


def _ended(record: Record) -> str:
    return "failed" if record.status is Status.FAILED else "was interrupted"
