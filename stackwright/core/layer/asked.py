"""What a layer asks of the package index: its parent stays as it is, and what would change it is refused.

The rules are those of ``pip`` in a row, with the parent's lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement

from stackwright.core.components.table import of
from stackwright.core.config import additions
from stackwright.core.errors import RejectedError, UsageError
from stackwright.core.model.added.distributions import Added, Addition
from stackwright.core.model.row import Cell, Lock, Package, Stack
from stackwright.core.model.target import CUDA
from stackwright.core.resolve.additions import Answers, apart
from stackwright.core.resolve.lockfile import PIN
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import Clash, Ruling, weigh
from stackwright.core.rules.table import CELL_RULES

OF_ADDITIONS = "pip-"
"""How the names of the rules on what a row adds begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """``pins`` are requirement lines with hashes. ``there``: what the parent has as it is asked for."""

    wanted: tuple[Addition, ...]
    there: tuple[Package, ...]
    lock: Lock
    new: tuple[Package, ...]
    pins: str


def read(text: str, place: str) -> tuple[Addition, ...]:
    """Read a requirements file. UsageError names the line that is no requirement of a layer."""
    found = []
    for number, line in additions.lines(text):
        if additions.normal(line) is None:
            hint = "a layer has what a row's pip has: names with versions, extras and markers; docs/layer.md"
            raise UsageError(f"{line[:80]!r} is not a requirement", place=f"{place}:{number}", hint=hint)
        found.append((line, ()))
    if not found or len(found) > additions.MOST:
        what = "it names no requirement" if not found else f"it has more than {additions.MOST} requirements"
        raise UsageError(what, place=place, hint="one requirement on each line: transformers>=4.45")
    return additions.together(found)


def split(
    wanted: Iterable[Addition], inside: Mapping[str, str]
) -> tuple[tuple[Addition, ...], tuple[Package, ...]]:
    """Return what is to be asked for, and what the parent has in a version that is asked for.

    ``inside`` has the distributions of the parent by name, with those that were built for it.
    """
    open_, there = [], []
    for addition in wanted:
        name = additions.name(addition)
        version = inside.get(name)
        if (
            version is not None
            and not Requirement(addition.requirement).extras
            and additions.accepts(addition, version)
        ):
            there.append(Package(name=name, version=version))
        else:
            open_.append(addition)
    return tuple(open_), tuple(there)


def inside(stack: Stack) -> dict[str, str]:
    """Return the parent's distributions by name, with those that were built for it and are in no lock."""
    versions = dict(stack.communication)
    built = {layer.package: versions[layer.name] for layer in of(stack.communication)}
    return {**built, **{package.name: package.version for package in stack.lock.packages}}


def cell(stack: Stack, wanted: tuple[Addition, ...]) -> Cell:
    """Return the parent as a row that adds what is asked for: what the rules are asked about."""
    return Cell(
        id=stack.id, provider=stack.provider, os=stack.os, python=".".join(stack.python.split(".")[:2]),
        mpi=stack.mpi, components=tuple(sorted((*stack.frameworks, *stack.communication))), cuda=stack.cuda,
        nccl=stack.nccl, gcc=stack.gcc, gpu_arch=stack.gpu_arch, flavour=stack.flavour, pip=wanted,
        platform=stack.platform.named, allow=stack.allowed,
    )  # fmt: skip


def constraints(stack: Stack) -> str:
    """Return the parent's versions: uv may take no other. Its NCCL is an override, as in the row."""
    own = CUDA.wheel("nccl", stack.cuda)
    return "".join(
        f"{package.name}=={package.version}\n" for package in stack.lock.packages if package.name != own
    )


def refuse_fields(asked: Cell) -> None:
    """Raise RejectedError where a rule on additions refuses a requirement by its name."""
    for rule in (rule for rule in CELL_RULES if rule.name.startswith(OF_ADDITIONS)):
        answer = rule.ask(asked)
        if isinstance(answer, Clash) and weigh(rule, answer, asked.allow) is Ruling.REFUSES:
            raise _rejected(asked.id, rule.name, answer)


def answered(stack: Stack, asked: Cell, answer: str, there: Sequence[Package]) -> Resolved:
    """Read uv's answer. RejectedError where the parent would change, or get a second one of its libraries."""
    alone = "".join(f"{package.name}=={package.version}\n" for package in stack.lock.packages)
    found = apart(Answers(alone=alone, both=answer))
    pins = (PIN.fullmatch(line) for line in found.added.splitlines())
    new = tuple(Package(name=pin[1], version=pin[2]) for pin in pins if pin)
    lock = replace(
        stack.lock, packages=(*stack.lock.packages, *new), added=(*stack.lock.added, *new),
        asked_by=found.asked_by, moved=found.moved,
    )  # fmt: skip
    for rule in (rule for rule in LOCK_RULES if rule.name.startswith(OF_ADDITIONS)):
        clash = rule.ask(asked, lock)
        if clash and weigh(rule, clash, asked.allow) is Ruling.REFUSES:
            raise _rejected(asked.id, rule.name, clash)
    for name, before, now in found.moved:
        cause = (
            f"the parent has {name} {before}, and {now} is asked for: a layer changes no file of its parent"
        )
        raise RejectedError(cause, place=f"the layer on {asked.id}")
    return Resolved(wanted=asked.pip, there=tuple(there), lock=lock, new=new, pins=found.added)


def with_layer(stack: Stack, found: Resolved) -> Stack:
    """Return the row that parent and layer together are."""
    named = {additions.name(addition): addition.modules for addition in found.wanted}
    more = tuple(
        Added(name=package.name, version=package.version, modules=named[package.name])
        for package in found.new if package.name in named
    )  # fmt: skip
    return replace(stack, lock=found.lock, pip=(*stack.pip, *more))


def of_label(stack: Stack, label: str) -> Stack:
    """Return the row with what an image's label says that a layer added; the row where it says nothing new.

    A label proves nothing. What it names is proven as what a row adds; it can name nothing of the parent.
    """
    try:
        said = json.loads(label)["added"]
        pins = [PIN.fullmatch(line) for line in said]
    except (ValueError, KeyError, TypeError, RecursionError):
        return stack
    own = inside(stack)
    new = tuple(Package(name=pin[1], version=pin[2]) for pin in pins if pin and pin[1] not in own)
    if not new or not stack.lock.packages:
        return stack
    lock = replace(stack.lock, packages=(*stack.lock.packages, *new), added=(*stack.lock.added, *new))
    more = tuple(Added(name=package.name, version=package.version) for package in new)
    return replace(stack, lock=lock, pip=(*stack.pip, *more))


def _rejected(row: str, rule: str, clash: Clash) -> RejectedError:
    values = " with ".join(f"{name} {value}" for name, value in clash.values)
    cause = f"{values}: {clash.reason} (rule {rule})"
    hint = "a layer adds what its parent lacks; another framework or CUDA is another row of the matrix"
    return RejectedError(cause, place=f"the layer on {row}", hint=hint)
