"""``sif --from def``: rows built from definition files, proven, and compared with their images by facts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stackwright import convert, host
from stackwright.build import row_lock
from stackwright.compare import Difference, differences
from stackwright.convert import Made
from stackwright.defbuild import build_definition
from stackwright.definition import render_definition
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker, Mount
from stackwright.errors import EngineError, StackwrightError, VerdictError
from stackwright.host import Site
from stackwright.model import Tier, Verdict
from stackwright.probe import gather, probe_image
from stackwright.project import Plan, Planned, Project, sources
from stackwright.runner import Completed, Runner
from stackwright.sign import Signer

NO_GPU = "a SIF of a definition file is proven on the CPU; ./build.py run asks for a GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """``docker`` is None where the host has an apptainer of its own and no engine."""

    apptainer: Apptainer
    docker: Docker | None
    runner: Runner
    site: Site
    say: Callable[[str], None]
    signer: Signer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """``differences`` from the facts of the row's Docker image; None where those are not there."""

    row: str
    path: Path
    made: Made
    verdict: Verdict
    differences: tuple[Difference, ...] | None


def _find_means(runner: Runner, say: Callable[[str], None], signer: Signer | None) -> Means:
    """EngineError where there is neither an apptainer nor an engine to run one in."""
    site = host.site(runner)
    docker: Docker | None = None
    try:
        docker = engine.find(runner)
    except EngineError as error:
        say(f"no engine: {error.cause}; a native apptainer needs none")
    found = apptainers.find(runner, docker, mirror=site.mirror)
    return Means(apptainer=found, docker=docker, runner=runner, site=site, say=say, signer=signer)


def work(
    project: Project, plan: Plan, *, runner: Runner, say: Callable[[str], None], signer: Signer | None
) -> tuple[list[Native], list[StackwrightError]]:
    """Each row to its end, whatever happens to another. EngineError at once where nothing can build them."""
    means = _find_means(runner, say, signer)
    made: list[Native] = []
    errors: list[StackwrightError] = []
    for row in plan.rows:
        try:
            made.append(_one(project, row, means))
        except StackwrightError as error:
            errors.append(error)
    return made, errors + [wrong for one in made if (wrong := problem(one))]


def _one(project: Project, row: Planned, means: Means) -> Native:
    folder = project.folder(row.recipe)
    target = folder / f"{row.stack.id}.def.sif"
    with row_lock(project.out / row.stack.id, means.say):
        means.say(f"{row.stack.id}: building {target} from its definition file")
        made = build_definition(
            row.stack, render_definition(row.stack, sources(project)), target,
            apptainer=means.apptainer, runner=means.runner, docker=means.docker, site=means.site,
            signer=means.signer,
        )  # fmt: skip
        facts, verdict = _prove(project, row, target, means.apptainer, folder)
    of_image = folder / "facts" / "docker"
    found = differences(gather(of_image), facts) if of_image.is_dir() else None
    return Native(row=row.stack.id, path=target, made=made, verdict=verdict, differences=found)


def _prove(
    project: Project, row: Planned, sif: Path, apptainer: Apptainer, folder: Path
) -> tuple[Mapping[str, Any], Verdict]:
    def execute(
        argv: Sequence[str], *, mounts: Sequence[Mount], timeout: float, user: str | None
    ) -> Completed:
        return convert.execute(apptainer, sif, argv, mounts=mounts, timeout=timeout)

    probed = probe_image(
        row.stack, world="sif", execute=execute, probes=project.root / "probes",
        folder=folder / "facts" / "sif-of-definition", labels=convert.labels(apptainer, sif),
        not_run={Tier.GPU: NO_GPU},
    )  # fmt: skip
    return probed.facts, probed.verdict


def problem(one: Native) -> VerdictError | None:
    """What is wrong with a SIF that was built: checks that failed, and differences without a reason."""
    failed = [f"{check.tier}: {check.id}: {check.detail}" for check in one.verdict.failed]
    failed += [f"not as in the image: {found}" for found in one.differences or () if not found.why]
    if not failed:
        return None
    lines = "".join(f"\n  {line}" for line in failed)
    hint = f"the facts lie in {one.path.parent / 'facts'}"
    return VerdictError(
        f"{len(failed)} checks failed{lines}", place=f"{one.row} ({one.path.name})", hint=hint
    )


def summary(one: Native) -> str:
    tiers = ", ".join(f"{tier} {one.verdict.tier(tier)}" for tier in Tier)
    compared = (
        "not compared: the image's facts are not there" if one.differences is None
        else f"{len(one.differences)} differences from the image"
    )  # fmt: skip
    return f"{one.path}: {one.made.bytes / 1e9:.2f} GB; {tiers}; {compared}"


def report(made: Sequence[Native], errors: Sequence[StackwrightError], form: str) -> str:
    """A line for each file, or one JSON document."""
    if form == "json":
        return json.dumps(document(made, errors), indent=2, sort_keys=True)
    return "\n".join(summary(one) for one in made)


def document(made: Sequence[Native], errors: Sequence[StackwrightError]) -> dict[str, Any]:
    sifs = [
        {
            "row": one.row, "path": str(one.path), "bytes": one.made.bytes, "sha256": one.made.sha256,
            "tiers": {str(tier): str(one.verdict.tier(tier)) for tier in Tier},
            "differences": None if one.differences is None else [asdict(each) for each in one.differences],
        }
        for one in made
    ]  # fmt: skip
    told = [{"exit_code": one.exit_code, "place": one.place, "cause": one.cause} for one in errors]
    return {"version": 1, "sifs": sifs, "errors": told}
