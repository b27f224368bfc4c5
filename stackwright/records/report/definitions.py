"""Builds from definition files, in the words of the reports and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stackwright.core.model.record import Phase, Record, Status
from stackwright.core.model.row import Tier, World
from stackwright.records import files as record
from stackwright.records.report.wording import TierCell, clean, tier_cells


def trouble(known: Record) -> str:
    """Return why there is no good file; empty where there is one."""
    return "" if known.status is Status.COMPLETE else known.reason or known.status.value


def compared(known: Record) -> str:
    """Return the result of the comparison with the Docker image, as text."""
    found = known.definition
    if found is None or found.differences is None:
        return "not compared: the image's facts are not there"
    if not found.differences:
        return "no difference from the image"
    count = f"differences from the image: {len(found.differences)}"
    bad = len(found.unexplained)
    return f"{count}, unexplained: {bad}" if bad else f"{count}, all explained"


def cells(known: Record) -> tuple[TierCell, ...]:
    return tier_cells(known, World.DEFINITION)


def notes(known: Record, images: Iterable[Record]) -> tuple[str, ...]:
    """List what a reader must know of a SIF of a definition file besides its marks."""
    of_image = next((image.key for image in images if image.row == known.row), known.key)
    verdict, lines = known.verdict(World.DEFINITION), [trouble(known)] if trouble(known) else []
    if verdict:
        lines += [f"failed: {check.tier} {check.id}: {check.detail}" for check in verdict.failed]
        lines += [f"not run: {cell.tier}: {cell.reason}" for cell in cells(known) if cell.reason]
        lines.append(compared(known))
    if of_image != known.key:
        lines.append(f"of the key {known.key[:12]}, and the image is of {of_image[:12]}")
    return tuple(clean(f"{World.DEFINITION}: {line}") for line in lines)


def summary(known: Record) -> str:
    """One line, for the answer of ``sif --from def``."""
    verdict = known.verdict(World.DEFINITION)
    if known.sif is None or verdict is None:
        return f"{known.row}: no SIF was built from its definition file: {trouble(known)}"
    tiers = ", ".join(f"{tier} {verdict.tier(tier)}" for tier in Tier)
    return f"{known.sif.path}: {known.sif.bytes / 1e9:.2f} GB; {tiers}; {compared(known)}"


def as_json(known: Record) -> dict[str, Any]:
    """``--format json``: docs/record.md says what each field means."""
    whole = record.as_json(known)
    names = ("version", "row", "key", "started", "finished", "cause", "sif", "tools", "host")
    verdict = next(iter(whole["verdicts"]), None)
    return {
        **{name: whole[name] for name in names},
        "definition": whole["definition"]["key"], "differences": whole["definition"]["differences"],
        "reason": trouble(known), "verdict": verdict and {**verdict, "world": World.SIF.value},
        "build_seconds": _seconds(known, Phase.DEFINITION),
        "probe_seconds": _seconds(known, Phase.PROBE_DEFINITION),
    }  # fmt: skip


def _seconds(known: Record, phase: Phase) -> float | None:
    seconds = known.seconds(phase)
    return None if seconds is None else round(seconds, 1)
