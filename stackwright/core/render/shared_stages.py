"""What several rows have in common: the beginning of a stage, built once and shared by a registry. Pure.

A node has nothing of what another one has in its cache. What two rows share is therefore built by one of the
nodes before either row, pushed, and found in the registry by both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stackwright.core.model.row import Recipe
from stackwright.core.render.instructions import Instruction, instructions, logical_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stage up to one of its instructions, in all of ``rows``. ``row`` is one of them, whose Dockerfile is
    cut after ``end`` logical lines to build it; ``after`` are the identities of other pieces below it."""

    identity: str
    stage: str
    row: str
    end: int
    rows: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def name(self) -> str:
        """For a person: what is built, and how many rows wait for it."""
        return f"{self.stage} for {len(self.rows)} rows"


def pieces(recipes: Iterable[Recipe]) -> tuple[Piece, ...]:
    """Return the longest beginnings of stages that at least two of the rows share, each after what it
    builds on."""
    files = {recipe.id: tuple(instructions(recipe)) for recipe in recipes}
    users: dict[str, list[str]] = {}
    for row, found in files.items():
        for instruction in found:
            users.setdefault(instruction.identity, []).append(row)
    every = {
        instruction.identity: (row, instruction)
        for row, found in reversed(files.items())
        for instruction in found
    }
    cuts = {
        instruction.identity
        for found in files.values()
        for instruction, following in zip(found, (*found[1:], None), strict=True)
        if len(users[instruction.identity]) > 1 and not _goes_on(instruction, following, users)
    }
    below = _below({identity: instruction for identity, (_, instruction) in every.items()})
    order = {instruction.identity: None for found in files.values() for instruction in found}
    made = (
        Piece(
            identity=identity, stage=instruction.stage, row=row, end=instruction.end,
            rows=tuple(users[identity]),
            after=tuple(known for known in order if known in cuts and known in below[identity]),
        )
        for identity, (row, instruction) in (
            (identity, every[identity]) for identity in order if identity in cuts
        )
    )  # fmt: skip
    return tuple(made)


def cut(recipe: Recipe, end: int) -> Recipe:
    """Its Dockerfile ends with an instruction: to BuildKit, what is left has the digests that it had."""
    text = "\n".join(logical_lines(recipe.text("Dockerfile"))[:end]) + "\n"
    return replace(recipe, files=tuple({**dict(recipe.files), "Dockerfile": text.encode()}.items()))


def _goes_on(instruction: Instruction, following: Instruction | None, users: Mapping[str, list[str]]) -> bool:
    """Return whether the next instruction of the stage is shared by as many rows: then the piece ends
    later."""
    return (
        following is not None
        and following.stage == instruction.stage
        and len(users[following.identity]) == len(users[instruction.identity])
    )


def _below(every: Mapping[str, Instruction]) -> dict[str, frozenset[str]]:
    """Return all that an instruction builds on, directly or not."""
    found: dict[str, frozenset[str]] = {}

    def below(identity: str) -> frozenset[str]:
        if identity not in found:
            direct = every[identity].after
            found[identity] = frozenset(direct).union(*(below(earlier) for earlier in direct))
        return found[identity]

    for identity in every:
        below(identity)
    return found
