"""The phases of a row, as a table: how each is done, and how to see that it is done already."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from stackwright.build.bundle import given
from stackwright.build.contents import write_sbom
from stackwright.build.gpu_test import GPU_BUILD, try_on_gpu, wants_gpu
from stackwright.build.job import Job
from stackwright.build.sif import convert, definition
from stackwright.build.sif.convert import SIGNED_BY
from stackwright.build.solve import Built, Inputs, build, of_site
from stackwright.core.checks.observed import found
from stackwright.core.components.table import installed
from stackwright.core.errors import DiskError, VerdictError
from stackwright.core.model.record import Component, Image, Layer, Phase, Record, SifFile, Step
from stackwright.core.model.row import Tier, Verdict, World
from stackwright.core.render import layers
from stackwright.core.resolve.bases import PROVIDERS, Images
from stackwright.engines import docker as engine
from stackwright.engines import emulation, stage_cache
from stackwright.engines.bases.table import ENSURE
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.buildah.confined import require_start
from stackwright.engines.buildkit import builders
from stackwright.engines.buildkit.progress import short
from stackwright.engines.docker import Mount
from stackwright.engines.gpu import GpuAccess, NoGpu, look_for_gpu
from stackwright.host.project import Project, sources
from stackwright.host.runner import Completed
from stackwright.host.site import settings
from stackwright.probe.outside.documents import Documents
from stackwright.probe.outside.read import of_image, of_sif, row_of
from stackwright.probe.run import Probed, RunFiles, Subject, Witness, agreement, gather, probe_image
from stackwright.records import files as record
from stackwright.records.report.links import SBOM

BUILD_NEEDS = 25 * 10**9
"""Bytes that a first build takes at its peak: toolchain, wheels and their cache, layers (measured: 22 GB)."""

SMALL_COMPONENT = 20 * 10**6
"""Bytes below which a component is not worth a line of its own on the page."""

SHARED_MEMORY = 2**30
"""Bytes of /dev/shm: ranks of one node exchange their data there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """``recorded`` is as much of ``done`` as the record and the shared files can say: no engine is asked.

    ``problem`` is what the phase found wrong: it is recorded before it ends the run.
    """

    do: Callable[[Job, Record], Record]
    done: Callable[[Job, Record], bool]
    recorded: Callable[[Project, Record], bool]
    problem: Callable[[Record], VerdictError | None] = lambda current: None


# -- base and build --------------------------------------------------------------------------------


def _base(job: Job, current: Record) -> Record:
    require_disk(job)
    ensure_base(job)
    return current


def require_disk(job: Job) -> None:
    """Raise DiskError where the engine has too little for a first build of the row."""
    free = settings.free_disk(Path(job.docker.root))
    if free < BUILD_NEEDS:
        raise DiskError(
            f"a build needs {BUILD_NEEDS / 1e9:.0f} GB, and {free / 1e9:.1f} GB are free for images",
            place=job.id,
            hint="./build.py clean shows what can go",
        )


def _base_done(job: Job, current: Record) -> bool:
    stack = job.row.stack
    wanted = PROVIDERS[stack.provider].wanted(stack)
    return _build_done(job, current) or all(engine.image_exists(job.docker, name) for _, name in wanted)


def ensure_base(job: Job) -> Images:
    """Bring the images that the row's build starts from into the engine, from the cache, or make them."""
    if job.bundle:
        return given.images(job, job.bundle)
    stack = job.row.stack
    emulation.how(stack.platform)

    def bring(name: str) -> None:
        if job.cache and stage_cache.has(job.docker, job.cache.base(name)):
            stage_cache.fetch(job.docker, job.cache.base(name), name)

    means = BaseTools(docker=job.docker, runner=job.runner, site=job.site, say=job.display.say, bring=bring)
    return ENSURE[stack.provider](stack, means)


def _build(job: Job, current: Record) -> Record:
    images = ensure_base(job)
    with (
        tempfile.TemporaryDirectory(prefix="stackwright-site-") as private,
        _inputs(job, images, Path(private)) as inputs,
    ):
        built = build(
            job.row.recipe, job.folder, inputs, docker=job.docker, runner=job.runner,
            on_event=lambda event: job.display.event(job.id, event),
        )  # fmt: skip
    current = _with_image(job, replace(current, steps=recorded_steps(built)), images)
    if job.bundle:
        current = given.noted(job, job.bundle, current)
    return _tried_on_gpu(job, current) if wants_gpu(job) else current


@contextlib.contextmanager
def _inputs(job: Job, images: Images, private: Path) -> Iterator[Inputs]:
    if job.bundle:
        with given.inputs(job, job.bundle, images, private) as inputs:
            yield inputs
        return
    chosen = builders.chosen(job.site, images, private, row=job.id, docker=job.docker, runner=job.runner)
    options = (*emulation.words(job.row.stack.platform), *chosen, *stage_cache.options(job.stages))
    yield of_site(job.site, images, private, job.row.stack.os, options=options)


def _tried_on_gpu(job: Job, current: Record) -> Record:
    how = try_on_gpu(
        job.row.stack, job.reference, project=job.project.root, sources=sources(job.project),
        docker=job.docker, runner=job.runner,
    )  # fmt: skip
    return replace(current, tools=(*current.tools, (GPU_BUILD, how)))


def _build_done(job: Job, current: Record) -> bool:
    tools = dict(current.tools)
    of_another = job.bundle and tools.get(given.BUNDLE) != job.bundle.digest
    if of_another or (wants_gpu(job) and GPU_BUILD not in tools):
        return False
    found = engine.inspect(job.docker, job.reference)
    return current.image is not None and found is not None and found["Id"] == current.image.id


def _with_image(job: Job, current: Record, images: Images) -> Record:
    found = engine.inspect(job.docker, job.reference)
    assert found is not None, "a build that ended well left no image"
    base = engine.with_digest(job.docker, images[0][1])
    history = engine.layers(job.docker, job.reference)
    image = Image(reference=job.reference, id=found["Id"], bytes=engine.size(history), base=base)
    purposes = layers.of_history(
        job.row.recipe, installed(job.row.stack), tuple(layer.created_by for layer in history)
    )
    digests = layers.digests(found["RootFS"]["Layers"], ((line.created_by, line.size) for line in history))
    recorded = tuple(
        Layer(created_by=layer.created_by[:120], what=purpose, bytes=layer.size, digest=digest)
        for layer, purpose, digest in zip(history, purposes, digests, strict=True)
        if layer.size
    )
    return replace(current, image=image, layers=recorded)


def recorded_steps(built: Built) -> tuple[Step, ...]:
    return tuple(
        Step(
            name=short(step.name), seconds=round(step.seconds, 3), cached=step.cached, digest=step.digest,
            identity=step.identity, started=_moment(step.started) if step.started else None,
        )
        for step in built.steps
        if step.completed
    )  # fmt: skip


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- probes ----------------------------------------------------------------------------------------


def _probe_docker(job: Job, current: Record) -> Record:
    require_start(job.docker, job.reference)
    image = engine.inspect(job.docker, job.reference)
    access = _gpu(job)
    gpu = access if isinstance(access, GpuAccess) else None
    not_run = {Tier.GPU: access.reason} if isinstance(access, NoGpu) else {}

    def execute(
        argv: Sequence[str], *, mounts: Sequence[Mount], timeout: float, user: str | None,
        read_only: bool = False,
    ) -> Completed:  # fmt: skip
        container = engine.Job(
            image=job.reference, entrypoint=tuple(argv[:1]), argv=tuple(argv[1:]), mounts=tuple(mounts),
            user=user, network=False, shm=SHARED_MEMORY, gpu=gpu, read_only=read_only,
        )  # fmt: skip
        return engine.run(job.docker, container, timeout=timeout)

    subject = Subject(
        world=World.DOCKER, execute=execute, image=image,
        history=[layer.created_by for layer in engine.layers(job.docker, job.reference)],
        outside=job.outside
        or partial(of_image, job.docker, job.reference, job.site, row_of(job.row, World.DOCKER)),
    )  # fmt: skip
    probed = probe_image(
        job.row.stack, subject, probes=job.project.root / "probes", folder=job.facts(World.DOCKER),
        not_run=not_run, gpus=1 if gpu else 0, watch=partial(job.display.watch, job.id),
    )  # fmt: skip
    idle = engine.Job(image=job.reference, entrypoint=("sleep",), argv=("infinity",), network=False)
    with engine.started(job.docker, idle) as container:
        witness = Witness(words=("--container", container), environment={"DOCKER_HOST": job.docker.host})
        return _judged(job, current, probed, world=World.DOCKER, not_run=not_run, witness=witness)


def _gpu(job: Job) -> GpuAccess | NoGpu:
    with engine.connected(job.docker) as client:
        return look_for_gpu(client)


def _probe_sif(job: Job, current: Record) -> Record:
    outside = partial(
        of_sif, _sif_path(job, current), job.site, row_of(job.row, World.SIF), docker=job.docker,
        runner=job.runner, image=gather(job.facts(World.DOCKER)).get("ledger"), made_of=job.reference,
    )  # fmt: skip
    return probe_file(job, current, World.SIF, outside, _gpu(job))


def _probe_definition(job: Job, current: Record) -> Record:
    outside = partial(definition.outside, job, _sif_path(job, current))
    return probe_file(job, current, World.DEFINITION, outside, NoGpu(reason=definition.NO_GPU))


def _sif_path(job: Job, current: Record) -> Path:
    assert current.sif is not None, "the phase before this one records the file"
    return job.project.out.parent / current.sif.path


def probe_file(
    job: Job, current: Record, world: World, outside: Callable[[], Documents], access: GpuAccess | NoGpu
) -> Record:
    """By the checks of a SIF, whatever it was made of; the verdict is recorded under ``world``."""
    apptainer, sif = job.apptainer(), _sif_path(job, current)
    labels, scripts = convert.described(apptainer, sif)
    gpu = access if isinstance(access, GpuAccess) else None
    not_run = {Tier.GPU: access.reason} if isinstance(access, NoGpu) else {}

    def execute(
        argv: Sequence[str], *, mounts: Sequence[Mount], timeout: float, user: str | None,
        read_only: bool = False,
    ) -> Completed:  # fmt: skip
        return convert.execute(apptainer, sif, argv, mounts=mounts, timeout=timeout, gpu=gpu, user=user)

    subject = Subject(world=World.SIF, execute=execute, labels=labels, scripts=scripts, outside=outside)
    probed = probe_image(
        job.row.stack, subject, probes=job.project.root / "probes", folder=job.facts(world),
        not_run=not_run, gpus=1 if gpu else 0, watch=partial(job.display.watch, job.id),
    )  # fmt: skip
    witness = convert.witness(apptainer, sif)
    return _judged(job, current, probed, world=world, not_run=not_run, witness=witness)


def _judged(
    job: Job,
    current: Record,
    probed: Probed,
    *,
    world: World,
    not_run: Mapping[Tier, str],
    witness: Witness,
) -> Record:
    files = RunFiles(
        tests=job.project.root / "tests" / "images", facts=job.facts(world),
        junit=record.path_of(current, job.project.records).with_suffix(f".{world}.xml"),
    )  # fmt: skip
    check = agreement(
        job.runner, job.row.stack, files, verdict=probed.verdict, not_run=not_run, witness=witness
    )
    judged = Verdict(world=world, checks=(*probed.verdict.checks, check))
    verdict = judged.emulated(emulation.how(job.row.stack.platform))
    current = replace(
        record.judged(current, verdict), found=found(job.row.stack, probed.facts) or current.found
    )
    if world is World.DOCKER and not job.image:
        problem = write_sbom(job.folder / SBOM, current, probed.facts, dict(job.row.recipe.files))
        if problem and not verdict.failed:
            job.display.say(f"{job.id}: no SBOM was written: {problem}")
    return replace(current, components=_components(probed.facts) or current.components)


def _components(facts: Mapping[str, Any]) -> tuple[Component, ...]:
    """Where the bytes are, largest first; what is too small to matter goes by its folder's name."""
    totals: dict[str, int] = {}
    for name, size in facts.get("files", {}).get("sizes", {}).items():
        shown = name if size >= SMALL_COMPONENT else f"{name.split('/')[0] or '/'} (small)"
        totals[shown] = totals.get(shown, 0) + size
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return tuple(Component(name=name, bytes=size) for name, size in ordered if size)


def _proven(world: World, current: Record) -> bool:
    """Return whether all checks of this world are known, by today's probes, and none failed."""
    verdict = current.verdict(world)
    return verdict is not None and not verdict.failed


def _failed(world: World, current: Record) -> VerdictError | None:
    verdict = current.verdict(world)
    if verdict is None or not verdict.failed:
        return None
    return VerdictError(
        f"{len(verdict.failed)} checks failed",
        place=f"{current.row} ({world})",
        hint="./build.py report writes a page with every check, what it is for and what was seen",
        details=tuple(f"{check.tier}: {check.id}: {check.detail}" for check in verdict.failed),
    )


# -- sif -------------------------------------------------------------------------------------------


def _sif(job: Job, current: Record) -> Record:
    target = job.folder / f"{job.id}.sif"
    made = convert.to_sif(
        job.reference, target, docker=job.docker, runner=job.runner, apptainer=job.apptainer(),
        image_bytes=current.image.bytes if current.image else 0,
        conversion=convert.Conversion(
            compression=job.compression, signer=job.signer, ledger=job.project.room,
            say=lambda text: job.display.say(f"[{job.id}] {text}"),
        ),
    )  # fmt: skip
    path = target.relative_to(job.project.out.parent)
    tools = {name: text for name, text in current.tools if name != SIGNED_BY}
    if job.signer:
        tools[SIGNED_BY] = job.signer.fingerprint
    made_file = SifFile(
        path=str(path), bytes=made.bytes, sha256=made.sha256, compression=job.compression.name
    )
    proven = tuple(verdict for verdict in current.verdicts if verdict.world is not World.SIF)
    return replace(current, sif=made_file, tools=tuple(tools.items()), verdicts=proven)


def _sif_done(job: Job, current: Record) -> bool:
    signed_by = dict(current.tools).get(SIGNED_BY)
    if job.signer and signed_by != job.signer.fingerprint:
        return False
    if current.sif is None or current.sif.compression != job.compression.name:
        return False
    return _sif_is_there(job.project, current)


def _sif_is_there(project: Project, current: Record) -> bool:
    if current.sif is None:
        return False
    path = project.out.parent / current.sif.path
    return path.is_file() and path.stat().st_size == current.sif.bytes


def _probing(world: World, do: Callable[[Job, Record], Record]) -> PhaseRow:
    return PhaseRow(
        do=do,
        done=lambda job, current: _proven(world, current),
        recorded=lambda project, current: _proven(world, current),
        problem=partial(_failed, world),
    )


PHASES: Mapping[Phase, PhaseRow] = {
    Phase.BASE: PhaseRow(do=_base, done=_base_done, recorded=lambda project, current: True),
    Phase.BUILD: PhaseRow(
        do=_build, done=_build_done, recorded=lambda project, current: current.image is not None
    ),
    Phase.PROBE_DOCKER: _probing(World.DOCKER, _probe_docker),
    Phase.SIF: PhaseRow(do=_sif, done=_sif_done, recorded=_sif_is_there),
    Phase.PROBE_SIF: _probing(World.SIF, _probe_sif),
    Phase.DEFINITION: PhaseRow(do=definition.build, done=definition.is_built, recorded=_sif_is_there),
    Phase.PROBE_DEFINITION: PhaseRow(
        do=_probe_definition,
        done=definition.is_proven,
        recorded=lambda project, current: _proven(World.DEFINITION, current),
    ),
    Phase.COMPARE_DEFINITION: PhaseRow(
        do=definition.compare,
        done=lambda job, current: False,
        recorded=lambda project, current: False,
        problem=definition.problem,
    ),
}
