"""Purposes of an image's layers, from the stages of its Dockerfile. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stackwright.core.benchmarks import nccl_tests
from stackwright.core.model.row import Recipe
from stackwright.core.ofi import plugin
from stackwright.core.render.dockerfile import COPIED
from stackwright.core.render.instructions import logical_lines
from stackwright.core.render.sources import ARCHIVE

LAYERED = ("RUN ", "COPY ", "ADD ")
"""Instructions that make a layer, in a Dockerfile and in an image's history."""

SHIPPED = "final"
COMPILED, ADDITIONS = "compile/build-distribution.sh", "additions.txt"
"""In the context of a row that compiles or adds something."""
ARCHIVED = (plugin.NAME, nccl_tests.NAME)
"""What is compiled from an archive has a folder of its name in the context, and a layer."""
_PACKAGES = re.compile(r"^COPY --link --from=frameworks /layers/(\S+) /$", re.M)
_FROM = re.compile(r"FROM\s+(?:--platform=\S+\s+)?(?P<base>\S+)\s+AS\s+(?P<stage>\S+)")


def purposes(recipe: Recipe, communication: Iterable[str]) -> tuple[str, ...]:
    """Return a word for each layer that the recipe adds to the image that it starts from, in their order.

    ``communication`` are the names of the layers that the last stage installs.
    """
    files = dict(recipe.files)
    apt = ("apt",) if "apt" in json.loads(files.get("row.json", b"{}")) else ()
    added = (word for word, name in (("compiled", COMPILED), ("pip", ADDITIONS)) if name in files)
    own = (*added, *(("files",) if _copies(files) else ()))
    packages = _PACKAGES.findall(recipe.text("Dockerfile"))
    layers = (*communication, *(name for name in ARCHIVED if f"{name}/{ARCHIVE}" in files))
    shipped = ("runtime packages", *apt, *packages, *layers, *own, "row")
    purposes = {"base": ("python",), SHIPPED: shipped}
    bases: dict[str, str] = {}
    counts: dict[str, int] = {}
    stage = ""
    for line in logical_lines(recipe.text("Dockerfile")):
        if match := _FROM.fullmatch(line):
            stage = match["stage"]
            bases[stage], counts[stage] = match["base"], 0
        elif stage and line.startswith(LAYERED):
            counts[stage] += 1
    chain = reversed(tuple(_below(SHIPPED, bases)))
    return tuple(word for name in chain for word in _words(name, counts[name], purposes.get(name, ())))


def _copies(files: Iterable[str]) -> bool:
    return any(name.startswith(f"{COPIED}/") for name in files)


def _below(stage: str, bases: Mapping[str, str]) -> Iterator[str]:
    while stage in bases:
        yield stage
        stage = bases[stage]


def _words(stage: str, count: int, purposes: tuple[str, ...]) -> tuple[str, ...]:
    """Where a layer has no purpose, the name of its stage says it."""
    named = purposes[:count]
    return (*named, *(stage for _ in range(count - len(named))))


def of_history(recipe: Recipe, communication: Iterable[str], created_by: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same for each line of an image's history, oldest first; "base" for those below the
    recipe's."""
    words = list(purposes(recipe, communication))
    found = []
    for line in reversed(created_by):
        made = line.startswith(LAYERED) and words
        found.append(words.pop() if made else "base")
    return tuple(reversed(found))


def digests(listed: Sequence[str], history: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return the digest of the layer that each line of an image's history made, "" for a line without one.

    ``listed`` are the digests of the image's layers, ``history`` each line's instruction and bytes, both
    oldest first. An engine does not say which layer is of which line. Where their number fits no way of
    counting the lines, all are "": a WORKDIR makes a layer without files, or none.
    """
    lines = tuple(history)
    for words in (LAYERED, (*LAYERED, "WORKDIR ")):
        made = [size > 0 or text.startswith(words) for text, size in lines]
        if sum(made) == len(listed):
            ordered = iter(listed)
            return tuple(next(ordered) if layered else "" for layered in made)
    return ("",) * len(lines)
