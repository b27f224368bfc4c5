"""Components: one file says all of one, and no other module names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from rows import ROOT

from stackwright.core.components.table import COMPONENTS

PACKAGE = "stackwright"
COMPONENTS_FOLDER = f"{PACKAGE}/core/components/"
NAMED = re.compile(
    "|".join(sorted({word for component in COMPONENTS for word in (component.name, component.title)})), re.I
)
ROW = re.compile(r"\bcuda12-torch\b")
"""The default row of matrix.yaml, which the examples of a help name."""

ALLOWED: Mapping[str, str] = {
    "stackwright/audit/accepted/": "imports and compiles each framework, which is tried outside of `core`",
    "stackwright/audit/facts/": "reads the wheels of each framework over the network",
    "stackwright/core/facts/build_failures.py": "messages of known causes of failed builds",
    "stackwright/core/launch/carried/": "programs that run in the job, and import no module of ours",
    "stackwright/core/rules/locks.py": "cites an issue of a framework as the source of a rule",
}
"""Modules, or folders of them, that may name a component, and why."""


def words(tree: ast.Module) -> Iterator[str]:
    """Every name and every text of a module but its docstrings."""
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) if id(node) not in documents:
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str() as name):
                yield name
            case ast.ImportFrom(module=str() as name):
                yield name
            case ast.alias(name=name, asname=other):
                yield f"{name} {other or ''}"
            case _:
                pass


def naming(tree: ast.Module) -> list[str]:
    return [text for text in words(tree) if NAMED.search(ROW.sub("", text))]


def test_no_other_module_names_a_component() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): naming(ast.parse(path.read_text()))
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
    }
    assert {
        path: named
        for path, named in found.items()
        if named and not path.startswith((COMPONENTS_FOLDER, *ALLOWED))
    } == {}
    idle = [
        allowed for allowed in ALLOWED if not any(found[path] for path in found if path.startswith(allowed))
    ]
    assert idle == []


@pytest.mark.parametrize(
    "planted",
    [
        "x = 'PyTorch'",
        "import torch",
        "def horovod_names(): ...",
        "f(keras=1)",
        "x.mxnet",
        "f'of {a} Horovod'",
    ],
)
def test_a_module_that_names_a_component_is_seen(planted: str) -> None:
    assert naming(ast.parse(planted))


def test_a_docstring_and_the_default_row_are_no_names() -> None:
    assert naming(ast.parse('"""Horovod."""\ndef f():\n    """Of torch."""\nx = "run cuda12-torch"')) == []


def test_each_component_has_a_file_or_a_folder() -> None:
    folder = Path(COMPONENTS_FOLDER)
    for component in COMPONENTS:
        assert (ROOT / folder / f"{component.name}.py").exists() != (
            ROOT / folder / component.name
        ).is_dir(), component.name
