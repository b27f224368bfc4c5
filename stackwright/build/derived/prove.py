"""Probes an image or a SIF by the checks of the row whose labels it has, and compares it with its parent.

Nothing of it is recorded among the rows; the facts go to ``out/derived``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from stackwright.build.derived import examine
from stackwright.build.derived.examine import Labelled
from stackwright.build.derived.parent import Inside, Parent, find
from stackwright.build.display import Display
from stackwright.build.job import Job
from stackwright.build.phases import PHASES, probe_file
from stackwright.core.checks import origin
from stackwright.core.checks.differences import Differences, between, distributions, layers_below, moved
from stackwright.core.checks.judge import verify
from stackwright.core.checks.observed import dig
from stackwright.core.checks.tables.declared import UNLOCKED, normal
from stackwright.core.errors import EngineError
from stackwright.core.layer.asked import of_label
from stackwright.core.ledger.books import Row
from stackwright.core.ledger.entry import Tree, final
from stackwright.core.model.labels import LAYER
from stackwright.core.model.record import Phase, Record, SifFile
from stackwright.core.model.row import Outcome, Stack, Verdict, World
from stackwright.core.model.site import Site
from stackwright.engines import apptainer as programs
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.gpu import NoGpu
from stackwright.host.project import Planned, Project
from stackwright.host.runner import Completed, Runner
from stackwright.probe import site_leaks
from stackwright.probe.outside import squashfs
from stackwright.probe.outside.documents import Documents, documents
from stackwright.probe.outside.layers import Read
from stackwright.probe.outside.read import of_sif, row_of
from stackwright.probe.run import PYTHON, gather
from stackwright.records import files as record

NO_GPU = "probe --image asks for no GPU in a SIF"
OF_LABELS = frozenset({"static.stack-label", "static.row-file"})
"""Checks that compare the row's own documents with the row."""
READ_FILE = 120
"""Seconds to read small files of an image."""

READ_TEXTS = (
    "import json, os, sys; "
    "print(json.dumps({path: open(path).read(65536) for path in sys.argv[1:] if os.path.isfile(path)}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found. ``known`` says how the row is known."""

    image: Labelled
    known: str
    differences: Differences
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One image or SIF, and the means to look at it.

    ``overlay`` is a squashfs on top of a SIF, and ``held`` what was read of both, the SIF's files first.
    ``reading`` returns what is in an image's files, where something else than all of them is to be read, and
    ``added`` the tree of a layer that changes nothing below it.
    """

    image: Labelled
    project: Project
    site: Site
    runner: Runner
    docker: Docker | None
    display: Display
    held: tuple[Read, ...] = ()
    overlay: Path | None = None
    reading: Callable[[Row], Documents] | None = None
    added: Tree | None = None

    @property
    def path(self) -> Path:
        return Path(self.image.image).resolve()

    @cached_property
    def apptainer(self) -> Apptainer:
        found = programs.find(self.runner, self.docker, mirror=self.site.mirror)
        return replace(found, overlay=self.overlay)

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """The layers of an image, the lowest first; a SIF is one."""
        if self.held:
            return self.held
        if self.image.world is World.SIF:
            search = site_leaks.search(self.site)
            return (squashfs.read(self.path, search, docker=self.docker, runner=self.runner),)
        assert self.docker is not None, "it is an image of the engine"
        return site_leaks.read(self.docker, self.image.id, self.site).reads

    @property
    def inside(self) -> Inside:
        return Inside(below=lambda: self.below, whole=lambda: self.whole, own=self.own_files)

    @property
    def whole(self) -> Tree:
        """All files of it."""
        return final(read.layer for read in self.reads)

    @cached_property
    def below(self) -> Tree | None:
        """The parent's files: what the layers below the added ones have. None where they are not known."""
        if self.image.world is World.SIF:
            return final(read.layer for read in self.reads[:-1]) if self.overlay else None
        layers = [read.layer for read in self.reads]
        count = layers_below((layer.entries for layer in layers), origin.most_layers(self.image.added))
        return final(layers[:count]) if count else None

    def own_files(self, places: Mapping[str, str]) -> dict[str, bytes]:
        """Return what our last step puts there, by its name in the context: an older release had others."""
        argv = (PYTHON, "-B", "-c", READ_TEXTS, *places.values())
        if self.image.world is World.SIF:
            done = self.apptainer.exec(self.path, argv, timeout=READ_FILE)
        else:
            assert self.docker is not None, "it is an image of the engine"
            job = engine.Job(image=self.image.id, entrypoint=argv[:1], argv=argv[1:], network=False)
            done = engine.run(self.docker, job, timeout=READ_FILE)
        texts = _texts(done)
        return {name: texts[path].encode() for name, path in places.items() if path in texts}


def _texts(done: Completed) -> dict[str, str]:
    """Return nothing where they cannot be read: a check says then that a file is not as it should be."""
    try:
        found = json.loads(done.stdout) if done.ok else {}
    except ValueError:
        return {}
    return {str(path): str(text) for path, text in found.items()} if isinstance(found, dict) else {}


def probe(
    project: Project, rows: Sequence[Planned], image: str, *, site: Site, runner: Runner, display: Display
) -> Proof:
    """Prove the image or the SIF by the checks of the row that its labels name."""
    of = subject(project, image, site=site, runner=runner, display=display)
    row = find(of.project, rows, of.image, of.inside)
    stack = row.planned.stack
    whole = of_label(stack, of.image.labels.get(LAYER, ""))
    return prove(of, replace(row, planned=replace(row.planned, stack=whole)), label=stack)


def subject(project: Project, image: str, *, site: Site, runner: Runner, display: Display) -> Subject:
    """Read what an image or a SIF says about itself. UsageError where it has no row's labels."""
    if examine.is_file(image):
        docker = _engine_if_any(runner, project)
        described = examine.of_sif(programs.find(runner, docker, mirror=site.mirror), Path(image))
    else:
        docker = engine.find(runner, project=project.id)
        described = examine.of_image(docker, image)
    own = replace(project, out=project.out / "derived" / described.short)
    return Subject(image=described, project=own, site=site, runner=runner, docker=docker, display=display)


def layered(of: Subject, image: str) -> Subject:
    """Return a layered image as a subject of its own; ``of`` is its parent."""
    assert of.docker is not None, "it is an image of the engine"
    described = examine.of_image(of.docker, image)
    own = replace(of.project, out=of.project.out.parent / described.short)
    return Subject(
        image=described, project=own, site=of.site, runner=of.runner, docker=of.docker, display=of.display
    )


def prove(of: Subject, row: Parent, *, label: Stack | None = None) -> Proof:
    """Judge by the row; by ``label``, where it is another one, what labels and files say about the row."""
    job = Job(
        project=of.project, row=row.planned, engine=of.docker, site=of.site, runner=of.runner,
        display=of.display, image=of.image.id, apptainer=lambda: of.apptainer,
    )  # fmt: skip
    judged = _PROBES[of.image.world](of, job, _record(of.image, row.planned.stack))
    verdict = judged.verdict(of.image.world)
    assert verdict is not None, "it was probed"
    facts = gather(job.facts(of.image.world))
    if label is not None:
        verdict = _by_label(verdict, label, facts)
    return Proof(
        image=of.image, known=row.known, verdict=_leaving_out(verdict, row.not_judged),
        differences=_differences(of, row, facts),
    )  # fmt: skip


def _engine_if_any(runner: Runner, project: Project) -> Docker | None:
    try:
        return engine.find(runner, project=project.id)
    except EngineError:
        return None


def _image(of: Subject, job: Job, current: Record) -> Record:
    if of.reading:
        job = replace(job, outside=partial(of.reading, row_of(job.row, World.DOCKER)))
    return PHASES[Phase.PROBE_DOCKER].do(job, current)


def on_sif(of: Subject, overlay: Path, held: tuple[Read, ...], named: tuple[str, ...]) -> Subject:
    """Return a SIF with an overlay as a subject of its own; ``of`` is its parent, ``held`` what was read."""
    added = replace(of.image, added=(f"an overlay: {' '.join(named)}",))
    own = replace(of.project, out=of.project.out.parent / f"{of.image.short}-{overlay.stem}"[:100])
    return replace(of, image=added, project=own, held=held, overlay=overlay)


def _sif(of: Subject, job: Job, current: Record) -> Record:
    """The ledger of the row's own image, if it is proven here, has the files that the SIF is to have."""
    proven = (
        of.project.out.parent.parent / job.row.recipe.id / job.row.recipe.key[:12] / "facts" / World.DOCKER
    )
    ledger = gather(proven).get("ledger") if proven.is_dir() else None
    row = row_of(job.row, World.SIF)
    outside = partial(of_sif, of.path, of.site, row, docker=of.docker, runner=of.runner, image=ledger)
    if of.reading:
        outside = partial(of.reading, row)
    elif of.overlay:
        outside = partial(_with_overlay, of, row, ledger)
    held = SifFile(path=str(of.path), bytes=of.path.stat().st_size, sha256=of.image.id)
    return probe_file(job, replace(current, sif=held), World.SIF, outside, NoGpu(reason=NO_GPU))


def _with_overlay(of: Subject, row: Row, image: Mapping[str, Any] | None) -> Documents:
    """Return what is in a SIF and its overlay; the SIF alone is what has the image's files."""
    alone, both = documents(of.reads[:-1], row, image), documents(of.reads, row)
    same = {"differs": alone.ledger["differs"]} if "differs" in alone.ledger else {}
    return replace(both, ledger={**both.ledger, **same})


_PROBES = {World.DOCKER: _image, World.SIF: _sif}


def _by_label(verdict: Verdict, label: Stack, facts: Mapping[str, Any]) -> Verdict:
    """Judge again what compares with the row that the labels name: a layer leaves them as they are."""
    own = {
        check.id: check for check in verify(label, facts, verdict.world, {}).checks if check.id in OF_LABELS
    }
    return replace(verdict, checks=tuple(own.get(check.id, check) for check in verdict.checks))


def _leaving_out(verdict: Verdict, reasons: Mapping[str, str]) -> Verdict:
    """Return the verdict with those checks as not run that have nothing to be judged by."""
    return replace(verdict, checks=tuple(
        replace(check, outcome=Outcome.NOT_RUN, detail=reasons[check.id]) if check.id in reasons else check
        for check in verdict.checks
    ))  # fmt: skip


def _differences(of: Subject, row: Parent, facts: Mapping[str, Any]) -> Differences:
    if of.added is not None:
        return Differences(python=moved({}, distributions(of.added)), files=())
    if of.below is not None:
        return between(of.below, of.whole, row_of(row.planned, World.DOCKER))
    locked = {normal(package.name): package.version for package in row.planned.stack.lock.packages}
    if not locked:
        return Differences()
    found = dig(facts, "system", "python_packages") or {}
    inside = {normal(name): str(version) for name, version in found.items()}
    left = {name: version for name, version in inside.items() if name in locked or name not in UNLOCKED}
    return Differences(python=moved(locked, left))


def _record(image: Labelled, stack: Stack) -> Record:
    """Return what the phase works on. It is not written, and does not have the row's name."""
    return Record(
        row=f"derived-{image.short}", key=image.key, lock=stack.lock.sha256,
        started=record.utc(datetime.now(UTC)), host=record.this_host(),
    )  # fmt: skip
