"""What an image or a SIF says about itself: whose labels it has, and what was added since.

An image that is built FROM a row's image inherits the labels, and is not the row's image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stackwright.build.sif import convert
from stackwright.core.checks import origin
from stackwright.core.credentials import redact
from stackwright.core.errors import EngineError, UsageError
from stackwright.core.model.labels import KEY, ROW
from stackwright.core.model.row import World
from stackwright.core.render import labelled
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.sif.sign import file_sha256

MADE_OF = "org.label-schema.usage.singularity.deffile.bootstrap"
"""Apptainer's label for what a SIF was built from."""
OF_A_SIF = frozenset({"localimage", "library", "oras", "shub"})
"""Its values where that was another SIF."""
NO_LABELS = "--image is for images and SIFs with the labels of a row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """``row`` and ``key`` are those of its labels, ``added`` the instructions since the row's own.

    ``id`` is the engine's, or the SHA-256 of the file. ``whole``: the row's instructions are in its history.
    """

    image: str
    id: str
    world: World
    row: str
    key: str
    labels: Mapping[str, str]
    added: tuple[str, ...] = ()
    whole: bool = True

    @property
    def short(self) -> str:
        return self.id.removeprefix("sha256:")[:12]

    @property
    def of(self) -> str:
        return f"{self.row} {self.key[:12]}"

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the added instructions that change what a container is started with."""
        return origin.settings(self.added, labelled.user_of(self.labels))

    @property
    def title(self) -> str:
        """Name it by what it was built from: no image with other files gets the name of the row's."""
        if self.added:
            return f"derived from {self.of}, and not that image"
        if self.world is World.SIF:
            return f"a SIF with the labels of {self.of}"
        if not self.whole:
            return f"an image with the labels of {self.of}, and with another history"
        return f"an image with the labels and the history of {self.of}, to which nothing was added"


def is_file(image: str) -> bool:
    """Tell a path of a SIF from the name of an image, which has no such end and may be a path as well."""
    return image.endswith(".sif") or Path(image).is_file()


def of_image(docker: Docker, image: str) -> Labelled:
    """Read an image of the engine. UsageError where it has no row's labels."""
    found = engine.inspect(docker, image)
    if found is None:
        raise EngineError("the engine has no such image", place=image, hint="docker pull, or docker load")
    history = [layer.created_by for layer in engine.layers(docker, image)]
    labels: Mapping[str, str] = found["Config"].get("Labels") or {}
    _require(image, labels)
    return Labelled(
        image=image, id=found["Id"], world=World.DOCKER, row=labels[ROW], key=labels[KEY], labels=labels,
        added=tuple(redact(line) for line in origin.added(history)), whole=origin.is_of_row(history),
    )  # fmt: skip


def of_sif(apptainer: Apptainer, path: Path) -> Labelled:
    """Read a SIF. ConvertError where it is none, UsageError where it has no row's labels."""
    if not path.is_file():
        raise UsageError("there is no such file", place=str(path), hint="name a .sif, or an image")
    labels = convert.labels(apptainer, path)
    _require(str(path), labels)
    made_of = labels.get(MADE_OF, "")
    added = (f"a definition file with Bootstrap: {made_of}",) if made_of in OF_A_SIF else ()
    return Labelled(
        image=str(path), id=file_sha256(path), world=World.SIF, row=labels[ROW], key=labels[KEY],
        labels=labels, added=added, whole=False,
    )  # fmt: skip


def _require(image: str, labels: Mapping[str, str]) -> None:
    if not (labels.get(ROW) and labels.get(KEY)):
        said = (
            f"its labels name the row {labels[ROW]!r}, and no key"
            if labels.get(ROW)
            else "it has no row's labels"
        )
        raise UsageError(said, place=image, hint=NO_LABELS)
