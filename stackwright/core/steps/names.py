"""What the steps of a build are called for people: "frameworks", "compilers and MPI". Pure.

A step is known by its stage and by what its instruction does. The text of the instruction stays in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stackwright.core.components.table import BY_NAME
from stackwright.core.model.record import Record
from stackwright.core.model.row import Recipe
from stackwright.core.render.layers import LAYERED, SHIPPED

VERTEX = re.compile(r"\[(?P<head>[^\]]*?)(?P<number>\d{1,4})/\d{1,4}\] +(?P<text>.+)", re.DOTALL)
"""How BuildKit calls what an instruction does: `[final 2/5] RUN …`; other steps are its own."""

FRAMEWORKS, DOWNLOADED = "frameworks", "own Python packages: download"
STAGES = {
    "base": "base packages", "toolchain": "compilers and MPI", "frameworks": FRAMEWORKS,
    "compilers": "more compilers", "additions": DOWNLOADED,
}  # fmt: skip
CUDA = "CUDA compiler"
"""What the toolchain's further steps are for, where its packages bring none."""

IMAGES = {"base": "base image", "cuda": "CUDA image"}
PURPOSES = {
    "runtime packages": "runtime packages", "apt": "own system packages", "nvidia": "NVIDIA libraries",
    "nccl": "NCCL", "rest": "other Python packages", "frameworks": FRAMEWORKS,
    "compiled": "compiled packages: install", "pip": "own Python packages: install",
    "files": "own files: copy", "row": "folders and settings",
}  # fmt: skip
"""By what layers.py calls a layer of the last stage; other layers are of a component."""

MOUNTED = (
    (re.compile(r"\bfrom=compiled-"), "compiled"), (re.compile(r"\bfrom=additions\b"), "pip"),
    (re.compile(r"\bid=\w+-archives-"), "apt"), (re.compile(r"\bsource=files,"), "files"),
    (re.compile(r"\bsource=row\.json,"), "row"),
)  # fmt: skip
"""What an instruction of the last stage reads, and the purpose that says so."""

_MADE = re.compile(r"\bfrom=([\w.-]+)-(?:wheel|plugin|program)\b")
_LAYER = re.compile(r"/layers?(?:/([\w-]+))? +/$")
_COMPILES = re.compile(r"(?:compiled-(?P<source>.+)|(?P<component>[\w.-]+)-(?:wheel|plugin|program))")
_PINNED = re.compile(r"^[A-Za-z0-9][\w.\[\],-]* *(?:==|@)", re.MULTILINE)


def plain(step: str, purpose: str = "") -> str:
    """Return the name of a step as BuildKit or a record calls it; "" where no rendered recipe has it.

    ``purpose`` is that of its layer, where it is known. It has to be for most of the last stage's steps in a
    record, which has no more than the beginning of their text.
    """
    match = VERTEX.fullmatch(step)
    if match is None:
        return ""
    stage, number, text = "".join(match["head"].split()[-1:]), int(match["number"]), match["text"].strip()
    if text.startswith("FROM "):
        return IMAGES.get(stage, f"{stage or SHIPPED}: image")
    if compiles := _COMPILES.fullmatch(stage):
        return f"{_title(compiles['source'] or compiles['component'])}: compile"
    if stage == SHIPPED:
        return _of_last_stage(text, purpose or _purpose(number, text))
    return CUDA if stage == "toolchain" and number > 1 else STAGES.get(stage, "")


def of_record(record: Record) -> tuple[str, ...]:
    """Return a name for each step of a record, in the record's order."""
    purposes = _purposes(record)
    return tuple(of_recorded(step.name, purposes.get(step.name, "")) for step in record.steps)


def of_recorded(step: str, purpose: str = "") -> str:
    """Return the name of a step of a record: by its stage alone where no more is known, and that of one of
    BuildKit's own as it is."""
    if name := plain(step, purpose):
        return name
    match = VERTEX.fullmatch(step)
    stage = "".join(match["head"].split()[-1:]) if match else ""
    return f"{stage or SHIPPED}: step {match['number']}" if match else step


def wheels(recipe: Recipe) -> dict[str, int]:
    """Return how many wheels the row's lock has for each step that fetches them."""
    files = dict(recipe.files)
    fetched = {FRAMEWORKS: "requirements.txt", DOWNLOADED: "additions.txt"}
    return {
        name: len(_PINNED.findall(files[path].decode())) for name, path in fetched.items() if path in files
    }


def _title(name: str) -> str:
    return BY_NAME[name].title if name in BY_NAME else name


def _of_last_stage(text: str, purpose: str) -> str:
    if text.startswith("WORKDIR "):
        return "working folder"
    if not purpose:
        return ""
    what = PURPOSES.get(purpose) or _title(purpose)
    if text.startswith("COPY "):
        return f"{what}: copy"
    return what if purpose in PURPOSES else f"{what}: install"


def _purpose(number: int, text: str) -> str:
    if text.startswith("COPY "):
        layer = _LAYER.search(text)
        return (layer[1] or "frameworks") if layer else ""
    if made := _MADE.search(text):
        return made[1]
    found = next((purpose for pattern, purpose in MOUNTED if pattern.search(text)), "")
    return "runtime packages" if found == "apt" and number == 1 else found


def _purposes(record: Record) -> dict[str, str]:
    """By the last stage's steps in a record, from the layers that they made; empty if these do not fit."""
    steps = sorted(_last_stage(record))
    layers = [layer for layer in record.layers if layer.created_by.startswith(LAYERED)][-len(steps) :]
    verbs = [text.split()[0] for _, _, text in steps]
    if not steps or [layer.created_by.split()[0] for layer in layers] != verbs:
        return {}
    return {name: layer.what for (_, name, _), layer in zip(steps, layers, strict=True)}


def _last_stage(record: Record) -> Iterator[tuple[int, str, str]]:
    """Yield number, name and text of the steps that made a layer."""
    for step in record.steps:
        match = VERTEX.fullmatch(step.name)
        if match and match["head"].split()[-1:] == [SHIPPED] and match["text"].startswith(LAYERED):
            yield int(match["number"]), step.name, match["text"]
