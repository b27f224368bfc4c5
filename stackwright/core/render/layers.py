"""Purposes of an image's layers, from the stages of its Dockerfile. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stackwright.core.model.row import Recipe
from stackwright.core.render.instructions import logical_lines

LAYERED = ("RUN ", "COPY ", "ADD ")
"""Instructions that make a layer, in a Dockerfile and in an image's history."""

PURPOSES: Mapping[str, tuple[str, ...]] = {
    "base": ("python",),
    "final": ("runtime packages", "frameworks", "horovod", "row"),
}
"""Of a stage's layers, in their order. Where a stage is not named, its own name says it."""

SHIPPED = "final"
_FROM = re.compile(r"FROM\s+(?P<base>\S+)\s+AS\s+(?P<stage>\S+)")


def purposes(recipe: Recipe) -> tuple[str, ...]:
    """A word for each layer that the recipe adds to the image that it starts from, in their order."""
    bases: dict[str, str] = {}
    counts: dict[str, int] = {}
    stage = ""
    for line in logical_lines(recipe.text("Dockerfile")):
        if found := _FROM.fullmatch(line):
            stage = found["stage"]
            bases[stage], counts[stage] = found["base"], 0
        elif stage and line.startswith(LAYERED):
            counts[stage] += 1
    chain = reversed(tuple(_below(SHIPPED, bases)))
    return tuple(word for name in chain for word in _words(name, counts[name]))


def _below(stage: str, bases: Mapping[str, str]) -> Iterator[str]:
    while stage in bases:
        yield stage
        stage = bases[stage]


def _words(stage: str, count: int) -> tuple[str, ...]:
    named = PURPOSES.get(stage, ())[:count]
    return (*named, *(stage for _ in range(count - len(named))))


def of_history(recipe: Recipe, created_by: tuple[str, ...]) -> tuple[str, ...]:
    """The same for each line of an image's history, oldest first; "base" for those below the recipe's."""
    words = list(purposes(recipe))
    found = []
    for line in reversed(created_by):
        made = line.startswith(LAYERED) and words
        found.append(words.pop() if made else "base")
    return tuple(reversed(found))
