"""Images on their way between the machines of one night: in the registry by digest alone, without any tag."""

from __future__ import annotations

from dataclasses import replace

from stackwright.core.errors import EngineError, PublishError, RecordError
from stackwright.core.model.record import Image, Record
from stackwright.core.model.row import World
from stackwright.engines import docker as engine
from stackwright.host.files import row_lock
from stackwright.host.project import Planned
from stackwright.publish.rows import Publisher, alone, push_image
from stackwright.records import files as record


def push(by: Publisher, row: Planned) -> None:
    """Push whatever the verdict is: an image without a tag is not found, and tags pass the gate."""
    with alone(by), row_lock(by.project.out / row.stack.id, by.say):
        push_image(by, row, _known(by, row))


def fetch(by: Publisher, row: Planned) -> None:
    """Pull what another machine pushed, under the name that it had there; its record is here already.

    The verdict over the image is forgotten: it is to be proven with what this machine has.
    """
    with row_lock(by.project.out / row.stack.id, by.say):
        known = _known(by, row)
        assert known.image is not None
        if not known.image.digest:
            hint = "it is in the log of the job that built it"
            raise PublishError("it was not pushed", place=row.stack.id, hint=hint)
        place = f"{by.registry.access.host}/{by.named(row).repository}@{known.image.digest}"
        by.say(f"{row.stack.id}: pulling {place}")
        _pull(by, place, known.image)
        others = tuple(verdict for verdict in known.verdicts if verdict.world is not World.DOCKER)
        record.write(replace(known, verdicts=others), by.project.records)


def _known(by: Publisher, row: Planned) -> Record:
    known = record.latest(by.project.records, row.stack.id, row.recipe.key)
    if known is None or known.image is None:
        hint = "records come from the machine that built it, below out/records"
        raise RecordError("no record of its image is here", place=row.stack.id, hint=hint)
    return known


def _pull(by: Publisher, place: str, wanted: Image) -> None:
    """By the SDK: with a wrong password the program asks for another one, and waits for it."""
    name, _, tag = wanted.reference.rpartition(":")
    hint = "docker login; the engine must trust the registry as well"
    try:
        with engine.connected(by.docker) as client:
            image = client.images.pull(place)
            if image.id != wanted.id:
                other = "an engine with the containerd image store has other ids: turn it off there"
                raise PublishError("the engine calls what was pulled by another id", place=place, hint=other)
            image.tag(name, tag=tag)
        engine.mark(by.docker, wanted.reference)
    except EngineError as error:
        raise PublishError(error.cause, place=place, hint=hint) from error
