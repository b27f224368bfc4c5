"""How a row's image is run, on one node and over several: the lines that the page shows to be pasted."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from stackwright.core.launch.examples import Recipe, recipes
from stackwright.core.model.record import Record
from stackwright.records.report.wording import State, state

SHELL = "Shell"
TRAIN = "mpirun -np 2 --bind-to none python train.py"
"""Open MPI by itself binds so few ranks to a core each. Hydra reads the option with one dash or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    what: str
    text: str


def commands(record: Record) -> tuple[tuple[str, tuple[Command, ...]], ...]:
    """Return how to run the image; one that failed is only to be looked into."""
    look = state(record) is State.FAILED
    pairs = (("Docker", _docker(record)), ("Apptainer", _apptainer(record)))
    kept = (
        (name, tuple(command for command in made if command.what == SHELL or not look))
        for name, made in pairs
    )
    return tuple((name, made) for name, made in kept if made)


def launches(record: Record) -> tuple[Recipe, ...]:
    if record.image is None or state(record) is State.FAILED:
        return ()
    return recipes(record, _published(record) or record.image.reference)


def _published(record: Record) -> str:
    """Return the reference by digest, to pull it; empty while the image is only where it was built."""
    if record.image is None or not record.image.digest:
        return ""
    head, _, last = record.image.reference.rpartition("/")
    name = last.partition("@")[0].partition(":")[0]
    return f"{head}/{name}@{record.image.digest}" if head else f"{name}@{record.image.digest}"


def _docker(record: Record) -> tuple[Command, ...]:
    if record.image is None:
        return ()
    published = _published(record)
    name = shlex.quote(published or record.image.reference)
    start = "docker run --rm --gpus all --ipc=host --ulimit memlock=-1"
    pull = (Command(what="Pull", text=f"docker pull {name}"),) if published else ()
    return (
        *pull,
        Command(what=SHELL, text=f"{start} -it {name} bash"),
        Command(
            what="Train on 2 GPUs",
            text=f'{start} -v "$PWD":/work -w /work {name} \\\n  {TRAIN}',
        ),
    )


def _apptainer(record: Record) -> tuple[Command, ...]:
    published = _published(record)
    built = record.sif.path if record.sif else ""
    file = f"{record.row}.sif" if published else built
    if not file:
        return ()
    name = shlex.quote(file)
    source = shlex.quote(f"docker://{published}")
    pull = (Command(what="Pull", text=f"apptainer pull {name} {source}"),) if published else ()
    return (
        *pull,
        Command(what=SHELL, text=f"apptainer exec --nv {name} bash"),
        Command(what="Train on 2 GPUs", text=f"apptainer exec --nv {name} {TRAIN}"),
    )
