"""What is written twice: stackwright/configuration.py, and the files that are rendered. They say the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from shipped_rows import ROWS, SOURCES

from stackwright.core.model.labels import PROVIDER
from stackwright.core.render import configuration, definition, dockerfile
from stackwright.host.project import Planned


def final_stage(text: str) -> Iterator[tuple[str, str]]:
    """Instructions of the last stage, and of those that it is made from, each in one line."""
    stages: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages[name] = list(stages.get(base, ()))
        elif word.isupper() and name:
            stages[name].append((word, rest.strip()))
    yield from stages["final"]


def configured(text: str) -> dict[str, Any]:
    """What Docker would have under Config after these instructions."""
    environment = {"PATH": configuration.PATH}
    found: dict[str, Any] = {}
    labels: dict[str, str] = {}
    for word, rest in final_stage(text):
        pairs = (
            [setting.partition("=")[::2] for setting in shlex.split(rest)] if word in ("ENV", "LABEL") else []
        )
        if word == "ENV":
            environment |= {name: value.replace("$PATH", environment["PATH"]) for name, value in pairs}
        elif word == "LABEL":
            labels |= dict(pairs)
        elif word in ("ENTRYPOINT", "CMD", "SHELL"):
            found[word.capitalize()] = json.loads(rest)
        elif word == "USER":
            found["User"] = rest
        elif word == "WORKDIR":
            found["WorkingDir"] = rest
        elif word == "EXPOSE":
            found.setdefault("ExposedPorts", {})[rest] = {}
        else:
            assert word in ("RUN", "COPY", "ARG"), word
    return {**found, "Env": environment, "Labels": labels}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_a_dockerfile_sets_what_the_check_compares(row: Planned) -> None:
    found = configured(row.recipe.text("Dockerfile"))
    labels = found.pop("Labels")
    assert isinstance(labels, dict)
    labels.setdefault(PROVIDER, row.stack.provider)  # of the base that Debian's provider makes
    assert labels == {**dict(dockerfile.labels(row.stack)), PROVIDER: row.stack.provider}
    wanted = configuration.settings(row.stack)
    wanted["Env"] = dict(entry.split("=", 1) for entry in wanted["Env"])
    assert found == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_a_definition_file_sets_what_the_check_compares(row: Planned) -> None:
    recipe = definition.render_definition(row.stack, SOURCES[row.stack.id])
    sections: dict[str, list[str]] = {}
    name = ""
    for line in recipe.text(definition.file_name(row.stack)).splitlines():
        name = line if line.startswith("%") else name
        if line.startswith("    ") and not line.strip().startswith("#"):
            sections.setdefault(name, []).append(line.strip())
    exports = (shlex.split(line)[1].partition("=") for line in sections["%environment"])
    found = {name: value.replace("$PATH", configuration.PATH) for name, _, value in exports}
    assert found == configuration.environment_of_sif(row.stack)
    assert tuple(sections["%runscript"]) == configuration.runscript(row.stack)
    assert tuple(sections["%startscript"]) == configuration.STARTSCRIPT
