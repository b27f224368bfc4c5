"""Asks uv for what a layer needs, with the parent's versions as constraints."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from stackwright.core.errors import RejectedError, UsageError
from stackwright.core.layer import asked
from stackwright.core.layer.asked import Resolved
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Stack
from stackwright.core.model.site import Site
from stackwright.core.resolve.additions import refusal
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.host.upstream.locks import compile_pins

NOTHING = "the parent has all of it"
MOST = 2**20
"""Bytes of a requirements file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``wheels`` is a folder with more wheels than the index has."""

    stack: Stack
    wanted: tuple[Addition, ...]
    wheels: Path | None = None


def requirements(path: Path) -> tuple[Addition, ...]:
    """Read a requirements file. UsageError where it cannot be read, or is none."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", place=str(path), hint="-r requirements.txt") from error
    if len(text) > MOST:
        raise UsageError(
            f"it has more than {MOST} bytes", place=str(path), hint="one requirement on each line"
        )
    return asked.read(text, path.name)


def resolve(question: Question, *, site: Site, runner: Runner) -> Resolved:
    """Return what is to be installed. RejectedError where a rule or the index refuses it."""
    stack = question.stack
    wanted, there = asked.split(question.wanted, asked.inside(stack))
    if not wanted:
        names = ", ".join(f"{package.name} {package.version}" for package in there)
        raise UsageError(f"{NOTHING}: {names}", place=stack.id, hint="there is no layer to make")
    cell = asked.cell(stack, wanted)
    asked.refuse_fields(cell)
    with tempfile.TemporaryDirectory(prefix="stackwright-layer-") as folder:
        held = Path(folder) / "parent.txt"
        held.write_text(asked.constraints(stack))
        more = ("--find-links", question.wheels) if question.wheels else ()
        answer = compile_pins(
            cell, tuple(addition.requirement for addition in wanted), uv=settings.UV, runner=runner,
            environment=dict(site.uv), options=("--no-config", "--constraints", held, *more),
        )  # fmt: skip
    if not answer.ok:
        why = refusal(answer.stderr, cell).removeprefix("the row's pip: ")
        cause = f"{why}; a layer changes no file of its parent, so its versions are kept"
        raise RejectedError(cause, place=f"the layer on {stack.id}")
    return asked.answered(stack, cell, answer.stdout, there)
