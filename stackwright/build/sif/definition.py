"""The phases of a SIF that is built from its row's definition file: build it, compare it, give it its name.

Only a file that passed gets its name; what was under that name stays until then. A file that did not pass is
kept, to look into, and named so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from stackwright import __version__
from stackwright.build.job import FACTS, Job
from stackwright.build.sif import convert
from stackwright.build.sif.convert import SIGNED_BY, Made
from stackwright.build.sif.from_definition import Builder, Disk, built
from stackwright.core.checks.compare import Difference, differences
from stackwright.core.components.table import of
from stackwright.core.errors import VerdictError
from stackwright.core.model.record import Record, SifFile
from stackwright.core.model.row import Recipe, Stack, World
from stackwright.core.render.definition import application_files, render_definition, sif_labels
from stackwright.host.project import sources
from stackwright.host.shipped import called
from stackwright.probe.digest import checks_digest
from stackwright.probe.outside.documents import Documents
from stackwright.probe.outside.read import of_sif, row_of
from stackwright.probe.run import gather

NO_GPU = called("a SIF of a definition file is proven on the CPU; ./build.py run asks for a GPU")
SHOWN = 200
"""Letters of a value that differs: the symbols of a library are thousands."""


def recipe(job: Job) -> Recipe:
    return render_definition(job.row.stack, sources(job.project))


def tools(job: Job) -> tuple[tuple[str, str], ...]:
    """Return what a record says about what builds and judges."""
    apptainer = ("apptainer", job.apptainer().version)
    return (("stackwright", __version__), apptainer, ("checks", checks_digest(job.project.root)))


# -- build -----------------------------------------------------------------------------------------


def build(job: Job, current: Record) -> Record:
    """Build the SIF. It has a name of its own until it is proven, so that a killed run keeps it."""
    good, bad, unproven = (_named(job, name) for name in ("def", "def.failed", "def.unproven"))
    job.display.say(f"{job.id}: building {good} from its definition file")
    builder = Builder(apptainer=job.apptainer(), runner=job.runner, docker=job.engine, site=job.site)
    disk = Disk(ledger=job.project.room, say=job.display.say)
    with built(job.row.stack, recipe(job), good, builder, disk, compression=job.compression) as sif:
        bad.unlink(missing_ok=True)
        made = convert.finish(sif, unproven, apptainer=job.apptainer(), wanted=_labels(job))
    return replace(current, sif=_file(job, unproven, made), verdicts=())


def is_built(job: Job, current: Record) -> bool:
    """Return whether the file that is there is what a build would make."""
    sif = current.sif
    if sif is None or current.definition is None or current.definition.key != recipe(job).key:
        return False
    path = job.project.out.parent / sif.path
    if path == _named(job, "def.failed") or sif.compression != job.compression.name:
        return False
    if job.signer and path == _named(job, "def"):
        signed_by = dict(current.tools).get(SIGNED_BY)
        if signed_by != job.signer.fingerprint:
            return False
    return path.is_file() and path.stat().st_size == sif.bytes


def _named(job: Job, name: str) -> Path:
    return job.folder / f"{job.id}.{name}.sif"


def _labels(job: Job) -> dict[str, str]:
    return dict(sif_labels(job.row.stack, job.row.recipe))


def _file(job: Job, path: Path, made: Made) -> SifFile:
    return SifFile(
        path=str(path.relative_to(job.project.out.parent)), bytes=made.bytes, sha256=made.sha256,
        compression=job.compression.name,
    )  # fmt: skip


# -- probe -----------------------------------------------------------------------------------------


def outside(job: Job, sif: Path) -> Documents:
    """Return what is in it, and what is not as in the row's image, where that was proven here."""
    row = row_of(job.row, World.DEFINITION)
    row = replace(row, files={**row.files, **application_files(job.row.stack, recipe(job))})
    of_image = job.facts(World.DOCKER)
    image = gather(of_image).get("ledger") if of_image.is_dir() else None
    read = of_sif(sif, job.site, row, docker=job.engine, runner=job.runner, image=image)
    return replace(read, ledger=without_made_anew(job.row.stack, read.ledger))


def without_made_anew(stack: Stack, ledger: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out of what differs from the image what each build makes anew.

    These are the wheels that it compiles, and the byte code of the distribution's Python, which has the time
    of its source. The distribution's packages have another group and fewer folders where an ordinary user
    unpacks them; dpkg's own sums judge their files.
    """
    if "differs" not in ledger:
        return ledger
    packages = {who for who, _ in ledger["parts"] if who.startswith("package ")}
    locked = {canonicalize_name(package.name) for package in stack.lock.packages}
    layers = {canonicalize_name(layer.package) for layer in of(stack.communication)}
    compiled = {canonicalize_name(source.name) for source in stack.compiled} | (layers - locked)

    def is_anew(who: str) -> bool:
        kind, _, name = who.partition(" ")
        if kind in ("package", "byte-code"):
            return f"package {name}" in packages
        return kind == "wheel" and canonicalize_name(name.rpartition("-")[0]) in compiled

    return {**ledger, "differs": [who for who in ledger["differs"] if not is_anew(who)]}


def is_proven(job: Job, current: Record) -> bool:
    """Return whether it passed, and its facts are there to be compared."""
    verdict = current.verdict(World.DEFINITION)
    return verdict is not None and not verdict.failed and job.facts(World.DEFINITION).is_dir()


# -- compare ---------------------------------------------------------------------------------------


def compare(job: Job, current: Record) -> Record:
    """Compare it with today's image by their facts, and give the file the name that it deserves.

    Done in every run: the image may have been built, or probed, since the last one.
    """
    assert current.sif is not None, "the phases before this one record the file"
    assert current.definition is not None, "a run on a definition file begins with it"
    if job.project.out.parent / current.sif.path == _named(job, "def"):
        job.display.say(f"{job.id}: unchanged; compared with the facts of the image anew")
    found = replace(current.definition, differences=_differences(job))
    return _renamed(job, replace(current, definition=found), current.sif)


def _differences(job: Job) -> tuple[Difference, ...] | None:
    of_image = job.facts(World.DOCKER)
    if not of_image.is_dir():
        return None
    found = differences(gather(of_image), gather(job.facts(World.DEFINITION)))
    return tuple(_shortened(difference) for difference in found)


def _renamed(job: Job, current: Record, sif: SifFile) -> Record:
    path = job.project.out.parent / sif.path
    target = _named(job, "def.failed" if problem(current) else "def")
    if path == target:
        return current
    if problem(current) or job.signer is None:
        path.replace(target)
        name = str(target.relative_to(job.project.out.parent))
        return replace(current, sif=replace(sif, path=name))
    made = convert.finish(path, target, apptainer=job.apptainer(), wanted=_labels(job), signer=job.signer)
    signed = (*current.tools, (SIGNED_BY, job.signer.fingerprint))
    return replace(current, sif=_file(job, target, made), tools=signed)


def problem(current: Record) -> VerdictError | None:
    """Return what is wrong with a SIF that was built: checks that failed, and differences without a
    reason."""
    verdict = current.verdict(World.DEFINITION)
    failed = [f"{check.tier}: {check.id}: {check.detail}" for check in verdict.failed] if verdict else []
    found = current.definition.unexplained if current.definition else ()
    unexplained = [f"not as in the image: {difference}" for difference in found]
    if not failed and not unexplained:
        return None
    counts = (("checks failed", failed), ("unexplained differences from the image", unexplained))
    cause = ", ".join(f"{what}: {len(lines)}" for what, lines in counts if lines)
    return VerdictError(
        cause, place=f"{current.row} (definition file)", details=(*failed, *unexplained),
        hint=f"the file is kept as {current.row}.def.failed.sif, its facts in facts/{FACTS}",
    )  # fmt: skip


def _shortened(found: Difference) -> Difference:
    """Return the same with values that a person can read."""
    return replace(found, one=_shown(found.one), other=_shown(found.other))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
