"""Build a row of what a bundle holds: its base images, and all that the build downloads."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from stackwright.build.bundle import file
from stackwright.build.bundle.file import BLOCK, Bundle
from stackwright.build.bundle.manifest import AGAIN, CONTEXTS, PACKAGES, Base
from stackwright.build.bundle.serve import LOOPBACK, SIMPLE, Answer, is_of, page, project_of, serving
from stackwright.build.job import Job
from stackwright.build.solve import Inputs, of_site
from stackwright.core.errors import BuildError, BundleError, EngineError
from stackwright.core.model.record import Record
from stackwright.core.model.row import ProviderName, Recipe, Stack
from stackwright.core.resolve.bases import PROVIDERS, Images, reference
from stackwright.engines import docker as engine
from stackwright.engines.buildkit import mounts
from stackwright.engines.docker import Docker
from stackwright.engines.tool_image import last_line
from stackwright.host.site import archives

BUNDLE = "bundle"
"""Among the tools of a record: the digest of the bundle that the image was built of."""

LOADING = 1800
"""Seconds; NVIDIA's devel image has 9 GB."""

TAGS_IN = "io.containerd.image.name"


def require_near(docker: Docker) -> None:
    """Raise EngineError where builds of the engine do not reach the loopback address of this process."""
    if not docker.host.startswith("unix://"):
        hint = "build with an engine of this machine: unset DOCKER_HOST, or docker context use default"
        raise EngineError("a bundle needs an engine on this machine", place=docker.host, hint=hint)
    with engine.connected(docker) as client:
        options = client.info().get("SecurityOptions") or ()
    if any("rootless" in option for option in options):
        hint = "use an engine that runs as root: scripts/engine.sh"
        cause = "a bundle is served on the loopback address, which builds of a rootless engine do not reach"
        raise EngineError(cause, place=docker.host, hint=hint)


def served(
    job: Job, images: Images, private: Path, address: str, *, namespace: str, ca: bool, **more: Any
) -> Inputs:
    """Return what a build gets that takes everything from ``address``, and nothing of the site.

    ``namespace`` is of the folders that steps keep for later builds: what another build left there would not
    be asked for. As the name of a host it is part of each step as well, so that no step of another build is
    taken for one of this. Of the steps' network only the loopback address of the host is used. ``ca``: the
    steps get a file of certificates, which is empty, since its mount shows in a layer.
    """
    mirror = f"{address}/{PACKAGES}"
    site = replace(
        job.site, mirror=f"{mirror}/debian", ubuntu=f"{mirror}/ubuntu",
        ca=Path(os.devnull) if ca else None,
        pip=(("index-url", f"{address}/{SIMPLE}"),),
        proxies=(("no_proxy", LOOPBACK), ("NO_PROXY", LOOPBACK)),
    )  # fmt: skip
    options = (
        "--network=host", "--add-host", f"{namespace}.invalid:{LOOPBACK}",
        "--build-arg", f"BUILDKIT_CACHE_MOUNT_NS={namespace}", *more.pop("options", ()),
    )  # fmt: skip
    return of_site(site, images, private, job.row.stack.os, options=options, **more)


# -- base images -----------------------------------------------------------------------------------


def images(job: Job, bundle: Bundle) -> Images:
    """Bring the base images of a row into the engine. BundleError where they are not those of the row."""
    require_near(job.docker)
    row = bundle.row(job.id, job.row.recipe.key)
    found = tuple((base.argument, base.name) for base in row.bases)
    if not _fits(job.row.stack, found):
        cause = f"its base images are not those of {job.id}: {', '.join(name for _, name in found)}"
        raise BundleError(cause, place=str(bundle.path), hint=AGAIN)
    for base in row.bases:
        _bring(job, bundle, base)
    return found


def _fits(stack: Stack, found: Images) -> bool:
    """A base of Debian has the date of the mirror's day in its name, which may be later than the lock's."""
    wanted = PROVIDERS[stack.provider].wanted(stack)
    if stack.provider is ProviderName.DEBIAN and len(found) == 1:
        dated = re.escape(reference(stack.os, "")) + r"[0-9]{8}T[0-9]{6}Z"
        return found[0][0] == wanted[0][0] and re.fullmatch(dated, found[0][1]) is not None
    return found == wanted


def _bring(job: Job, bundle: Bundle, base: Base) -> None:
    seen = engine.inspect(job.docker, base.name)
    if seen is None:
        _load(job, bundle, base)
    elif tuple(seen["RootFS"]["Layers"]) != base.layers:
        hint = f"if nothing else needs it: docker rmi {base.name}"
        raise EngineError("the engine has another image of this name", place=base.name, hint=hint)
    engine.mark(job.docker, base.name)


def _load(job: Job, bundle: Bundle, base: Base) -> None:
    job.display.say(f"{job.id}: loading {base.name} from the bundle")
    out = job.project.out
    with file.writing(out), tempfile.TemporaryDirectory(prefix=".base-", dir=out) as folder:
        archive = Path(folder) / "image.tar"
        with bundle.opened(base.path) as source, archive.open("wb") as target:
            while block := source.read(BLOCK):
                target.write(block)
        _require_untagged(archive, base, bundle)
        done = job.runner(job.docker.command("image", "load", "--input", archive), timeout=LOADING)
    loaded = re.search(r"sha256:[0-9a-f]{64}", done.stdout)
    seen = engine.inspect(job.docker, loaded[0]) if done.ok and loaded else None
    if seen is None or loaded is None:
        cause = f"the engine could not load {base.name}: {last_line(done)}"
        raise EngineError(cause, place=str(bundle.path), hint="check the engine's free disk")
    if tuple(seen["RootFS"]["Layers"]) != base.layers:
        cause = f"{base.path} is not {base.name}: it has other layers than the manifest says"
        raise BundleError(cause, place=str(bundle.path), hint=AGAIN)
    engine.tag(job.docker, loaded[0], base.name)


def _require_untagged(archive: Path, base: Base, bundle: Bundle) -> None:
    """An archive may bring names, and the engine would let them lead to its images from then on."""
    try:
        with tarfile.open(archive, "r:") as tar:
            files = {name: _json(tar, name) for name in ("manifest.json", "index.json", "repositories")}
        tagged = bool(files["repositories"]) or any(image.get("RepoTags") for image in files["manifest.json"])
        listed = (files["index.json"] or {}).get("manifests") or ()
        tagged = tagged or any(TAGS_IN in (entry.get("annotations") or {}) for entry in listed)
    except (tarfile.TarError, ValueError, TypeError, AttributeError, RecursionError) as error:
        cause = f"{base.path} is no image: {error}"
        raise BundleError(cause, place=str(bundle.path), hint=AGAIN) from error
    if tagged:
        cause = f"{base.path} would give names to images of the engine"
        raise BundleError(cause, place=str(bundle.path), hint="do not use it; ask who made it")


def _json(tar: tarfile.TarFile, name: str) -> Any:
    try:
        member = tar.extractfile(name)
    except KeyError:
        return None
    return json.loads(member.read(BLOCK)) if member else None


# -- what the build downloads ----------------------------------------------------------------------


@dataclass(slots=True)
class Given:
    """Answers requests from a bundle. ``missed`` are those for what it does not have."""

    bundle: Bundle
    missed: list[str] = field(default_factory=list)

    @contextmanager
    def find(self, path: str) -> Iterator[Answer | None]:
        sizes = {member.path: member.bytes for member in self.bundle.manifest.members}
        if project := project_of(path):
            content = self._page(project)
            yield Answer(content=BytesIO(content), bytes=len(content), kind="text/html") if content else None
        elif path in sizes:
            with self.bundle.opened(path) as member:
                yield Answer(content=member, bytes=sizes[path])
        else:
            self.missed.append(path)
            yield None

    def _page(self, project: str) -> bytes:
        files = [
            (member.path, member.sha256)
            for member in self.bundle.manifest.members
            if is_of(member.path, project)
        ]
        if not files:
            self.missed.append(f"{SIMPLE}/{project}")
        return page(files) if files else b""

    @property
    def needed(self) -> str:
        """What a build asked for in vain. apt does without translations and the like, and asks for them."""
        found = [
            path for path in self.missed if path.startswith(SIMPLE) or "/pool/" in path or "InRelease" in path
        ]
        return found[-1] if found else ""


@contextmanager
def inputs(job: Job, bundle: Bundle, images: Images, private: Path) -> Iterator[Inputs]:
    """What a build of the bundle gets. BundleError where it fails, and asked for what the bundle lacks."""
    given, row = Given(bundle), bundle.row(job.id, job.row.recipe.key)
    namespace = f"bundle-{bundle.digest[:16]}"
    job = replace(job, site=replace(job.site, sources=sources(job.row.recipe, bundle, private)))
    with serving(given.find) as address:
        try:
            yield served(job, images, private, address, namespace=namespace, ca=row.ca, a_copy=True)
        except BuildError as error:
            if not given.needed:
                raise
            cause = f"the build of {job.id} asked for {given.needed}, which the bundle lacks"
            hint = "make the bundle again with this matrix and this Stackwright"
            raise BundleError(cause, place=str(bundle.path), hint=hint, details=error.details) from error
    mounts.forget(job.docker, job.runner, namespace)


def sources(recipe: Recipe, bundle: Bundle, private: Path) -> Path:
    """Return a folder with the archives of sources that the recipe names. BundleError where it lacks one."""
    folder, there = private / "sources", {member.path for member in bundle.manifest.members}
    folder.mkdir()
    for name in archives.named(recipe):
        path = f"{CONTEXTS}/{recipe.id}/{name}"
        if path not in there:
            raise BundleError(f"it lacks {path}", place=str(bundle.path), hint=AGAIN)
        with bundle.opened(path) as source, (folder / Path(path).name).open("wb") as target:
            shutil.copyfileobj(source, target)
    return folder


def noted(job: Job, bundle: Bundle, current: Record) -> Record:
    """Note the bundle in the record, and say whether the layers are those of the build that made it."""
    seen = engine.inspect(job.docker, job.reference)
    assert seen is not None, "it was built a moment ago"
    wanted, found = bundle.row(job.id, job.row.recipe.key).layers, tuple(seen["RootFS"]["Layers"])
    job.display.say(f"{job.id}: {compared(found, wanted)}")
    return replace(current, tools=(*current.tools, (BUNDLE, bundle.digest)))


def compared(found: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """Return in a line how many layers have the same digests."""
    if found == wanted:
        return f"all {len(found)} layers have the digests of the build that made the bundle"
    differ = [digest for digest in found if digest not in wanted]
    return (
        f"{len(differ)} of {len(found)} layers differ from the build that made the bundle,"
        f" which has {len(wanted)}: {', '.join(digest[:19] + '…' for digest in differ) or 'their order'}"
    )
