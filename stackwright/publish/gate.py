"""Whether a row may have a tag. Pure; no option of the command line reaches the first two functions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stackwright.core.checks import origin
from stackwright.core.checks.observed import dig
from stackwright.core.components.table import MODULES, TOOLS
from stackwright.core.model.labels import STACK
from stackwright.core.model.record import Record, flatten
from stackwright.core.model.row import IMAGE_WORLDS, Outcome, Tier, World

DOCS = ("what may be published: docs/publish.md#what-may-be-published",)
"""Below a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yesterday:
    """What the moving tag leads to now.

    ``row`` is what the image itself declares, under the names of ``Record.declared``. ``passed``: its tiers
    by world, None where no record of it is found. ``sif``: whether a SIF of it is there as well.
    """

    digest: str
    row: Mapping[str, str]
    passed: Mapping[str, frozenset[Tier]] | None
    sif: bool


def unproven(record: Record | None, required: tuple[Tier, ...], checks: str, *, sif: bool) -> tuple[str, ...]:
    """Return why the row may not be published under any options; empty where it may.

    ``checks``: the digest of today's probes and checks.
    """
    if record is None or record.image is None:
        return ("it was not built as it is today",)
    if sif and record.sif is None:
        return ("no .sif of it was made",)
    if dict(record.tools).get("checks") != checks:
        return ("it was judged by other checks than today's",)
    worlds = IMAGE_WORLDS if sif else (World.DOCKER,)
    return tuple(reason for world in worlds for reason in _not_passed(record, world, required))


def against(definition: Record | None) -> tuple[str, ...]:
    """Return what the SIF of the definition file with the image's key says against the row.

    It is proven from the same stack: what fails in it, or differs without a reason, is wrong in one of them.
    Tiers that did not run, such as that of a GPU, say nothing.
    """
    if definition is None or definition.definition is None:
        return ()
    found = definition.definition.unexplained
    differing = f"{len(found)} unexplained differences between the image and the SIF of its definition file"
    failed = _not_passed(definition, World.DEFINITION, ()) if definition.verdicts else ()
    return (*failed, *((differing,) if found else ()))


def less(record: Record, before: Yesterday, *, sif: bool) -> tuple[str, ...]:
    """Return what the published row has and the new one lacks."""
    return tuple(_less(record, before, sif))


def passed(record: Record) -> dict[str, frozenset[Tier]]:
    return {
        verdict.world: frozenset(tier for tier in Tier if verdict.tier(tier) is Outcome.PASSED)
        for verdict in record.verdicts
    }


def _not_passed(record: Record, world: str, required: tuple[Tier, ...]) -> Iterator[str]:
    verdict = record.verdict(world)
    if verdict is None:
        yield f"it was not probed in {world}"
        return
    for tier in required:
        outcome = verdict.tier(tier)
        if outcome is not Outcome.PASSED:
            yield f"the tier {tier} is {outcome} in {world}"
    others = {check.tier for check in verdict.failed} - set(required)
    yield from (f"the tier {tier} failed in {world}" for tier in sorted(others))


def _less(record: Record, before: Yesterday, sif: bool) -> Iterator[str]:
    today = dict(record.declared)
    tools = (f"tools.{tool.name}.version" for tool in TOOLS)
    for name in (*(module.name for module in MODULES), *tools):
        if before.row.get(name) and not today.get(name):
            yield f"{name} {before.row[name]}"
    gone = set(before.row.get("gpu_arch", "").split()) - set(today.get("gpu_arch", "").split())
    yield from (f"GPU architecture {arch}" for arch in sorted(gone))
    now = passed(record)
    for world, tiers in sorted((before.passed or {}).items()):
        if world == World.DOCKER or sif:
            lost = tiers - now.get(world, frozenset())
            yield from (f"the tier {tier} passed in {world}" for tier in Tier if tier in lost)
    if before.sif and not sif:
        yield "a .sif"


def own_labels(described: object) -> dict[str, str]:
    """Return the labels of an image's configuration; none where it was built FROM a row's image.

    Such an image inherits them. It is another user's, and says nothing about what was published for the row.
    """
    history, labels = dig(described, "history"), dig(described, "config", "Labels")
    lines = [str(dig(line, "created_by") or "") for line in history] if isinstance(history, list) else []
    return labels if isinstance(labels, dict) and not origin.is_derived(lines) else {}


def declared(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the row that an image's label holds; empty where Stackwright did not build the image."""
    try:
        document = json.loads(labels.get(STACK) or "{}")
    except ValueError:
        return {}
    return dict(flatten(document)) if isinstance(document, Mapping) else {}
