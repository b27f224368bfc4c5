"""What a person reads of an image that was probed by its labels, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stackwright.build.derived.prove import Proof
from stackwright.core.checks.check import listed
from stackwright.core.checks.differences import Differences, Moved, Touched
from stackwright.core.checks.judge import NOT_ASKED
from stackwright.core.errors import VerdictError
from stackwright.core.model.row import Tier

SHOWN = 100
"""Characters of an added instruction that a person is shown."""
OWNERS, NAMES, MOVES = 12, 3, 40
"""Owners of changed files, files of one owner, and distributions that a person is shown."""


def lines(proof: Proof) -> Iterator[str]:
    """Yield what a person reads."""
    image, found = proof.image, proof.differences
    yield f"{image.image}: {image.title}"
    yield f"  row known from {proof.known}"
    yield from (f"  added: {_short(line)}" for line in image.added)
    yield from _moved("distribution", found.python)
    yield from _moved("package", found.packages)
    yield from _files(found)
    yield from (f"  settings: {_short(line)}" for line in image.settings)
    yield "  " + ", ".join(f"{tier} {proof.verdict.tier(tier)}" for tier in Tier)
    failed = proof.verdict.failed
    if failed:
        yield f"  of the claims of {image.row}, {len(failed)} are not true of it:"
    for check in failed:
        yield f"  {check.id}: {check.why}"
        yield f"      {check.detail}"
    if asked := sum(check.detail.startswith(NOT_ASKED) for check in proof.verdict.checks):
        yield f"  {asked} more claims are not shown to be true: what they need has failed"


def _short(line: str) -> str:
    return line[:SHOWN] + ("…" if len(line) > SHOWN else "")


def _moved(what: str, found: Sequence[Moved]) -> Iterator[str]:
    yield from (f"  {what} {moved}" for moved in found[:MOVES])
    if len(found) > MOVES:
        yield f"  and {len(found) - MOVES} more of them"


def _files(found: Differences) -> Iterator[str]:
    if found.files is None:
        return
    total = sum(file.count for file in found.files)
    yield f"  proven files: {total} are other ones or gone" if total else "  proven files: all as they were"
    yield from (f"    {_owner(file)}" for file in found.files[:OWNERS])
    if len(found.files) > OWNERS:
        yield f"    and of {len(found.files) - OWNERS} more"


def _owner(touched: Touched) -> str:
    counts = ((len(touched.changed), "changed"), (len(touched.gone), "gone"))
    said = " and ".join(f"{count} {what}" for count, what in counts if count)
    return f"{touched.owner}: {said}: {listed((*touched.changed, *touched.gone), NAMES)}"


def document(proof: Proof) -> dict[str, Any]:
    """``--format json``."""
    image, found = proof.image, proof.differences
    return {
        "version": 1, "image": image.image, "id": image.id, "world": str(image.world), "title": image.title,
        "derived_from": {"row": image.row, "key": image.key}, "row_known_from": proof.known,
        "added": list(image.added), "settings": list(image.settings),
        "distributions": _versions(found.python), "packages": _versions(found.packages),
        "files": None if found.files is None else [
            {"owner": file.owner, "changed": list(file.changed), "gone": list(file.gone)}
            for file in found.files
        ],
        "checks": [
            {
                "id": check.id, "tier": str(check.tier), "outcome": str(check.outcome),
                "detail": check.detail, "why": check.why,
            }
            for check in proof.verdict.checks
        ],
        "untrue": [check.id for check in proof.verdict.failed],
    }  # fmt: skip


def _versions(found: Sequence[Moved]) -> list[dict[str, str | None]]:
    return [{"name": moved.name, "before": moved.before or None, "now": moved.now or None} for moved in found]


def refuse(proof: Proof) -> None:
    """Raise VerdictError where a check failed, or a proven file is another one."""
    failed = proof.verdict.failed
    place = f"{proof.image.image} (labels of {proof.image.row})"
    if failed:
        names = listed((check.id for check in failed), 5)
        raise VerdictError(f"{len(failed)} checks failed: {names}", place=place, hint="see the details above")
