"""docs/rules.md, made from the rules and their tables: `python -m stackwright.core.rules.document`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stackwright.core.components.component import Component
from stackwright.core.components.shared import headers
from stackwright.core.components.table import ADVICE, COMMUNICATION, COMPONENTS, MODULES
from stackwright.core.facts import distributions, entries
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.table import CELL_RULES

INTRO = """# Rules

Generated from `stackwright/core/rules/` by `python -m stackwright.core.rules.document`; a test compares them.

`./build.py explain ROW` asks every rule of a row and says what each answered, `--set FIELD=VALUE` changes
the row first, and `./build.py plan --all` counts how the rules prune everything that could be asked for.
Rules are asked in the order of this page, and the first that refuses is the cause: what no index has, then
what no compiler takes, then what the base lacks, and last what this release cannot build. A rule whose
tables do not know a value does not apply: it neither accepts nor refuses.

Each source says how the fact was obtained, and when. *read*: from the primary source, by a program that can
read it again; a refusal is final. *documented*: a document or another project says so; `--allow RULE` builds
the row anyway, and the image's labels and its record keep the rule's name. *unchecked*: it was not read; the
rule warns and never refuses. Where the entries of a rule's table differ, the answer names its entry's source.
"""


class Place(str):
    """A name that a message leads to, as in docs/rules.md#wheel-exists."""

    __slots__ = ()


def markdown() -> str:
    asked = [
        (Place(rule.name), rule.about, ", ".join(rule.fields), rule.says, rule.fact) for rule in CELL_RULES
    ]
    locks = [(Place(rule.name), rule.says, rule.fact) for rule in LOCK_RULES]
    extras = [(Place(rule.name), rule.subject, rule.says, rule.fact) for rule in EXTRA_RULES]
    parts = [
        INTRO,
        "## Of the values of a row\n",
        _table(("rule", "about", "reads", "says", "source"), asked),
        "## Of a row and its lock\n",
        _table(("rule", "says", "source"), locks),
        "## Of what is no field of a row\n",
        "`explain --set driver=535` asks whether a host can run a row; the lock chooses `setuptools` and"
        " `numpy`.\n",
        _table(("rule", "subject", "says", "source"), extras),
        *_tables(),
        *_plugins(),
        *_tests(),
    ]
    return "\n".join(parts)


def _plugins() -> Iterable[str]:
    yield "## NCCL's plugin for libfabric\n"
    yield _entries(
        "ofi-plugins",
        ("release", "commit", "SHA-256 of its files", "interfaces", "oldest libfabric", "oldest NCCL"),
        lambda value: (
            value["commit"], value["sha256"], " ".join(f"v{net}" for net in value["nets"]),
            value["libfabric"], value["nccl"],
        ),
    )  # fmt: skip


def _tests() -> Iterable[str]:
    yield "## nccl-tests\n"
    yield _entries(
        "nccl-tests", ("release", "commit", "SHA-256 of its files"),
        lambda value: (value["commit"], value["sha256"]),
    )  # fmt: skip


def _tables() -> Iterable[str]:
    yield "## CUDA and gcc\n"
    yield _entries("cuda-gcc", ("CUDA", "newest gcc"), lambda value: (value,))
    yield "## CUDA and architectures\n"
    yield _entries("cuda-arch", ("CUDA", "compute capabilities"), lambda value: (" ".join(value),))
    yield "## CUDA's compiler as wheels\n"
    yield _entries("nvcc-wheels", ("what", "CUDA"), lambda value: (" ".join(value),))
    yield f"## CUDA and drivers\n\nSource: {distributions.NVIDIA_COMPAT}.\n"
    yield _table(("CUDA", "lowest driver"), distributions.DRIVER_FLOOR)
    yield from _documents(MODULES)
    yield "## Releases on the index\n"
    yield _entries("releases", ("package", "releases"), lambda value: (" ".join(value),))
    yield "## What frameworks require\n"
    yield _entries(
        "requirements", ("requirement", "has a wheel for Python"), lambda value: (" ".join(value),)
    )
    yield "## C++ standards\n"
    yield _table(("framework", "from", "C++", "source"), _standards())
    yield _table(("C++", "lowest gcc", "source", "lowest CUDA", "source"), headers.COMPILERS)
    yield from _documents(COMMUNICATION)
    yield "## Distributions\n"
    yield _entries(
        "distributions",
        ("os", "glibc", "Python", "gcc", "CUDA", "Open MPI", "MPICH", "CMake"),
        _distribution,
    )
    yield "## NVIDIA's images\n"
    yield _table(("Ubuntu", "CUDA", "source"), distributions.NVIDIA_IMAGES)
    yield "## What a row that works must do\n"
    yield _table(
        ("when", "then", "source"),
        [
            (
                " and ".join(f"{name} {spec}" for name, spec in advice.when) or "always",
                advice.then,
                advice.fact,
            )
            for advice in ADVICE
        ],
    )


def _standards() -> list[tuple[object, ...]]:
    return [
        (component.name, part.since, part.standard, part.fact)
        for component in COMPONENTS
        for part in component.headers
    ]


def _distribution(value: Mapping[str, Any]) -> tuple[object, ...]:
    lists = (value["glibc"], " ".join(value["python"]), " ".join(value["gcc"]))
    return (*lists, value["cuda"], value["openmpi"], value["mpich"], value["cmake"])


def _documents(components: Iterable[Component]) -> Iterable[str]:
    for document in (document for component in components for document in component.documents):
        if document.title:
            yield f"## {document.title}\n"
        if document.file:
            yield _entries(document.file, document.headings, document.cells)
        else:
            yield _table(document.headings, document.rows)
        if document.note:
            yield f"{document.note}\n"


def _entries(table: str, headings: tuple[str, ...], cells: Callable[[Any], tuple[object, ...]]) -> str:
    """Return a table of data: its file, and how each entry was obtained."""
    rows = [(entry.key, *cells(entry.value), entry.fact) for entry in entries.load(table)]
    return f"`stackwright/core/facts/data/{table}.json`\n\n{_table((*headings, 'source'), rows)}"


def _table(headings: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines) + "\n"


def _cell(value: object) -> str:
    text = "–" if value in (None, "") else str(value)
    escaped = text.replace("|", "\\|").replace("<", "&lt;")
    return f'<a id="{escaped}"></a>{escaped}' if isinstance(value, Place) else escaped


if __name__ == "__main__":
    print(markdown(), end="")
