"""Finds and frees what takes up disk and no row of this matrix needs any more.

Only what this ``out`` folder recorded, for this matrix, is this project's. Several projects may use one
engine, and two checkouts with the same rows the same images: marks on an image say which projects use it
(owners.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound

from stackwright.core.checks import origin
from stackwright.core.model.labels import KEY, ROW
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.engines.buildah.words import short_name
from stackwright.engines.docker import MADE_BY_US, NAMESPACE, PROJECT, Docker, connected, pid_namespace
from stackwright.host import owners
from stackwright.host.project import Planned, Project
from stackwright.host.site.settings import used_disk
from stackwright.records import files as record

TAGS, BASES = "stackwright/", "stackwright/base:"
KEY_FOLDER = re.compile(r"[0-9a-f]{12}\Z")
NOT_ROWS = ("cache", "cluster", "derived", "publish", "records", "report", "room")
"""Folders of ``out/`` that are not a row's."""

OURS, OTHERS = "this project", "another project"
A_RUN = "a run works on it: wait for its end"


class Kind(StrEnum):
    IMAGE = "image"
    BASE = "base"
    FOLDER = "folder"
    CONTAINER = "container"
    CACHE = "cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """``bytes`` is what goes with it: an image's layers that others share do not count.

    ``todo`` is empty where ``free`` can free it, else what has to be done first. ``whose`` is OURS or OTHERS.
    ``tags`` are the names that an image loses; an image without a name goes by its ``id``.
    """

    kind: Kind
    name: str
    bytes: int
    why: str
    todo: str = ""
    whose: str = OURS
    row: str = ""
    id: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the matrix and the records say. ``current``: the key that a row has today.

    ``bases`` are the images that today's rows start from, and those of other matrices with this ``out``;
    ``old_bases`` are those that records name. ``ids`` are the images that were recorded, ``unfinished`` the
    row and key of builds that were not.
    """

    out: Path
    matrix: Path
    project: str
    current: Mapping[str, str]
    bases: frozenset[str] = frozenset()
    old_bases: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    unfinished: frozenset[tuple[str, str]] = frozenset()

    def is_of_matrix(self, row: str, key: str) -> bool:
        """Return whether this matrix made it. Where nothing is noted, a row of the matrix was made by it."""
        folder = self.out / row / key[:12]
        noted = owners.matrices(folder)
        return owners.is_of(folder, self.matrix, self.out) if noted else row in self.current

    def why(self, row: str) -> str:
        now = self.current.get(row)
        return f"the row is now {now[:12]}" if now else "the matrix has no such row"


def known(project: Project, rows: Sequence[Planned]) -> Known:
    """Read the records of this ``out``."""
    records = record.load_all(project.records).records
    current = {row.stack.id: row.recipe.key for row in rows}
    wanted = (name for row in rows for _, name in PROVIDERS[row.stack.provider].wanted(row.stack))
    built = [(run.row, run.key, run.image) for run in records if run.image]
    found = Known(
        out=project.out, matrix=project.matrix, project=project.id, current=current,
        bases=frozenset(wanted), old_bases=frozenset(_name(image.base) for _, _, image in built),
        ids=frozenset(image.id for _, _, image in built),
        unfinished=frozenset((run.row, run.key) for run in records if not run.image),
    )  # fmt: skip
    in_use = (
        _name(image.base) for row, key, image in built
        if current.get(row) == key or not found.is_of_matrix(row, key)
    )  # fmt: skip
    return replace(found, bases=found.bases | {*in_use})


def _name(base: str) -> str:
    """Without the digest, which a record may have."""
    return base.partition("@")[0]


def survey(docker: Docker | None, known: Known) -> tuple[Item, ...]:
    """Return what could be freed, and what others use, which is named only."""
    items = list(_old_folders(known))
    if docker is not None:
        with connected(docker) as client:
            usage = client.df()
            for image in usage.get("Images") or ():
                items += _old_image(client, image, known)
            items += _orphans(client, docker, known)
            items += _cache(usage.get("BuildCache") or ())
    return tuple(sorted(items, key=lambda item: item.whose != OURS))


def free(docker: Docker | None, out: Path, items: Iterable[Item]) -> tuple[Item, ...]:
    """Free them and return those that are gone: what is in use in this moment stays."""
    wanted = [item for item in items if not item.todo]
    gone = [item for item in wanted if item.kind is Kind.FOLDER and _free_folder(out, item.name)]
    if docker is not None:
        with connected(docker) as client:
            for item in wanted:
                if item.kind is Kind.CONTAINER and _free_container(client, item.name):
                    gone.append(item)
            for item in wanted:
                if item.kind in (Kind.IMAGE, Kind.BASE) and _free_image(client, out, item):
                    gone.append(item)
    return tuple(gone)


def as_json(items: Iterable[Item]) -> dict[str, Any]:
    names = ("kind", "name", "bytes", "why", "todo", "whose")
    return {"version": 1, "items": [{name: getattr(item, name) for name in names} for item in items]}


# -- folders ---------------------------------------------------------------------------------------


def _old_folders(known: Known) -> Iterator[Item]:
    for row in sorted(_folders(known.out)):
        if row.name in NOT_ROWS:
            continue
        todo = A_RUN if _is_held(row) else ""
        for folder in sorted(_folders(row)):
            if KEY_FOLDER.match(folder.name) and folder.name != known.current.get(row.name, "")[:12]:
                ours = known.is_of_matrix(row.name, folder.name)
                yield Item(
                    kind=Kind.FOLDER, name=f"{row.name}/{folder.name}", bytes=used_disk(folder), todo=todo,
                    why=known.why(row.name) if ours else "another matrix made it, or none that is noted",
                    whose=OURS if ours else OTHERS, row=row.name,
                )  # fmt: skip


def _folders(parent: Path) -> Iterator[Path]:
    if parent.is_dir():
        yield from (path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())


def _is_held(row: Path) -> bool:
    """Return whether a run works on the row."""
    try:
        with _alone(row):
            return False
    except BlockingIOError:
        return True


@contextlib.contextmanager
def _alone(row: Path) -> Iterator[None]:
    """Hold the row's lock, where its folder is there. BlockingIOError while a run holds it."""
    if not row.is_dir():
        yield
        return
    with (row / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _free_folder(out: Path, name: str) -> bool:
    row, _, key = name.partition("/")
    folder = out / row / key
    if row in ("", *NOT_ROWS) or not KEY_FOLDER.match(key) or not folder.is_dir():
        return False
    if folder.resolve() != out.resolve() / row / key:
        return False
    try:
        with _alone(out / row):
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return False
    return not folder.exists()


# -- images and bases ------------------------------------------------------------------------------


def _old_image(client: DockerClient, image: Mapping[str, Any], known: Known) -> Iterator[Item]:
    labels = image.get("Labels") or {}
    tags = tuple(short_name(tag) for tag in image.get("RepoTags") or () if tag != "<none>:<none>")
    names = tuple(tag for tag in tags if tag.startswith(TAGS))
    if any(name.startswith(BASES) for name in names):
        yield from _old_base(image, tags, known)
    elif row := labels.get(ROW):
        key = labels.get(KEY, "")
        if known.current.get(row) == key:
            return
        name = f"{TAGS}{row}:{key[:12]}"
        recorded = image["Id"] in known.ids or (name in names and (row, key) in known.unfinished)
        if recorded and known.is_of_matrix(row, key):
            todo = A_RUN if _is_held(known.out / row) else ""
            item = Item(kind=Kind.IMAGE, name=name, bytes=0, why=known.why(row), row=row, todo=todo)
            yield from _ours(item, image, tags, known.project)
        elif names or owners.marked_by(tags) or (not tags and not _is_derived(client, image["Id"])):
            yield _of_others(image, tags, names, kind=Kind.IMAGE, name=name)


def _old_base(image: Mapping[str, Any], tags: tuple[str, ...], known: Known) -> Iterator[Item]:
    names = tuple(tag for tag in tags if tag.startswith(BASES))
    if known.bases & {*names}:
        return
    if known.old_bases & {*names} or known.project in owners.marked_by(tags):
        todo = A_RUN if any(_is_held(row) for row in _folders(known.out)) else ""
        why = "no row starts from it any more"
        item = Item(kind=Kind.BASE, name=names[0], bytes=0, why=why, todo=todo)
        yield from _ours(item, image, tags, known.project)
    else:
        yield _of_others(image, tags, names, kind=Kind.BASE, name=names[0])


def _ours(item: Item, image: Mapping[str, Any], tags: tuple[str, ...], project: str) -> Iterator[Item]:
    """Yield the item with the names that it loses: its own only where no other project marked it."""
    others = owners.marked_by(tags) - {project}
    own = {owners.mark(project, item.name)} | (set() if others else {item.name})
    lost = tuple(tag for tag in tags if tag in own)
    if tags and not lost:
        return
    shared = f"; other projects use it ({len(others)}), so it loses this project's mark only"
    yield replace(
        item, id=image["Id"], tags=lost, why=item.why + (shared if others else ""),
        todo=item.todo or _used(image), bytes=_own_bytes(image) if {*tags} == {*lost} else 0,
    )  # fmt: skip


def _of_others(
    image: Mapping[str, Any], tags: tuple[str, ...], names: tuple[str, ...], *,
    kind: Kind, name: str,
) -> Item:  # fmt: skip
    lost = (*names, *(tag for tag in tags if owners.marked_by((tag,))))
    return Item(
        kind=kind, name=names[0] if names else name, why="this project did not record it", id=image["Id"],
        bytes=_own_bytes(image) if {*tags} == {*lost} else 0, todo=_used(image), whose=OTHERS, tags=lost,
    )  # fmt: skip


def _own_bytes(image: Mapping[str, Any]) -> int:
    return int(max(0, image["Size"] - max(0, image.get("SharedSize", 0))))


def _used(image: Mapping[str, Any]) -> str:
    """Return what to do about the containers of an image, which may be proving it."""
    count = image.get("Containers", 0)
    return f"{count} containers use it: wait for their end, or remove them" if count > 0 else ""


def _is_derived(client: DockerClient, image: str) -> bool:
    """Return whether it was built FROM a row's image, whose labels it has: then it is not the project's."""
    with contextlib.suppress(NotFound):
        lines = [str(line.get("CreatedBy", "")) for line in client.images.get(image).history()]
        return origin.is_derived(reversed(lines))
    return False


def _free_image(client: DockerClient, out: Path, item: Item) -> bool:
    """Remove the names that it is to lose. An image that a container uses, or a run works on, stays."""
    try:
        with _alone(out / item.row) if item.row else contextlib.nullcontext():
            if client.containers.list(all=True, filters={"ancestor": item.id}, ignore_removed=True):
                return False
            for name in item.tags or (item.id,):
                with contextlib.suppress(NotFound):
                    client.images.remove(name)
    except (BlockingIOError, APIError):
        return False
    return True


# -- containers and cache --------------------------------------------------------------------------


def _orphans(client: DockerClient, docker: Docker, known: Known) -> Iterator[Item]:
    """Yield containers whose process is gone: a kill -9 leaves them. Processes of other hosts are unseen."""
    if not docker.host.startswith("unix://"):
        return
    for container in client.containers.list(all=True, filters={"label": MADE_BY_US}, ignore_removed=True):
        process, labels = container.labels.get(MADE_BY_US, ""), container.labels
        if not process.isdigit() or Path("/proc", process).exists():
            continue
        seen = labels.get(NAMESPACE) == pid_namespace()
        yield Item(
            kind=Kind.CONTAINER, name=str(container.id), bytes=0, why="what started it is gone",
            whose=OURS if seen and labels.get(PROJECT) == known.project else OTHERS,
            todo="" if seen else f"see whether it still works, then: docker rm --force {container.short_id}",
        )  # fmt: skip


def _free_container(client: DockerClient, name: str) -> bool:
    with contextlib.suppress(NotFound):
        client.containers.get(name).remove(force=True, v=True)
    return True


def _cache(entries: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
    size = sum(entry["Size"] for entry in entries if not entry.get("InUse"))
    if size:
        why = "BuildKit's cache, which all builds of this engine share; without it they start from nothing"
        yield Item(
            kind=Kind.CACHE, name="build cache", bytes=size, why=why, todo="docker buildx prune", whose=OTHERS
        )
