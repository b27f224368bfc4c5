"""Builds from definition files, in the words of the reports and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stackwright.core.model.record import Phase, Record, Status
from stackwright.core.model.row import Tier, World
from stackwright.records import files as record
from stackwright.records.report.wording import TierCell, clean, tier_cells


def trouble(one: Record) -> str:
    """Return why there is no good file; empty where there is one."""
    return "" if one.status is Status.COMPLETE else one.reason or one.status.value


def compared(one: Record) -> str:
    """Return the result of the comparison with the Docker image, as text."""
    found = one.definition
    if found is None or found.differences is None:
        return "not compared: the image's facts are not there"
    if not found.differences:
        return "no difference from the image"
    count = f"differences from the image: {len(found.differences)}"
    bad = len(found.unexplained)
    return f"{count}, unexplained: {bad}" if bad else f"{count}, all explained"


def cells(one: Record) -> tuple[TierCell, ...]:
    return tier_cells(one, World.DEFINITION)


def notes(one: Record, images: Iterable[Record]) -> tuple[str, ...]:
    """List what a reader must know of a SIF of a definition file besides its marks."""
    of_image = next((image.key for image in images if image.row == one.row), one.key)
    verdict, lines = one.verdict(World.DEFINITION), [trouble(one)] if trouble(one) else []
    if verdict:
        lines += [f"failed: {check.tier} {check.id}: {check.detail}" for check in verdict.failed]
        lines += [f"not run: {cell.tier}: {cell.reason}" for cell in cells(one) if cell.reason]
        lines.append(compared(one))
    if of_image != one.key:
        lines.append(f"of the key {one.key[:12]}, and the image is of {of_image[:12]}")
    return tuple(clean(f"{World.DEFINITION}: {line}") for line in lines)


def summary(one: Record) -> str:
    """One line, for the answer of ``sif --from def``."""
    verdict = one.verdict(World.DEFINITION)
    if one.sif is None or verdict is None:
        return f"{one.row}: no SIF was built from its definition file: {trouble(one)}"
    tiers = ", ".join(f"{tier} {verdict.tier(tier)}" for tier in Tier)
    return f"{one.sif.path}: {one.sif.bytes / 1e9:.2f} GB; {tiers}; {compared(one)}"


def as_json(one: Record) -> dict[str, Any]:
    """``--format json``: docs/record.md says what each field means."""
    whole = record.as_json(one)
    names = ("version", "row", "key", "started", "finished", "cause", "sif", "tools", "host")
    verdict = next(iter(whole["verdicts"]), None)
    return {
        **{name: whole[name] for name in names},
        "definition": whole["definition"]["key"], "differences": whole["definition"]["differences"],
        "reason": trouble(one), "verdict": verdict and {**verdict, "world": World.SIF.value},
        "build_seconds": _seconds(one, Phase.DEFINITION),
        "probe_seconds": _seconds(one, Phase.PROBE_DEFINITION),
    }  # fmt: skip


def _seconds(one: Record, phase: Phase) -> float | None:
    seconds = one.seconds(phase)
    return None if seconds is None else round(seconds, 1)
