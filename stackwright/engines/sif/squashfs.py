"""From an image to a SIF without a copy of it: its files go into squashfs once, at their place in the SIF.

Around them is put what Apptainer makes of the same image without files (a skeleton): environment, runscript,
labels and OCI configuration are as it would write them.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from stackwright.core.errors import ConvertError, EngineError
from stackwright.core.model.compression import Compression
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import IMAGE, Apptainer
from stackwright.engines.docker import Docker, ImageMount, Job, Mount
from stackwright.engines.sif import layout, tar_stream
from stackwright.engines.sif.docker_archive import write_archive
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Completed, Runner
from stackwright.host.shipped import SCRIPTS

SCRIPT = SCRIPTS / "image-to-squashfs.sh"
OVERLAY = "overlay2"
MOUNT_PAGE = 4000
"""Bytes that the kernel takes as options of a mount (one page), less those for our own."""

OLDEST_SQUASHFS = (4, 6)
"""squashfs-tools: the first whose sqfstar sets the owner of the root folder."""

FULL = re.compile(r"(?i)no space left on device|disk quota exceeded|out of space on output filesystem")
"""Messages of the kernel and of mksquashfs for a full disk."""

SKELETON, WRITTEN = "skeleton.sif", "image.sif"


class Way(StrEnum):
    """How the image's files are read. The fastest first; the last one needs nothing of the engine."""

    MOUNTED = "mounted by the engine"
    LAYERS = "layers mounted as root"
    STREAM = "streamed by the engine"
    ARCHIVE = "saved as an archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """``lower``: overlayfs' lowerdir, relative to ``folder``, the uppermost layer first."""

    folder: Path
    lower: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Squashing:
    """``found`` is the engine's description of ``image``; ``folder`` has the skeleton, and gets the SIF."""

    docker: Docker
    runner: Runner
    apptainer: Apptainer
    image: str
    found: Mapping[str, Any]
    folder: Path
    compression: Compression
    timeout: float

    @property
    def in_container(self) -> bool:
        """A native apptainer may stand where its image cannot be made."""
        return not self.apptainer.native or engine.image_exists(self.docker, IMAGE)

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of the script after the way."""
        return (str(layout.root_offset(self.folder / SKELETON)), *self.compression.options)


def can(task: Squashing, way: Way) -> bool:
    """Return whether this method looks possible, before it is tried. Any image can be archived."""
    return way is Way.ARCHIVE or _WAYS[way].can(task)


def squash(task: Squashing, way: Way) -> bool:
    """Write ``WRITTEN`` into the task's folder; False where the engine refuses to begin.

    It is not whole before the end. ConvertError, EngineError when it fails.
    """
    if not (task.folder / SKELETON).exists():
        make_skeleton(task)
    target = task.folder / WRITTEN
    target.touch()  # by the user who shall own it: in a container it is written by root
    target.chmod(0o755)
    done = _WAYS[way].go(task)
    if done.returncode == engine.CANNOT_START:
        return False
    if not done.ok:
        raise ConvertError(_cause(done), place=str(target), hint="build.py doctor")
    layout.put_around(task.folder / SKELETON, target, str(task.found["Architecture"]))
    return True


def make_skeleton(task: Squashing) -> None:
    """The SIF that Apptainer makes of the image's configuration and one layer without a file."""
    archive = task.folder / "image.tar"
    names = ("Architecture", "Os", "Created", "Config")
    settings = {name.lower(): task.found[name] for name in names}
    with archive.open("wb") as file:
        write_archive(file, io.BytesIO(bytes(10240)), settings, task.image)
    words = ("build", "--force", "--disable-cache", SKELETON, f"docker-archive:{archive.name}")
    done = task.apptainer(*words, cwd=task.folder, timeout=task.timeout)
    if not done.ok:
        raise ConvertError(last_line(done), place=task.image, hint="build.py doctor")
    archive.unlink()


# -- the ways ---------------------------------------------------------------------------------------


def layers(docker: Docker, found: Mapping[str, Any]) -> Layers | None:
    """Where the image's layers lie; None where they cannot be had as folders of this machine."""
    if docker.driver != OVERLAY or not _is_here(docker):
        return None
    data: Mapping[str, str] = found.get("GraphDriver", {}).get("Data") or {}
    folders = [
        Path(part) for key in ("UpperDir", "LowerDir") for part in data.get(key, "").split(":") if part
    ]
    try:
        # The short names are the engine's own remedy for the length of a mount's options.
        lower = ":".join("l/" + (folder.parent / "link").read_text().strip() for folder in folders)
    except OSError:
        return None
    if not folders or len(lower) > MOUNT_PAGE:
        return None
    return Layers(folder=Path(docker.root) / OVERLAY, lower=lower)


def _is_here(docker: Docker) -> bool:
    return docker.host.startswith("unix://")


def _can_be_mounted(task: Squashing) -> bool:
    return _is_here(task.docker) and task.docker.mounts_images and task.in_container


def _mounted(task: Squashing) -> Completed:
    image = ImageMount(image=str(task.found["Id"]), target="/image")
    try:
        return _contained(task, "mounted", images=(image,))
    except EngineError as error:  # it is an experiment of the engine's
        return Completed(argv=(), returncode=engine.CANNOT_START, stdout="", stderr=error.cause)


def _has_layers(task: Squashing) -> bool:
    return os.geteuid() == 0 and layers(task.docker, task.found) is not None and task.in_container


def _of_layers(task: Squashing) -> Completed:
    found = layers(task.docker, task.found)
    assert found is not None, "_has_layers was asked"
    env = (("LAYERS", found.lower), ("LAYERS_FOLDER", str(found.folder)))
    seen = Mount(source=found.folder, target=str(found.folder))
    return _contained(task, "layers", mounts=(seen,), env=env, privileged=True)


def _can_be_streamed(task: Squashing) -> bool:
    return (_is_here(task.docker) and task.in_container) or has_squashfs_tools(task.runner)


def _streamed(task: Squashing) -> Completed:
    pipe = task.folder / "stream"
    os.mkfifo(pipe)
    described = _by_script(task, "describe")
    if not described.ok:
        return described
    of_apptainer = (task.folder / "added.pf").read_bytes()
    wanted = tar_stream.corrections(task.docker, task.runner, task.image, task.folder, of_apptainer)
    image = str(task.found["Id"])
    with ThreadPoolExecutor(1) as pool, engine.exported(task.docker, image) as chunks:
        reader = pool.submit(_by_script, task, "stream")
        tar_stream.feed(tar_stream.corrected(chunks, wanted), pipe, ended=reader.done)
        return reader.result()


def _by_script(task: Squashing, way: str) -> Completed:
    """In a container, or with the host's own tools: neither needs anything of the engine's."""
    if _is_here(task.docker) and task.in_container:
        return _contained(task, way)
    argv = ("sh", str(SCRIPT), way, *task.words)
    return task.runner(argv, cwd=task.folder, timeout=task.timeout)


def _contained(
    task: Squashing,
    way: str,
    *,
    mounts: tuple[Mount, ...] = (),
    images: tuple[ImageMount, ...] = (),
    env: tuple[tuple[str, str], ...] = (),
    privileged: bool = False,
) -> Completed:
    script, folder = f"/{SCRIPT.name}", str(task.folder)
    job = Job(
        image=IMAGE,
        argv=("sh", script, way, *task.words),
        workdir=folder,
        mounts=(
            Mount(source=SCRIPT, target=script),
            Mount(source=task.folder, target=folder, read_only=False),
            *mounts,
        ),
        images=images,
        env=(("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), *env),
        network=False,
        privileged=privileged,
    )
    return engine.run(task.docker, job, timeout=task.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    can: Callable[[Squashing], bool]
    go: Callable[[Squashing], Completed]


_WAYS: Mapping[Way, _How] = {
    Way.MOUNTED: _How(can=_can_be_mounted, go=_mounted),
    Way.LAYERS: _How(can=_has_layers, go=_of_layers),
    Way.STREAM: _How(can=_can_be_streamed, go=_streamed),
}
"""All but the archive, of which Apptainer makes the whole SIF."""


def has_squashfs_tools(runner: Runner) -> bool:
    """Return whether this machine has some that are new enough."""
    if shutil.which("sqfstar") is None:
        return False
    match = re.match(r"sqfstar version (\d+)\.(\d+)", runner(["sqfstar", "-version"], timeout=20).stdout)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST_SQUASHFS


def _cause(done: Completed) -> str:
    """The last line says that it failed; that the disk is full is said before."""
    full = [line for line in done.stderr.splitlines() if FULL.search(line)]
    return full[0] if full else last_line(done)
