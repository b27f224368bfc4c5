"""The files that a CI service reads: written from templates, and compared with what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from stackwright.host.shipped import ROOT

HERE = Path(__file__).parent
MARKS = ("# Written by `./build.py ci", "# Written by `stackwright ci")
"""How each of them begins, so that one that no template makes any more is known."""

WRITTEN = {
    "github": {
        ".github/workflows/checks.yml": "checks.yml.j2",
        ".github/workflows/nightly.yml": "nightly.yml.j2",
        ".github/workflows/facts.yml": "facts.yml.j2",
        ".github/workflows/docs.yml": "docs.yml.j2",
    },
    "gitlab": {"docs/gitlab-ci.yml": "gitlab-ci.yml.j2"},
}
"""By service: path in the repository, and template."""

LOGIN = "scripts/registry-login.sh"
OWN: Mapping[str, Mapping[str, str]] = {
    "github": {
        ".github/workflows/checks.yml": "checks.yml.j2",
        ".github/workflows/nightly.yml": "nightly.yml.j2",
        LOGIN: "",
    },
    "gitlab": {".gitlab-ci.yml": "gitlab-ci.yml.j2", LOGIN: ""},
}
"""Of a repository of one's own, where Stackwright is installed: without the tests of Stackwright itself."""

_PIP = "python3 -m venv .venv && .venv/bin/pip install --quiet -r requirements.txt"
WORDS: Mapping[bool, Mapping[str, str]] = {
    False: {
        "program": "./build.py", "install": "make env", "engine": "make env engine",
        "pipeline": "docs/gitlab-ci.yml",
    },
    True: {
        "program": ".venv/bin/stackwright", "install": _PIP,
        "engine": f"{_PIP} && .venv/bin/stackwright engine", "pipeline": ".gitlab-ci.yml",
    },
}  # fmt: skip
"""What the templates call, by whether the repository is one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """``path`` is relative to the repository. A script can be executed."""

    path: str
    text: str

    @property
    def mode(self) -> int:
        return 0o755 if self.path.endswith(".sh") else 0o644


def files(services: Iterable[str], *, own: bool = False) -> tuple[File, ...]:
    """``own``: of a repository where Stackwright is installed, and not of its checkout."""
    made: dict[str, File] = {}
    for service in services:
        for path, template in (OWN if own else WRITTEN)[service].items():
            text = _first(service, template, own=own) if template else (ROOT / path).read_text()
            made[path] = File(path=path, text=text)
    return tuple(made.values())


def _first(service: str, template: str, *, own: bool) -> str:
    text = (
        f"`stackwright ci --{service}`, which writes it again after an upgrade. See Stackwright's docs/ci.md."
    )
    if not own:
        source = f"stackwright/nightly/ci/templates/{template}"
        text = f"`./build.py ci --{service}` from {source}: edit that. See docs/ci.md."
    return rendered(template, own=own, written=f"Written by {text}")


def used(root: Path, service: str) -> bool:
    """Whether a repository of one's own is for this service: a person may have deleted the other's files."""
    return any((root / path).exists() for path in OWN[service] if path != LOGIN)


def write(root: Path, file: File) -> None:
    path = root / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text)
    path.chmod(file.mode)


def drift(root: Path, wanted: Sequence[File]) -> tuple[str, ...]:
    """Return which files of the repository are not up to date: a line each, for a person."""
    lines = [line for file in wanted for line in _difference(root / file.path, file)]
    known = {root / path for service in (*WRITTEN.values(), *OWN.values()) for path in service}
    left = (path for path in sorted(root.glob(".github/workflows/*.yml")) if path not in known)
    gone = (path for path in left if path.read_text(errors="replace").startswith(MARKS))
    return (*lines, *(f"{path.relative_to(root)}: no template makes it any more" for path in gone))


def _difference(path: Path, file: File) -> list[str]:
    if not path.is_file():
        return [f"{file.path}: not there"]
    have, want = path.read_text(errors="replace").splitlines(), file.text.splitlines()
    if have == want:
        return []
    number = next(
        (index for index, (one, other) in enumerate(zip(have, want, strict=False), 1) if one != other),
        min(len(have), len(want)) + 1,
    )
    return [f"{file.path}:{number}: differs"]


def rendered(template: str, *, own: bool = False, **values: Any) -> str:
    """Brackets instead of braces mark what is filled in: GitHub's own expressions have braces."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"), undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 (YAML is not HTML; all values come from files of this repository)
        variable_start_string="[=", variable_end_string="=]",
        block_start_string="[%", block_end_string="%]", comment_start_string="[#", comment_end_string="#]",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template(template).render(actions=actions(), own=own, **WORDS[own], **values)


def actions() -> Mapping[str, str]:
    """Values of ``uses:``, by name."""
    rows = yaml.safe_load((HERE / "actions.yaml").read_text())
    return {row["name"]: f"{row['name']}@{row['commit']} # {row['tag']}" for row in rows}
