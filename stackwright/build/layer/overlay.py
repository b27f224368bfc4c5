"""Packs a layer for a SIF: a squashfs that Apptainer lays over the SIF's own files."""

from __future__ import annotations

import shutil
from pathlib import Path

from stackwright.core.errors import ConvertError, EngineError
from stackwright.core.model.compression import DEFAULT
from stackwright.core.model.epoch import EPOCH
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import IMAGE
from stackwright.engines.docker import Docker, Mount
from stackwright.engines.tool_image import last_line
from stackwright.host.files import draft_of
from stackwright.host.runner import Completed, Runner

TIMEOUT = 1800
TIMES = ("-mkfs-time", str(EPOCH), "-all-time", str(EPOCH))
OPTIONS = ("-all-root", "-noappend", "-quiet", "-no-progress", "-no-xattrs", *TIMES, *DEFAULT.options)


def write(tree: Path, target: Path, *, docker: Docker | None, runner: Runner) -> int:
    """Write the tree as ``target``, of root and with the time of all our builds; return its bytes.

    ConvertError where mksquashfs fails.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with draft_of(target) as draft:
        draft.touch()  # by the user who shall own it: in a container it is written by root
        done = _packed(tree, draft, docker, runner)
        if not done.ok:
            raise ConvertError(f"the overlay cannot be written: {last_line(done)}", place=str(target))
    return target.stat().st_size


def _packed(tree: Path, draft: Path, docker: Docker | None, runner: Runner) -> Completed:
    words = (str(tree), str(draft), *OPTIONS)
    if docker is not None and docker.host.startswith("unix://") and engine.image_exists(docker, IMAGE):
        to = draft.parent
        mounts = (
            Mount(source=tree, target=str(tree)), Mount(source=to, target=str(to), read_only=False)
        )  # fmt: skip
        job = engine.Job(image=IMAGE, argv=("mksquashfs", *words), mounts=mounts, network=False)
        return engine.run(docker, job, timeout=TIMEOUT)
    program = shutil.which("mksquashfs")
    if program is None:
        raise EngineError("there is no mksquashfs to pack the overlay with", place=str(draft))
    return runner([program, *words], timeout=TIMEOUT)
