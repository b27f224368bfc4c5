"""The words of BuildKit's command line as Podman's builder takes them, and the names that it gives. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stackwright.core.errors import EngineError
from stackwright.core.render.configuration import PATH

ALWAYS = (
    "--format=docker",  # the OCI's format knows no SHELL
    "--layers",
    "--identity-label=false",  # which no row declares
    "--pull=never",  # what a build starts from is brought before it
)
UNKNOWN = re.compile(r"--(progress=.*|provenance=.*|load)")
"""What it does anyway, or has no word for."""

SHARED = ("--cache-from", "--cache-to", "--push", "--builder", "--build-context")
"""What BuildKit alone can do."""

HUB = "docker.io/"
LOCAL = ("localhost/", HUB)
"""What Podman puts before a name without a registry."""

CONTINUED = " \\\n      "
"""Between two labels of one instruction."""

_REGISTRY = re.compile(r"localhost/|[^/]*[.:][^/]*/")
_SHELL = re.compile(r"(?:\|\d+ .*? )?(/bin/(?:ba)?sh -c )(#\(nop\) +)?", re.DOTALL)
_PATH = re.compile(r"\$(?:PATH\b|\{PATH\})")
_LINK = re.compile(r"^(COPY|ADD) --link ", re.MULTILINE)


def of_buildkit(words: Sequence[str | Path]) -> Iterator[str]:
    """Yield the words after `podman build`. EngineError for what needs BuildKit.

    A tag gets its registry: Podman's two interfaces disagree on what is put before a name without one.
    """
    yield from ALWAYS
    before = ""
    for word in map(str, words):
        if word in SHARED:
            hint = "use an engine of Docker's, or unset STACKWRIGHT_BUILDERS and STACKWRIGHT_CACHE"
            raise EngineError(f"Podman's builder has no {word}, which is BuildKit's", hint=hint)
        if not UNKNOWN.fullmatch(word):
            yield full_name(word) if before == "--tag" else word
        before = word


def full_name(image: str) -> str:
    """Return the name with its registry: "stackwright/x:1" is "docker.io/stackwright/x:1"."""
    if _REGISTRY.match(image):
        return image
    return f"{HUB}{image}" if "/" in image else f"{HUB}library/{image}"


def short_name(image: str) -> str:
    """Return a name of the engine's as it was given."""
    for before in LOCAL:
        image = image.removeprefix(before)
    return image


def created_by(line: str) -> str:
    """Return a line of an image's history as BuildKit would write it: "RUN …", "COPY …", "ENV A=1 B=2"."""
    match = _SHELL.match(line)
    if match is None:
        return line
    rest = line[match.end() :]
    return _as_set(rest.strip()) if match[2] else f"RUN {match[1]}{rest}"


def _as_set(words: str) -> str:
    """Return ENV with its values as they were set; this builder repeats the line of the Dockerfile."""
    if not words.startswith("ENV "):
        return words
    try:
        values = shlex.split(words)
    except ValueError:
        return words
    return " ".join(_PATH.sub(PATH, value) for value in values)


def with_shell(settings: Mapping[str, Any], history: Iterable[str]) -> dict[str, Any]:
    """Return an image's settings with its SHELL, which Podman's API leaves out: the last of the history."""
    said = [line.removeprefix("SHELL ") for line in history if line.startswith("SHELL ")]
    try:
        found = [list(map(str, json.loads(text))) for text in said[-1:]]
    except (ValueError, TypeError):
        found = [said[-1:]]
    return {**settings, **({"Shell": found[0]} if found else {})}


def containerfile(dockerfile: str, labels: Iterable[tuple[str, str]]) -> str:
    """Return the same Dockerfile for this builder.

    Before release 1.41 it refuses `COPY --link`, without which the files are the same. ``labels`` join the
    file's own: as words of the command each would be a line of the image's history, as those that are added
    to a finished image.
    """
    text = _LINK.sub(r"\1 ", dockerfile)
    added = CONTINUED.join(f"{name}={_quoted(value)}" for name, value in labels)
    head, label, own = text.rpartition("\nLABEL ")
    if not added:
        return text
    return f"{head}{label}{added}{CONTINUED}{own}" if label else f"{text}LABEL {added}\n"


def _quoted(value: str) -> str:
    return '"' + re.sub(r'(["$\\])', r"\\\1", value) + '"'
