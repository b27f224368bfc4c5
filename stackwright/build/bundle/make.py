"""Make a bundle: build each row once more, from a mirror and an index that keep what they were asked for."""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stackwright.build.bundle import file, given
from stackwright.build.bundle.manifest import BASES, CONTEXTS, Base, BundledRow, Manifest
from stackwright.build.bundle.record import Recording, Upstream
from stackwright.build.bundle.serve import serving
from stackwright.build.job import Job
from stackwright.build.phases import ensure_base, require_disk
from stackwright.build.solve import Inputs, build
from stackwright.core.errors import BuildError, SiteError, UsageError
from stackwright.core.facts import distributions
from stackwright.core.model.row import Recipe
from stackwright.core.model.site import Site
from stackwright.core.render import dockerfile
from stackwright.core.resolve.bases import Images
from stackwright.engines import docker as engine
from stackwright.engines.buildkit import mounts
from stackwright.host.files import row_lock
from stackwright.host.runner import Runner
from stackwright.host.site import archives, settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """``digest`` is the manifest's: who has it from the maker can tell whether the file is the maker's."""

    path: Path
    bytes: int
    digest: str
    manifest: Manifest


def make(jobs: Sequence[Job], target: Path) -> Made:
    """Build the rows one after the other, and write the bundle. The rows' own images stay as they are."""
    if target.is_dir():
        raise UsageError(f"--to names a folder: {target}", hint="name a file")
    with file.writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with file.writing(target), tempfile.TemporaryDirectory(prefix=".bundle-", dir=target.parent) as name:
        folder = Path(name)
        rows = tuple(_row(job, folder) for job in jobs)
        manifest = Manifest(rows=tuple(sorted(rows, key=lambda row: row.row)), members=file.members(folder))
        digest = file.write(target, manifest, folder)
    return Made(path=target, bytes=target.stat().st_size, digest=digest, manifest=manifest)


def _row(job: Job, folder: Path) -> BundledRow:
    given.require_near(job.docker)
    _write_context(job.row.recipe, folder)
    archives.place(job.row.recipe, job.site.sources, folder / CONTEXTS / job.id, all_of_them=True)
    upstream = _upstream(job)
    require_disk(job)
    with row_lock(job.project.out / job.id, job.display.say):
        job.project.note(job.row.recipe)
        images = ensure_base(job)
        bases = tuple(_base(job, argument, name, folder) for argument, name in images)
        layers = _recorded(job, images, Recording(upstream=upstream, folder=folder))
    return BundledRow(
        row=job.id, key=job.row.recipe.key, bases=bases, layers=layers, ca=job.site.ca is not None
    )


def _upstream(job: Job) -> Upstream:
    """Raise SiteError where it is not known from where the row's packages come."""
    site, os = job.site, job.row.stack.os
    mirror = site.mirror_of(os)
    family = distributions.known(os).family
    if not mirror:
        hint = f"name it in site.yaml, as mirrors.{family}: docs/site.md"
        raise SiteError(f"no mirror of {family} is known", place=job.id, hint=hint)
    return Upstream(mirrors={family: mirror}, indexes=_indexes(site, job.runner), ca=site.ca)


def _indexes(site: Site, runner: Runner) -> tuple[str, ...]:
    pip = dict(site.pip)
    first = pip.get("index-url") or settings.index_address(runner, site)
    return (first, *pip.get("extra-index-url", "").split())


def _base(job: Job, argument: str, name: str, folder: Path) -> Base:
    """Save by id: an archive with names would set them again in the engine that loads it."""
    seen = engine.inspect(job.docker, name)
    assert seen is not None, "the base was just brought into the engine"
    path = f"{BASES}/{re.sub('[^A-Za-z0-9_.-]', '-', name)}.tar"
    if not (folder / path).exists():
        engine.save(job.docker, job.runner, seen["Id"], folder / path)
    return Base(argument=argument, name=name, path=path, layers=tuple(seen["RootFS"]["Layers"]))


def _recorded(job: Job, images: Images, recording: Recording) -> tuple[str, ...]:
    """Build without any cache, so that everything is asked for; return the layers of the image."""
    name, namespace = f"{dockerfile.reference(job.row.recipe)}-bundle", f"bundle-{secrets.token_hex(8)}"
    private = tempfile.TemporaryDirectory(prefix="stackwright-site-")
    try:
        with private, serving(recording.find) as address:
            inputs = given.served(
                job, images, Path(private.name), address, namespace=namespace, ca=job.site.ca is not None,
                options=("--no-cache",), name=name,
            )  # fmt: skip
            _build(job, inputs, recording)
        seen = engine.inspect(job.docker, name)
        assert seen is not None, "a build that ended well left no image"
        return tuple(seen["RootFS"]["Layers"])
    finally:
        engine.remove(job.docker, name)
        mounts.forget(job.docker, job.runner, namespace)


def _build(job: Job, inputs: Inputs, recording: Recording) -> None:
    job.display.phase(job.id, "bundle")
    try:
        build(
            job.row.recipe, job.folder / "bundle", inputs, docker=job.docker, runner=job.runner,
            on_event=lambda event: job.display.event(job.id, event),
        )  # fmt: skip
    except BuildError as error:
        if recording.problems:  # the step reports only that the address on loopback gave no answer
            raise recording.problems[0] from error
        raise


def _write_context(recipe: Recipe, folder: Path) -> None:
    for path, content in recipe.files:
        target = folder / CONTEXTS / recipe.id / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
