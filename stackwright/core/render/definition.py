"""Stack to Recipe for Apptainer: a definition file, and everything that it takes from its folder. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from stackwright.core.checks.probes import words
from stackwright.core.components.table import BY_NAME, of
from stackwright.core.model.labels import PROVIDER, VERSION, version
from stackwright.core.model.row import MpiFlavour, Recipe, Stack, Tier
from stackwright.core.render.dockerfile import context, environment, labels, recipe, render, values
from stackwright.core.render.sources import Sources

MPI_TITLES = {MpiFlavour.OPENMPI: "Open MPI", MpiFlavour.MPICH: "MPICH"}
NOT_IN_TEST = {Tier.COLLECTIVE: "ranks need more than a build gives them", Tier.GPU: "a build has no GPU"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An application of the SIF. ``files`` are of examples/; the first is the program."""

    name: str
    title: str
    files: tuple[str, ...]


def render_definition(stack: Stack, sources: Sources) -> Recipe:
    """Return the folder of one definition file; its key is its own, and that of the image stays as it is."""
    templates = environment(sources)
    templates.filters["definition_label"] = definition_label
    template = templates.get_template("singularity/Definition.j2")
    given = (
        values(stack, sources) | _own_values(stack) | {"labels": sif_labels(stack, render(stack, sources))}
    )
    text = template.render(**given)
    files = {
        **context(stack, sources),
        file_name(stack): (text + "\n").encode(),
        **dict(sources.companions),
    }
    return recipe(stack, files)


def application_files(stack: Stack, made: Recipe) -> dict[str, str]:
    """Return the SHA-256 of each file that an application of the SIF is made of, by its path there."""
    files = dict(made.files)
    return {
        f"/scif/apps/{example.name}/{'train.py' if name == example.files[0] else name}":
            hashlib.sha256(files[f"examples/{name}"]).hexdigest()
        for example in _examples(stack) for name in example.files
    }  # fmt: skip


def sif_labels(stack: Stack, image: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the labels that the file sets: those of ``image``, the recipe of the row's Docker image.

    The provider is among them, which that inherits from its base. Its key is not: it names another build.
    """
    return ((PROVIDER, stack.provider), (VERSION, version(image)), *labels(stack))


def file_name(stack: Stack) -> str:
    return f"{stack.id}.def"


def definition_label(value: str) -> str:
    """A label is the rest of its line, and Apptainer knows no way to quote in it."""
    if value != value.strip() or not value or re.search(r"[\x00-\x1f\x7f]|\{\{", value):
        raise ValueError(f"{value[:60]!r} cannot be a label of a definition file")
    return value


def _own_values(stack: Stack) -> dict[str, Any]:
    return {
        "examples": _examples(stack),
        "mpi_text": f"{MPI_TITLES[stack.mpi.flavour]} {stack.mpi.version}",
        "probe_words": " ".join(words(stack, 0, NOT_IN_TEST)),
    }


def _examples(stack: Stack) -> tuple[Example, ...]:
    return tuple(_example(name) for layer in of(stack.communication) for name in layer.examples(stack))


def _example(module: str) -> Example:
    files = (f"{module}_mnist.py", "common.py", "digits.py")
    return Example(name=module, title=BY_NAME[module].title, files=files)
