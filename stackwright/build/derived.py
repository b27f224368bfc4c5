"""Probes an image that was built FROM a row's image: it inherits the labels, and is not the row's image.

Nothing of it is recorded among the rows; the facts go to ``out/derived``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from stackwright.build.display import Display
from stackwright.build.job import Job
from stackwright.build.phases import PHASES
from stackwright.core.checks import origin
from stackwright.core.credentials import redact
from stackwright.core.errors import EngineError, UsageError, VerdictError
from stackwright.core.model.labels import KEY, ROW
from stackwright.core.model.record import Phase, Record
from stackwright.core.model.row import Tier, Verdict, World
from stackwright.core.model.site import Site
from stackwright.engines import apptainer
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned, Project
from stackwright.host.runner import Runner
from stackwright.records import files as record

SHOWN = 100
"""Characters of an added instruction that a person is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """``row`` and ``key`` are of the image that it was built FROM, ``added`` the instructions since then."""

    image: str
    id: str
    row: str
    key: str
    added: tuple[str, ...]
    verdict: Verdict | None = None


def examine(docker: Docker, image: str) -> Derived:
    """Tell what an image was built from. UsageError where that is no row's image, or it is one itself."""
    found = engine.inspect(docker, image)
    if found is None:
        raise EngineError("the engine has no such image", place=image, hint="docker pull, or docker load")
    labels: Mapping[str, str] = found["Config"].get("Labels") or {}
    history = [layer.created_by for layer in engine.layers(docker, image)]
    row, key = labels.get(ROW, ""), labels.get(KEY, "")
    if not (row and key and origin.is_of_row(history)):
        cause = (
            f"its labels name the row {row!r}, and its history does not" if row else "it has no row's labels"
        )
        raise UsageError(cause, place=image, hint="--image is for images that are built FROM a row's image")
    added = tuple(redact(line) for line in origin.added(history))
    if not added:
        hint = f"./build.py probe {row}"
        raise UsageError(f"it is the image of {row} {key[:12]} itself", place=image, hint=hint)
    return Derived(image=image, id=found["Id"], row=row, key=key, added=added)


def probe(
    project: Project, rows: Sequence[Planned], image: str, *, site: Site, runner: Runner, display: Display
) -> Derived:
    """Prove the image by the checks of the row that it was built from."""
    docker = engine.find(runner, project=project.id)
    derived = examine(docker, image)
    row = parent(rows, derived)
    own = replace(project, out=project.out / "derived" / derived.id.removeprefix("sha256:")[:12])
    job = Job(
        project=own, row=row, engine=docker, site=site, runner=runner, display=display, image=derived.id,
        apptainer=lambda: apptainer.find(runner, docker, mirror=site.mirror),
    )  # fmt: skip
    judged = PHASES[Phase.PROBE_DOCKER].do(job, _record(derived, row))
    return replace(derived, verdict=judged.verdict(World.DOCKER))


def parent(rows: Sequence[Planned], derived: Derived) -> Planned:
    """Return the row as it was when the image was built from it: other versions would be other checks."""
    row = next((one for one in rows if one.stack.id == derived.row), None)
    if row is None or row.recipe.key != derived.key:
        now = f"that row is now {row.recipe.key[:12]}" if row else "that row is not selected, or cannot work"
        cause = f"derived from {derived.row} {derived.key[:12]}, and {now}"
        raise UsageError(cause, place=derived.image, hint="probe it with the matrix and locks of that image")
    return row


def _record(derived: Derived, row: Planned) -> Record:
    """Return what the phase works on. It is not written, and does not have the row's name."""
    return Record(
        row=f"derived-{derived.id.removeprefix('sha256:')[:12]}", key=derived.key, lock=row.stack.lock.sha256,
        started=record.utc(datetime.now(UTC)), host=record.this_host(),
    )  # fmt: skip


def lines(derived: Derived) -> tuple[str, ...]:
    """Return what a person reads."""
    head = f"{derived.image}: derived from {derived.row} {derived.key[:12]}"
    added = (f"  added: {line[:SHOWN]}{'…' if len(line) > SHOWN else ''}" for line in derived.added)
    verdict = derived.verdict
    if verdict is None:
        return (head, *added)
    tiers = ", ".join(f"{tier} {verdict.tier(tier)}" for tier in Tier)
    failed = (f"  {check.id}: {check.detail}" for check in verdict.failed)
    return (head, *added, f"  {tiers}", *failed)


def document(derived: Derived) -> dict[str, Any]:
    """``--format json``."""
    checks = derived.verdict.checks if derived.verdict else ()
    return {
        "version": 1, "image": derived.image, "id": derived.id, "added": list(derived.added),
        "derived_from": {"row": derived.row, "key": derived.key},
        "checks": [
            {"id": one.id, "tier": str(one.tier), "outcome": str(one.outcome), "detail": one.detail}
            for one in checks
        ],
    }  # fmt: skip


def refuse(derived: Derived) -> None:
    """Raise VerdictError where a check failed."""
    failed = derived.verdict.failed if derived.verdict else ()
    if failed:
        names = ", ".join(check.id for check in failed[:5])
        cause = f"{len(failed)} checks failed: {names}"
        raise VerdictError(
            cause, place=f"{derived.image} (derived from {derived.row})", hint="see the details above"
        )
