"""``sif --from def``: rows built from definition files, proven, and compared with their images by facts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from stackwright import __version__
from stackwright.build.phases import SIGNED_BY
from stackwright.build.sif import convert
from stackwright.build.sif.from_definition import built
from stackwright.core.checks.compare import Difference, differences
from stackwright.core.errors import EngineError, StackwrightError, VerdictError
from stackwright.core.model.compression import DEFAULT, Compression
from stackwright.core.model.record import SifFile
from stackwright.core.model.row import Recipe, Tier, Verdict, World
from stackwright.core.model.site import Site
from stackwright.core.render.definition import render_definition, sif_labels
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker, Mount
from stackwright.engines.sif.sign import Signer
from stackwright.host.files import row_lock
from stackwright.host.project import Plan, Planned, Project, sources
from stackwright.host.runner import Completed, Runner
from stackwright.probe.digest import checks_digest
from stackwright.probe.outside.documents import Documents
from stackwright.probe.outside.read import of_sif, row_of
from stackwright.probe.run import agreement, gather, probe_image
from stackwright.records import definition_builds
from stackwright.records import files as record
from stackwright.records.definition_builds import Native

NO_GPU = "a SIF of a definition file is proven on the CPU; ./build.py run asks for a GPU"
FACTS = "sif-of-definition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """``docker`` is None where the host has an apptainer of its own and no engine."""

    apptainer: Apptainer
    docker: Docker | None
    runner: Runner
    site: Site
    say: Callable[[str], None]
    signer: Signer | None
    compression: Compression = DEFAULT


def find_means(
    site: Site,
    runner: Runner,
    say: Callable[[str], None],
    signer: Signer | None,
    *,
    compression: Compression = DEFAULT,
    project: str = "",
) -> Means:
    """EngineError where there is neither an apptainer nor an engine to run one in."""
    docker: Docker | None = None
    try:
        docker = engine.find(runner, project=project)
    except EngineError as error:
        say(f"no engine: {error.cause}; a native apptainer needs none")
    found = apptainers.find(runner, docker, mirror=site.mirror)
    return Means(
        apptainer=found, docker=docker, runner=runner, site=site, say=say, signer=signer,
        compression=compression,
    )  # fmt: skip


def work(project: Project, plan: Plan, means: Means) -> tuple[list[Native], list[StackwrightError]]:
    """Work on each row, even if another fails."""
    made: list[Native] = []
    errors: list[StackwrightError] = []
    for row in plan.rows:
        with row_lock(project.out / row.stack.id, means.say):
            project.note(row.recipe)
            one, error = _one(project, row, means)
            definition_builds.write(one, project.records)
        made.append(one)
        errors += [error] if error else []
    return made, errors


def _one(project: Project, row: Planned, means: Means) -> tuple[Native, StackwrightError | None]:
    recipe = render_definition(row.stack, sources(project))
    now = record.utc(datetime.now(UTC))
    one = Native(
        row=row.stack.id, key=row.recipe.key, definition=recipe.key, started=now, finished=now,
        tools=_tools(project, means), host=record.this_host(),
    )  # fmt: skip
    known = next(
        (old for old in definition_builds.newest(project.records).natives if old.row == one.row), None
    )
    try:
        if known and _still_good(project, known, one, means.compression):
            means.say(f"{one.row}: unchanged; compared with the facts of the image anew")
            one = _compared_anew(project, row, known)
        else:
            one = _made(project, row, recipe, means, one)
        error: StackwrightError | None = problem(one)
    except StackwrightError as stopped:
        error = stopped
    return replace(
        one, finished=record.utc(datetime.now(UTC)), reason=error.first_line if error else "",
        cause=error.known_cause.name if error and error.known_cause else "",
    ), error  # fmt: skip


def _tools(project: Project, means: Means) -> tuple[tuple[str, str], ...]:
    signed = ((SIGNED_BY, means.signer.fingerprint),) if means.signer else ()
    checks = ("checks", checks_digest(project.root))
    return (("stackwright", __version__), ("apptainer", means.apptainer.version), checks, *signed)


def _still_good(project: Project, known: Native, wanted: Native, compression: Compression) -> bool:
    """Whether the file that is there is what a build would make, proven by the checks of today."""
    if known.reason or known.sif is None or known.sif.compression != compression.name:
        return False
    had, asked = dict(known.tools), dict(wanted.tools)
    if any(had.get(name) != asked[name] for name in ("checks", SIGNED_BY) if name in asked):
        return False
    path = project.out.parent / known.sif.path
    same = (known.key, known.definition) == (wanted.key, wanted.definition)
    proven = (path.parent / "facts" / FACTS).is_dir()
    return same and proven and path.is_file() and path.stat().st_size == known.sif.bytes


def _compared_anew(project: Project, row: Planned, known: Native) -> Native:
    """The image may have been built, or probed, since then."""
    facts = project.folder(row.recipe) / "facts"
    one = replace(known, differences=_differences(facts / World.DOCKER, gather(facts / FACTS)))
    if known.sif and problem(one):
        path = Path(known.sif.path)
        bad = path.with_name(f"{row.stack.id}.def.failed.sif")
        (project.out.parent / path).replace(project.out.parent / bad)
        one = replace(one, sif=replace(known.sif, path=str(bad)))
    return one


def _made(project: Project, row: Planned, recipe: Recipe, means: Means, one: Native) -> Native:
    """Only a file that passed gets its name. One that did not is kept, to look into, and named so."""
    folder = project.folder(row.recipe)
    good, bad = (folder / f"{row.stack.id}.{name}.sif" for name in ("def", "def.failed"))
    means.say(f"{row.stack.id}: building {good} from its definition file")
    began = time.monotonic()
    with built(
        row.stack, recipe, good, apptainer=means.apptainer, runner=means.runner, docker=means.docker,
        site=means.site, compression=means.compression, ledger=project.room, say=means.say,
    ) as sif:  # fmt: skip
        bad.unlink(missing_ok=True)
        probing = time.monotonic()
        facts, verdict = _prove(project, row, sif, means)
        ended = time.monotonic()
        one = replace(
            one, build_seconds=round(probing - began, 1), probe_seconds=round(ended - probing, 1),
            verdict=verdict, differences=_differences(folder / "facts" / World.DOCKER, facts),
        )  # fmt: skip
        target, signer = (bad, None) if problem(one) else (good, means.signer)
        wanted = dict(sif_labels(row.stack, row.recipe))
        made = convert.finish(sif, target, apptainer=means.apptainer, wanted=wanted, signer=signer)
    sif_file = SifFile(
        path=str(target.relative_to(project.out.parent)), bytes=made.bytes, sha256=made.sha256,
        compression=means.compression.name,
    )  # fmt: skip
    return replace(one, sif=sif_file)


def _differences(of_image: Path, facts: Mapping[str, Any]) -> tuple[Difference, ...] | None:
    if not of_image.is_dir():
        return None
    return tuple(definition_builds.shortened(found) for found in differences(gather(of_image), facts))


def _prove(project: Project, row: Planned, sif: Path, means: Means) -> tuple[Mapping[str, Any], Verdict]:
    apptainer, facts = means.apptainer, project.folder(row.recipe) / "facts" / FACTS
    not_run = {Tier.GPU: NO_GPU}
    labels, scripts = convert.described(apptainer, sif)

    def execute(
        argv: Sequence[str], *, mounts: Sequence[Mount], timeout: float, user: str | None
    ) -> Completed:
        return convert.execute(apptainer, sif, argv, mounts=mounts, timeout=timeout)

    probed = probe_image(
        row.stack, world=World.SIF, execute=execute, probes=project.root / "probes", folder=facts,
        labels=labels, scripts=scripts, not_run=not_run, outside=partial(_outside, row, sif, means),
    )  # fmt: skip
    check = agreement(
        means.runner, row.stack, tests=project.root / "tests" / "images", facts=facts,
        verdict=probed.verdict, junit=facts.with_suffix(".xml"), not_run=not_run,
        witness=convert.witness(apptainer, sif),
    )  # fmt: skip
    return probed.facts, replace(probed.verdict, checks=(*probed.verdict.checks, check))


def _outside(row: Planned, sif: Path, means: Means) -> Documents:
    """Its files are read for keys and what a build leaves; what Apptainer's builder adds is on no list."""
    found = of_sif(
        sif, means.site, row_of(row, World.SIF), docker=means.docker, runner=means.runner, image=None
    )
    return replace(found, ledger={"not_read": "the ledger has no list of what a definition file makes"})


def problem(one: Native) -> VerdictError | None:
    """What is wrong with a SIF that was built: checks that failed, and differences without a reason."""
    failed = (
        [f"{check.tier}: {check.id}: {check.detail}" for check in one.verdict.failed] if one.verdict else []
    )
    unexplained = [f"not as in the image: {found}" for found in one.differences or () if not found.why]
    if not failed and not unexplained:
        return None
    counts = (("checks failed", failed), ("unexplained differences from the image", unexplained))
    told = ", ".join(f"{what}: {len(lines)}" for what, lines in counts if lines)
    return VerdictError(
        told, place=f"{one.row} (definition file)", details=(*failed, *unexplained),
        hint=f"the file is kept as {one.row}.def.failed.sif, its facts in facts/{FACTS}",
    )  # fmt: skip


def summary(one: Native) -> str:
    if one.sif is None or one.verdict is None:
        return f"{one.row}: no SIF was built from its definition file: {one.reason}"
    verdict = one.verdict
    tiers = ", ".join(f"{tier} {verdict.tier(tier)}" for tier in Tier)
    return f"{one.sif.path}: {one.sif.bytes / 1e9:.2f} GB; {tiers}; {one.compared}"


def document(made: Sequence[Native], errors: Sequence[StackwrightError]) -> dict[str, Any]:
    """The answer as JSON."""
    told = [{"exit_code": one.exit_code, "place": one.place, "cause": one.whole_cause} for one in errors]
    return {"version": 1, "definitions": [definition_builds.as_json(one) for one in made], "errors": told}
