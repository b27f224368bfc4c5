"""Horovod, the communication layer that is compiled for an image."""

from __future__ import annotations

from stackwright.core.components.component import Component, Document, Field, Kind
from stackwright.core.components.horovod import attack, built, facts
from stackwright.core.components.horovod.build import BUILD, extensions
from stackwright.core.components.horovod.launcher import horovodrun
from stackwright.core.components.horovod.rules import LOCK_RULES, PATCHED, RULES
from stackwright.core.components.horovod.vulnerabilities import KNOWN
from stackwright.core.model.row import Stack, Tier

LAUNCHERS = ("mpi", "gloo")
"""What the collective probe starts ranks with; each is a controller of Horovod."""


def runs(stack: Stack) -> tuple[str, ...]:
    """Keras trains through TensorFlow's extension."""
    keras = ("keras",) if {"keras", "tensorflow"} <= set(stack.modules) else ()
    return tuple(f"{name}/{launcher}" for name in (*extensions(stack), *keras) for launcher in LAUNCHERS)


def joins(stack: Stack) -> str:
    """The extension that comes first: two of them in one process are two frameworks' business."""
    return next((f"horovod.{name}" for name in extensions(stack)), "")


def words(stack: Stack, gpus: int) -> dict[Tier, tuple[str, ...]]:
    return {
        Tier.BUILT: (*(f"built={name}" for name in extensions(stack)), "attack"),
        Tier.COLLECTIVE: tuple(f"collective={run}" for run in runs(stack)),
        Tier.GPU: tuple(f"gpu={name}/{gpus}" for name in extensions(stack) if gpus),
    }


HOROVOD = Component(
    name="horovod",
    title="Horovod",
    kind=Kind.COMMUNICATION,
    package="horovod",
    license="Apache-2.0",
    source="https://github.com/horovod/horovod",
    field=Field(
        description="Horovod, compiled from its source.", example="0.28.1", prefix="hvd", cost=2.5,
        pep440=False, releases=(facts.RELEASE,),
    ),
    requires=lambda cell: facts.NEEDS,
    locked=False,
    words=words,
    runs=runs,
    joins=joins,
    examples=lambda stack: stack.modules,
    checks=(*built.RULES, *attack.RULES),
    build=BUILD,
    patched=True,
    launchers=(("horovodrun", horovodrun),),
    vulnerabilities=KNOWN,
    rules=RULES,
    lock_rules=LOCK_RULES,
    everywhere=(PATCHED,),
    advice=facts.ADVICE,
    documents=(
        Document(title="What Horovod supports", headings=("since Horovod", "field", "lowest", "source"),
                 rows=facts.FLOORS),
        Document(title="Frameworks that Horovod has no patch for",
                 headings=("framework", "from", "why", "source"), rows=facts.UNPATCHED),
    ),
)  # fmt: skip
