"""What a run would do to a row, by its records. `plan` asks it, so nothing of an engine is imported here."""

from __future__ import annotations

from stackwright.core.model.record import Status
from stackwright.core.model.row import World
from stackwright.host.project import Planned, Project
from stackwright.records import files as record


def standing(project: Project, row: Planned, checks: str) -> str:
    """Return what a run would do, as far as the records know; the engine is not asked.

    ``checks`` is the digest of today's checks: a verdict of others is not one of these.
    """
    known = record.latest(project.records, row.stack.id, row.recipe.key)
    if known is None or known.image is None:
        return "build"
    if known.status is Status.COMPLETE and dict(known.tools).get("checks") != checks:
        return "probe again: the checks changed"
    if known.status is Status.COMPLETE:
        return "nothing: unchanged" if known.verdict(World.SIF) else "continue after the build"
    return f"continue: {known.status} in {known.phase}"
