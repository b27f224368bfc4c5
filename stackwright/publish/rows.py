"""Publish rows: all of them get their tags, or none does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import MappingProxyType

from stackwright.core.checks.observed import dig
from stackwright.core.errors import GateError, PublishError, StackwrightError
from stackwright.core.model.matrix import Publish
from stackwright.core.model.record import Record, Status
from stackwright.core.model.row import Tier
from stackwright.core.model.target import Platform, platform_of
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.engines.oci_tools import Tool
from stackwright.host.files import row_lock
from stackwright.host.project import Planned, Project, cells
from stackwright.host.runner import Runner
from stackwright.probe.digest import checks_digest
from stackwright.publish import gate, indexes, moving, packing, tags
from stackwright.publish import published_now as before
from stackwright.publish.packing import Layout
from stackwright.publish.registry.client import Manifest, Registry
from stackwright.publish.tags import Named
from stackwright.records import files as record

PACKING = "packing-"
"""How a folder begins in which an image is packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """``reference`` is HOST/REPOSITORY@DIGEST. Its ``tags`` are set when all rows are there.

    ``sent_bytes`` are those of blobs that the registry did not have, ``present_bytes`` of those that it had.
    ``pull_bytes`` are those that a node lacks which has what the row's first moving tag led to before; None
    where it led nowhere.
    """

    row: str
    reference: str
    digest: str
    tags: tuple[str, ...]
    sent_bytes: int
    present_bytes: int
    pull_bytes: int | None = None
    sif: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a row may not be published. ``only_less``: it is proven, and has less than what is published."""

    row: str
    reasons: tuple[str, ...]
    only_less: bool = False


BeforeTags = Callable[[Published, Planned, Record], None]
SetAside = Callable[[str, StackwrightError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Everything that publishing needs. ``base`` is the site's repository, below the registry's host.

    ``skopeo`` is asked for when there is something to pack. ``before_tags`` is called for each image when it
    is there by its digest and has no tag yet; what it raises keeps all tags where they are. ``allow_less``:
    rows that may have less than yesterday. ``places`` notes which repository has a blob that this run saw.
    """

    project: Project
    scheme: Publish
    registry: Registry
    base: str
    docker: Docker
    runner: Runner
    skopeo: Callable[[], Tool]
    say: Callable[[str], None]
    today: date
    allow_less: Collection[str] = ()
    sif: bool = False
    before_tags: BeforeTags | None = None
    places: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path:
        return self.project.out / "publish"

    def named(self, row: Planned, *, sif: bool = False) -> Named:
        return tags.named(self.scheme, self.base, row.stack.id, row.recipe.key, self.today, sif=sif)


def publish_rows(
    by: Publisher, rows: Sequence[Planned], aside: SetAside | None = None
) -> tuple[Published, ...]:
    """Push every row by digest, then set the tags of all of them, the moving ones last and together.

    GateError before anything is sent where a row may not be published; PublishError where the registry does
    not take it. What an earlier call left unfinished is finished first. With ``aside``, a row that cannot be
    pushed or signed is passed to it, has no tag, and does not block the tags of others.
    """
    with alone(by):
        moving.finish(by.folder, by.registry.access.proxies, by.say)
        foretell(by, rows)
        published = tuple(image for row in rows for image in _pushed_or_aside(by, row, aside))
        for image in published:
            _set_fixed(by, image)
        if published:
            _move(by, published)
    return published


@contextmanager
def alone(by: Publisher) -> Iterator[None]:
    """Lock packing and tags of this ``out``, and remove what a killed process left of packing."""
    with row_lock(by.folder, by.say):
        for left in by.folder.glob(f"{PACKING}*"):
            shutil.rmtree(left)
        yield


def foretell(by: Publisher, rows: Sequence[Planned]) -> tuple[Named, ...]:
    """Where the rows would go, and the tags of indexes. GateError where one may not; nothing is changed."""
    for row in rows:
        _warn_of_definition(by, row)
    names = [(row.stack.id, by.named(row, sif=sif)) for row in rows for sif in _worlds(by)]
    tags.refuse_shared(names)
    tags.refuse_indexes(by.scheme, names)
    refused = [refusal for row in rows if (refusal := _refusal(by, row))]
    if refused:
        raise _refused(refused)
    return (*(named for _, named in names), *index_tags(by, {row.stack.id for row in rows}))


def index_tags(by: Publisher, rows: Collection[str]) -> tuple[Named, ...]:
    """Return the tags that lead to several rows, and that move where these rows are published."""
    tags = [by.scheme.set] if by.scheme.set else []
    tags += [group.tag for group in by.scheme.platforms if not set(group.rows).isdisjoint(rows)]
    return tuple(Named(repository=by.base, fixed=(), moving=(tag,)) for tag in tags)


def refusals(by: Publisher, row: Planned) -> tuple[str, ...]:
    """Return why a row may not be published now; empty where it may."""
    refusal = _refusal(by, row)
    return refusal.reasons if refusal else ()


def _refusal(by: Publisher, row: Planned) -> Refusal | None:
    known, reasons = _standing(by, row)
    if reasons:
        return Refusal(row=row.stack.id, reasons=reasons)
    if known is None or row.stack.id in by.allow_less:
        return None
    found = before.yesterday(
        by.registry, by.project.records, row.stack.id, by.named(row), by.named(row, sif=True)
    )
    if found is None:
        return None
    if found.passed is None:
        by.say(f"{row.stack.id}: there is no record of what is published now; its tiers cannot be compared")
    lost = tuple(f"yesterday it had {what}" for what in gate.less(known, found, sif=by.sif))
    return Refusal(row=row.stack.id, reasons=lost, only_less=True) if lost else None


def _standing(by: Publisher, row: Planned) -> tuple[Record | None, tuple[str, ...]]:
    """Return the row's record as it is in this moment, and what it lacks to be published at all."""
    known = record.latest(by.project.records, row.stack.id, row.recipe.key)
    required = tuple(Tier(name) for name in by.scheme.require)
    reasons = gate.unproven(known, required, checks_digest(by.project.root), sif=by.sif)
    return known, (*reasons, *gate.against(_definition(by, row))) if by.sif else reasons


def _definition(by: Publisher, row: Planned) -> Record | None:
    return record.latest(by.project.records, row.stack.id, row.recipe.key, definition=True)


def _warn_of_definition(by: Publisher, row: Planned) -> None:
    """Its SIF is not published: without --sif, what is known about it does not refuse the row."""
    known = _definition(by, row)
    if known and known.status is Status.FAILED:
        by.say(f"warning: {row.stack.id}: the build from its definition file failed: {known.reason}")


def _worlds(by: Publisher) -> tuple[bool, ...]:
    return (False, True) if by.sif else (False,)


def _refused(refused: Sequence[Refusal]) -> GateError:
    lines = [f"{refusal.row}: {reason}" for refusal in refused for reason in refusal.reasons]
    hint = "build.py run ROW proves a row; nothing was published"
    if all(refusal.only_less for refusal in refused):
        hint = "if that is meant: " + " ".join(f"--allow-less {refusal.row}" for refusal in refused)
    return GateError("; ".join(lines), hint=hint, details=gate.DOCS)


# -- by digest -------------------------------------------------------------------------------------


def _pushed_or_aside(by: Publisher, row: Planned, aside: SetAside | None) -> tuple[Published, ...]:
    try:
        return tuple(_pushed(by, row))
    except StackwrightError as error:
        if aside is None or (isinstance(error, PublishError) and error.away):  # it is away for all of them
            raise
        aside(row.stack.id, error)
        return ()


def _pushed(by: Publisher, row: Planned) -> Iterator[Published]:
    with row_lock(by.project.out / row.stack.id, by.say):
        known, reasons = _standing(by, row)
        if reasons:  # another run may have worked on it since
            raise _refused([Refusal(row=row.stack.id, reasons=reasons)])
        assert known is not None, "the gate has seen it"
        image, known = push_image(by, row, known)
        if by.before_tags:
            by.before_tags(image, row, known)
        yield image
        if by.sif:
            yield _sif(by, row, known)


def push_image(by: Publisher, row: Planned, known: Record) -> tuple[Published, Record]:
    """By digest alone, which its record knows from then on. ``known`` is of an image; the row is locked."""
    assert known.image is not None
    image = _image(by, row, known)
    known = replace(known, image=replace(known.image, digest=image.digest))
    record.write(known, by.project.records)
    return image, known


def _image(by: Publisher, row: Planned, known: Record) -> Published:
    """Packed only if the registry lacks what was made of this very image before."""
    assert known.image is not None
    names = by.named(row)
    there = by.registry.manifest(names.repository, known.image.digest) if known.image.digest else None
    if there:
        return _published(by, row, names, there, sent=0)
    found = engine.inspect(by.docker, known.image.reference)
    if found is None or found["Id"] != known.image.id:
        hint = "build.py run builds and proves it again"
        raise PublishError("the image that was proven is not in the engine", place=row.stack.id, hint=hint)
    with tempfile.TemporaryDirectory(prefix=PACKING, dir=by.folder) as folder:
        packed = packing.of_image(
            known.image.id,
            known.image.bytes,
            Path(folder),
            docker=by.docker,
            runner=by.runner,
            skopeo=by.skopeo(),
        )
        return _sent(by, row, names, packed)


def _sif(by: Publisher, row: Planned, known: Record) -> Published:
    assert known.sif is not None, "the gate has seen it"
    path = by.project.out.parent / known.sif.path
    if not path.is_file():
        raise PublishError("the SIF that was proven is not there", place=str(path), hint="build.py run")
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        made = packing.of_sif(path, known.sif.sha256, Path(folder))
        return replace(_sent(by, row, by.named(row, sif=True), made), sif=True)


def _sent(by: Publisher, row: Planned, names: Named, made: Layout) -> Published:
    """Blobs that are missing, then the manifest under its own digest: it has no tag."""
    sent, sizes, files = 0, made.manifest.blobs, dict(made.files)
    for digest, size in sizes.items():
        if not _there(by, names.repository, digest):
            by.say(f"{row.stack.id}: sending {size / 1e6:.1f} MB")
            by.registry.push_blob(names.repository, digest, files[digest])
            sent += size
        by.places[digest] = names.repository
    by.registry.put_manifest(names.repository, made.manifest.digest, made.manifest)
    return _published(by, row, names, made.manifest, sent=sent)


def _there(by: Publisher, repository: str, digest: str) -> bool:
    if by.registry.has_blob(repository, digest):
        return True
    origin = by.places.get(digest, repository)
    return origin != repository and by.registry.mount_blob(repository, digest, origin)


def _published(by: Publisher, row: Planned, names: Named, manifest: Manifest, *, sent: int) -> Published:
    total = sum(manifest.blobs.values())
    before = by.registry.manifest(names.repository, names.moving[0])
    image = Published(
        row=row.stack.id, reference=f"{by.registry.access.host}/{names.repository}@{manifest.digest}",
        digest=manifest.digest, tags=(*names.fixed, *names.moving),
        sent_bytes=sent, present_bytes=total - sent,
        pull_bytes=_lacked(manifest, before) if before else None,
    )  # fmt: skip
    by.say(f"{image.row}: {image.reference}: {sent} bytes sent, {image.present_bytes} bytes were there")
    return image


def _lacked(manifest: Manifest, before: Manifest) -> int:
    """Return the bytes of blobs that another manifest does not have, which may be of anything."""
    parts = (before.document.get("config"), *(dig(before.document, "layers") or ()))
    there = {dig(part, "digest") for part in parts}
    return sum(size for digest, size in manifest.blobs.items() if digest not in there)


# -- tags ------------------------------------------------------------------------------------------


def _set_fixed(by: Publisher, published: Published) -> None:
    repository = _repository(by, published)
    manifest = by.registry.manifest(repository, published.digest)
    assert manifest is not None, "it was put there a moment ago"
    for tag in published.tags[: len(by.scheme.tags)]:
        by.registry.put_manifest(repository, tag, manifest)


def _move(by: Publisher, published: Sequence[Published]) -> None:
    wanted = [
        (_repository(by, image), tag, image.digest) for image in published for tag in _moving_tags(by, image)
    ]
    wanted += [(by.base, tag, digest) for tag, digest in _indexes(by, published)]
    moves = []
    for repository, tag, digest in wanted:
        now = by.registry.digest_of(repository, tag) or ""
        if now != digest:
            moves.append(moving.Move(repository=repository, tag=tag, before=now, after=digest))
    if moves:
        journal = moving.Journal(access=by.registry.access, moves=tuple(moves))
        moving.move(journal, by.folder, by.say)


def _indexes(by: Publisher, published: Sequence[Published]) -> Iterator[tuple[str, str]]:
    """Put each index that has something new into the registry; yield its tag, and what that is to lead to."""
    if not (by.scheme.set or by.scheme.platforms):
        return
    rows = {cell.id: platform_of(cell.platform) for cell in cells(by.project)}
    if by.scheme.set:
        yield by.scheme.set, _index(by, by.scheme.set, rows, published)
    for group in by.scheme.platforms:
        platforms = {row: rows[row] for row in group.rows}
        images = [image for image in published if image.row in platforms and not image.sif]
        if images:
            yield group.tag, _index(by, group.tag, platforms, images, platforms)


def _index(
    by: Publisher, tag: str, rows: Collection[str], published: Sequence[Published],
    platforms: Mapping[str, Platform] = MappingProxyType({}),
) -> str:  # fmt: skip
    """Return the digest of the index of ``rows``, which is there and whose tag did not move yet."""
    new = []
    for image in published:
        manifest = by.registry.manifest(by.base, image.digest)
        assert manifest is not None, "it was put there a moment ago"
        new.append(indexes.entry(image.row, _moving_tags(by, image)[0], manifest, platforms.get(image.row)))
    before = by.registry.manifest(by.base, tag)
    old = indexes.kept(before, rows, {image.row for image in published})
    there = [entry for entry in old if by.registry.digest_of(by.base, entry["digest"])]
    made = indexes.index((*there, *new))
    by.registry.put_manifest(by.base, made.digest, made)
    return made.digest


def _moving_tags(by: Publisher, published: Published) -> tuple[str, ...]:
    return published.tags[len(by.scheme.tags) :]


def _repository(by: Publisher, published: Published) -> str:
    return published.reference.removeprefix(f"{by.registry.access.host}/").partition("@")[0]
