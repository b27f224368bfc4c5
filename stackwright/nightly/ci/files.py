"""The files that a CI service reads: written from templates, and compared with what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

HERE = Path(__file__).parent
MARK = "# Written by `./build.py ci"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """``path`` is relative to the repository."""

    path: str
    text: str


def files(services: Iterable[str]) -> tuple[File, ...]:
    return tuple(
        File(path=path, text=rendered(template))
        for service in services
        for path, template in WRITTEN[service].items()
    )


def write(root: Path, file: File) -> None:
    path = root / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text)


def drift(root: Path, wanted: Sequence[File]) -> tuple[str, ...]:
    """Return which files of the repository are not up to date: a line each, for a person."""
    lines = [line for file in wanted for line in _difference(root / file.path, file)]
    known = {root / path for service in WRITTEN.values() for path in service}
    left = (path for path in sorted(root.glob(".github/workflows/*.yml")) if path not in known)
    gone = (path for path in left if path.read_text(errors="replace").startswith(MARK))
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


def rendered(template: str, **values: Any) -> str:
    """Brackets instead of braces mark what is filled in: GitHub's own expressions have braces."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"), undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 (YAML is not HTML; all values come from files of this repository)
        variable_start_string="[=", variable_end_string="=]",
        block_start_string="[%", block_end_string="%]", comment_start_string="[#", comment_end_string="#]",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template(template).render(actions=actions(), **values)


def actions() -> Mapping[str, str]:
    """Values of ``uses:``, by name."""
    rows = yaml.safe_load((HERE / "actions.yaml").read_text())
    return {row["name"]: f"{row['name']}@{row['commit']} # {row['tag']}" for row in rows}
