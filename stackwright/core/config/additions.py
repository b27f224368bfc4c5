"""The notation of ``pip`` and ``compile``: requirements as PEP 508 has them, less what no lock can hold.

What a person wrote is parsed by `packaging`, written again in its normal form, and that is matched whole: a
shell, a template and a requirements file see a name, a version and a marker, and nothing else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackwright.core.model.added.distributions import Addition

NAME = "[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"
VERSION = "[0-9][A-Za-z0-9.!+*_-]{0,40}"
CLAUSE = f"(~=|==|!=|<=|>=|<|>) ?{VERSION}"
MARKER = r"[A-Za-z0-9_.+*<>=!~ ()'\"-]{1,200}"
REQUIREMENT = rf"{NAME}( ?\[{NAME}(, ?{NAME}){{0,9}}\])?( ?{CLAUSE}(, ?{CLAUSE}){{0,9}})?( ?; ?{MARKER})?"
ARCHIVE = re.compile(r".*\.(whl|zip|egg|tar|tgz|gz|bz2)", re.ASCII | re.IGNORECASE)
"""The name of a file, which is written like one of a distribution."""
MODULE = "[A-Za-z_][A-Za-z0-9_]{0,62}"
MODULES = rf"{MODULE}(\.{MODULE}){{0,9}}"
FILE = "[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
"""Of a file in the folder of the matrix: no other folder, and no hidden one."""

VARIABLE = "[A-Z][A-Z0-9_]{0,62}"
SETTING = "[A-Za-z0-9_.,:+-]{1,100}"
"""Of a build: the value of a variable, in which no shell sees anything else."""

MOST, MOST_COMPILED = 200, 20
"""Requirements of a row, and those that are compiled."""

Item = tuple[Any, ...]
"""A requirement and modules; of a source, variables of its build and what that needs as well."""


def normal(text: str) -> str | None:
    """Return a requirement in its normal form; None where it is none that a row can have."""
    if not re.fullmatch(REQUIREMENT, text, re.ASCII):
        return None
    try:
        found = Requirement(text)
    except InvalidRequirement:
        return None
    if ARCHIVE.fullmatch(found.name):
        return None
    extras = ",".join(sorted(map(canonicalize_name, found.extras)))
    head = canonicalize_name(found.name) + (f"[{extras}]" if extras else "")
    clauses = ",".join(sorted(map(str, found.specifier)))
    written = f"{head}{clauses}" + (f" ; {found.marker}" if found.marker else "")
    return written if re.fullmatch(REQUIREMENT, written, re.ASCII) else None


def name(addition: Addition) -> str:
    """Return the name of its distribution, as a lock has it."""
    return canonicalize_name(Requirement(addition.requirement).name)


def accepts(addition: Addition, version: str) -> bool:
    """Tell whether a version is one that the requirement allows."""
    return Requirement(addition.requirement).specifier.contains(version, prereleases=True)


def conditional(addition: Addition) -> bool:
    """Tell whether a marker may leave it out of a row."""
    return Requirement(addition.requirement).marker is not None


def together(items: Iterable[Item], extra: Collection[str] = ()) -> tuple[Addition, ...]:
    """Return one addition for each requirement; a second entry of the same adds what else it says.

    ``extra`` are those of the requirements that only an extra index may answer.
    """
    found: dict[str, tuple[dict[str, None], dict[str, str], dict[str, None]]] = {}
    for text, modules, *more in items:
        written = normal(text)
        variables, needs = more or ((), ())
        required = [line for need in needs if (line := normal(need)) is not None]
        if written is None or len(required) < len(needs):
            raise ValueError(text)
        parts = found.setdefault(written, ({}, {}, {}))
        parts[0].update(dict.fromkeys(modules))
        parts[1].update(variables)
        parts[2].update(dict.fromkeys(required))
    of_extra = set(map(normal, extra))
    return tuple(
        Addition(
            requirement=requirement, modules=tuple(modules), environment=tuple(sorted(variables.items())),
            needs=tuple(needs), extra=requirement in of_extra,
        )
        for requirement, (modules, variables, needs) in found.items()
    )  # fmt: skip


def of_project(text: str, extras: Iterable[str]) -> tuple[str, ...]:
    """Return the dependencies of a pyproject.toml and of some extras. ValueError says what is wrong."""
    project = tomllib.loads(text).get("project")
    if not isinstance(project, dict):
        raise ValueError("it has no table [project]")
    if "dependencies" in project.get("dynamic", ()):
        raise ValueError("its dependencies are dynamic: only a build of the project knows them")
    optional = {canonicalize_name(name): found for name, found in _table(project, "optional-dependencies")}
    found = project.get("dependencies", [])
    if not isinstance(found, list):
        raise ValueError("its dependencies are no list")
    for extra in map(canonicalize_name, extras):
        if extra not in optional:
            raise ValueError(f"it has no extra {extra!r}, but {', '.join(sorted(optional)) or 'none'}")
        found = [*found, *optional[extra]]
    if not all(isinstance(requirement, str) for requirement in found):
        raise ValueError("its dependencies are not a list of strings")
    return tuple(found)


def _table(project: Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    found = project.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(value, list) for value in found.values()):
        raise ValueError(f"its {name} are no lists by name")
    return found.items()


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the requirements of a requirements file with the numbers of their lines."""
    for number, line in enumerate(text.splitlines(), start=1):
        written = re.sub(r"(^|\s)#.*", "", line).strip()
        if written:
            yield number, written
