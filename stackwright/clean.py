"""What takes up disk and no row needs any more. Only what Stackwright made, and known as such, is freed."""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from docker import DockerClient
from docker.errors import APIError, ImageNotFound, NotFound

from stackwright.engines.docker import MADE_BY_US, Docker, connected
from stackwright.host import used_disk
from stackwright.labels import KEY, ROW

OUR_TAGS = "stackwright/"
KEY_FOLDER = re.compile(r"[0-9a-f]{12}\Z")
NOT_ROWS = ("cache", "cluster", "publish", "records", "report", "room")
"""Folders of ``out/`` that are not a row's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """``bytes`` is what goes with it: an image's layers that others share do not count.

    ``todo`` is empty where ``free`` does it; else it is what a person may do, since others use it too.
    """

    kind: Literal["image", "folder", "container", "cache"]
    name: str
    bytes: int
    why: str
    todo: str = ""


def survey(docker: Docker | None, out: Path, current: Mapping[str, str]) -> tuple[Item, ...]:
    """What could be freed; ``current`` maps a row's id to the content key that it has today."""
    items = list(_old_folders(out, current))
    if docker is not None:
        with connected(docker) as client:
            usage = client.df()
            items += _old_images(usage.get("Images") or (), current)
            items += _orphans(client, docker)
            items += _cache(usage.get("BuildCache") or ())
    return tuple(items)


def free(docker: Docker | None, out: Path, items: Iterable[Item]) -> tuple[Item, ...]:
    """Free them and return those that are gone: what is in use in this moment stays."""
    wanted = sorted((item for item in items if not item.todo), key=lambda item: item.kind)
    gone = [item for item in wanted if item.kind == "folder" and _free_folder(out, item.name)]
    if docker is not None:
        with connected(docker) as client:
            gone += [
                item for item in wanted if item.kind == "container" and _free_container(client, item.name)
            ]
            gone += [item for item in wanted if item.kind == "image" and _free_image(client, item.name)]
    return tuple(gone)


def as_json(items: Iterable[Item]) -> dict[str, Any]:
    listed = [
        {"kind": item.kind, "name": item.name, "bytes": item.bytes, "why": item.why, "todo": item.todo}
        for item in items
    ]
    return {"version": 1, "items": listed}


def _old_folders(out: Path, current: Mapping[str, str]) -> Iterator[Item]:
    for row in sorted(_folders(out)):
        if row.name in NOT_ROWS:
            continue
        keep = current.get(row.name, "")[:12]
        for folder in sorted(_folders(row)):
            if KEY_FOLDER.match(folder.name) and folder.name != keep:
                why = f"the row is now {keep}" if keep else "the matrix has no such row"
                yield Item(kind="folder", name=f"{row.name}/{folder.name}", bytes=used_disk(folder), why=why)


def _folders(parent: Path) -> Iterator[Path]:
    if parent.is_dir():
        yield from (path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())


def _old_images(images: Iterable[Mapping[str, Any]], current: Mapping[str, str]) -> Iterator[Item]:
    for image in images:
        labels = image.get("Labels") or {}
        row = labels.get(ROW)
        if row is None or (row in current and labels.get(KEY) == current[row]):
            continue
        tags = [tag for tag in image.get("RepoTags") or () if tag != "<none>:<none>"]
        ours = [tag for tag in tags if tag.startswith(OUR_TAGS)]
        own = max(0, image["Size"] - max(0, image.get("SharedSize", 0)))
        why = f"row {row} is now {current[row][:12]}" if row in current else f"the matrix has no row {row}"
        # An image that somebody gave another name to stays, and so do its bytes.
        names = ours or ([image["Id"]] if not tags else [])
        for name in names:
            yield Item(kind="image", name=name, bytes=own if len(tags) <= 1 else 0, why=why)


def _orphans(client: DockerClient, docker: Docker) -> Iterator[Item]:
    """Containers of ours whose process is gone: a kill -9 leaves them. Only this host's can be told."""
    if not docker.host.startswith("unix://"):
        return
    for container in client.containers.list(all=True, filters={"label": MADE_BY_US}):
        process = container.labels.get(MADE_BY_US, "")
        if process.isdigit() and not Path("/proc", process).exists():
            yield Item(kind="container", name=str(container.id), bytes=0, why="what started it is gone")


def _cache(entries: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
    size = sum(entry["Size"] for entry in entries if not entry.get("InUse"))
    if size:
        why = "BuildKit's cache, which all builds of this engine share; without it they start from nothing"
        yield Item(kind="cache", name="build cache", bytes=size, why=why, todo="docker buildx prune")


def _free_folder(out: Path, name: str) -> bool:
    row, _, key = name.partition("/")
    folder = out / row / key
    if row in ("", *NOT_ROWS) or not KEY_FOLDER.match(key) or not folder.is_dir():
        return False
    if folder.resolve() != out.resolve() / row / key:
        return False
    with (out / row / ".lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _free_container(client: DockerClient, name: str) -> bool:
    with contextlib.suppress(NotFound):
        client.containers.get(name).remove(force=True, v=True)
    return True


def _free_image(client: DockerClient, name: str) -> bool:
    """An image that a container still uses stays: that is a conflict, and the engine says so."""
    try:
        client.images.remove(name)
    except ImageNotFound:
        return True
    except APIError:
        return False
    return True
