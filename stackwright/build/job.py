"""One row to be worked on, with everything that has effects passed in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stackwright.build.bundle.file import Bundle
from stackwright.build.display import Display
from stackwright.core.errors import EngineError
from stackwright.core.model.compression import DEFAULT, Compression
from stackwright.core.model.record import Phase
from stackwright.core.model.row import World
from stackwright.core.model.site import Site
from stackwright.core.render import dockerfile
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import BRING_UP, Docker
from stackwright.engines.sif.sign import Signer
from stackwright.engines.stage_cache import Cache
from stackwright.host.project import Planned, Project
from stackwright.host.runner import Runner
from stackwright.probe.outside.documents import Documents

FACTS = "sif-of-definition"
"""The folder of facts of a SIF of a definition file; those of the other worlds have the world's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a command asks for its rows: which phases, ``jobs`` rows at a time, and how.

    ``gpu``: rows that ask for it are tested on the GPU while they are built. ``compression`` is that of the
    SIF's file system, ``signer`` signs the file. ``bundle``: what builds take instead of the network.
    """

    phases: tuple[Phase, ...]
    jobs: int = 1
    gpu: bool = False
    compression: Compression = DEFAULT
    signer: Signer | None = None
    bundle: Bundle | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """``engine`` is None where there is none: a definition file is built by an apptainer of the host.

    ``apptainer`` is asked for when it is needed: finding one may mean to build its image.

    ``gpu``: rows that ask for it are tested on the GPU while they are built. ``signer`` signs the SIF,
    ``compression`` is that of its file system.
    ``cache`` is the registry that shares bases and stages with other nodes, ``stages`` what is in it of this
    row. ``one_of_many``: what another node finished is finished, though this one's engine has no image of it.
    ``image`` is probed instead of the row's image, if it is not "", and ``outside``, if any, reads its files.
    ``bundle`` has what the build needs, which then asks no network.
    ``stop`` is set when the user interrupts: only the main thread gets the signal.
    """

    project: Project
    row: Planned
    engine: Docker | None
    apptainer: Callable[[], Apptainer]
    site: Site
    runner: Runner
    display: Display
    gpu: bool = False
    signer: Signer | None = None
    compression: Compression = DEFAULT
    cache: Cache | None = None
    stages: tuple[str, ...] = ()
    one_of_many: bool = False
    image: str = ""
    bundle: Bundle | None = None
    outside: Callable[[], Documents] | None = None
    stop: threading.Event = field(default_factory=threading.Event, compare=False)

    @property
    def docker(self) -> Docker:
        if self.engine is None:
            raise EngineError("no container engine answers", place=self.id, hint=BRING_UP)
        return self.engine

    @property
    def id(self) -> str:
        return self.row.stack.id

    @property
    def reference(self) -> str:
        return self.image or dockerfile.reference(self.row.recipe)

    @property
    def folder(self) -> Path:
        return self.project.folder(self.row.recipe)

    def facts(self, world: World) -> Path:
        return self.folder / "facts" / (FACTS if world is World.DEFINITION else world)
