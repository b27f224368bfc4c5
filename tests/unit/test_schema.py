"""The committed schema is the model's, and editors and the loader agree about every notation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
import yaml

from stackwright.core.components.table import COMPONENTS, FIELDS, served
from stackwright.core.config import schema
from stackwright.core.config.expand import expand
from stackwright.core.config.load import Beside, interpret
from stackwright.core.errors import MatrixError
from stackwright.core.model.row import OWN_FIELDS, Cell, Mpi, MpiFlavour

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "matrix.schema.json"
ROW = {
    "id": "one",
    "provider": "debian",
    "os": "debian-13",
    "python": "3.13",
    "horovod": "0.28.1",
    "mpi": {"flavour": "openmpi", "version": "5.0"},
    "gpu_arch": ["8.0"],
}


BESIDE = Beside(
    text=lambda name: "",
    folder=lambda name: (("start", b"#!/bin/sh\n"),),
    wheels=lambda name: (("ours-1.0-py3-none-any.whl", b""),),
)


def editor_accepts(document: Any) -> bool:
    """Patterns are searched as ECMAScript does: there ``$`` is the end, not before a last newline."""
    return jsonschema.Draft202012Validator(json.loads(COMMITTED.read_text())).is_valid(document)


def loader_accepts(document: Any) -> bool:
    try:
        expand(interpret(json.dumps(document), "m.json", beside=BESIDE))
    except MatrixError:
        return False
    return True


def test_committed_schema_is_that_of_the_model() -> None:
    fresh = json.dumps(schema.json_schema(), indent=2) + "\n"
    assert COMMITTED.read_text() == fresh, (
        "run: python -m stackwright.core.config.schema > docs/matrix.schema.json"
    )


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())


def test_rows_axes_and_cells_have_the_same_fields_in_the_same_words() -> None:
    fields = get_type_hints(schema.RowFields)
    assert tuple(fields) == FIELDS
    named = {component.name for component in COMPONENTS}
    assert set(FIELDS) - named == set(OWN_FIELDS) - {"id", "allow", "line", "components"}
    assert list(fields) == list(get_type_hints(schema.AxesFields))
    assert set(get_type_hints(schema.MpiFields)) == set(get_type_hints(Mpi))
    for name in ("provider", "flavour"):
        assert get_args(fields[name]) == tuple(get_type_hints(Cell)[name])
    assert get_args(get_type_hints(schema.MpiFields)["flavour"]) == tuple(MpiFlavour)


def test_null_is_for_the_fields_that_a_cell_may_lack() -> None:
    """Nothing that validation lets through may break the type of Cell."""
    cell, fields = (
        dict(zip(OWN_FIELDS, get_type_hints(Cell).values(), strict=True)),
        get_type_hints(schema.RowFields),
    )
    for name in set(fields) & set(cell):
        assert (type(None) in get_args(fields[name])) == (type(None) in get_args(cell[name])), name
    assert [name for name in set(fields) - set(cell) if type(None) not in get_args(fields[name])] == []


@pytest.mark.parametrize("name", sorted(schema.NOTATIONS))
def test_pattern_of_every_notation_is_in_the_schema(name: str) -> None:
    pattern = json.dumps(f"^({schema.NOTATIONS[name].pattern})$")
    assert f'"pattern": {pattern}' in COMMITTED.read_text()


@pytest.mark.parametrize("name", sorted(schema.NOTATIONS))
def test_example_of_every_notation_is_right(name: str) -> None:
    notation = schema.NOTATIONS[name]
    assert notation.accepts(notation.example)
    assert not notation.accepts(notation.example + "\n")
    assert not notation.accepts("")


@pytest.mark.parametrize("name", sorted(schema.NOTATIONS))
@pytest.mark.parametrize("char", [*"\0\n\r\t `'\"\\;&|<>(){}$%#=,@^~:/", "٣", "é", "\u2028"])
def test_no_notation_has_a_character_that_means_something_elsewhere(name: str, char: str) -> None:
    """A shell, a Dockerfile, a requirement, a URL, a path: none finds a character of its own."""
    notation = schema.NOTATIONS[name]
    for at in range(len(notation.example) + 1):
        assert not notation.accepts(notation.example[:at] + char + notation.example[at:])


@pytest.mark.parametrize("name", sorted(schema.NOTATIONS))
def test_no_notation_is_unbounded(name: str) -> None:
    assert "*" not in re.sub(
        r"\[[^]]*\]", "", schema.NOTATIONS[name].pattern.replace(r"\[", "").replace(r"\]", "")
    )
    assert not schema.NOTATIONS[name].accepts("1" * 64)


def test_shipped_matrix_is_right_for_editors_too() -> None:
    assert editor_accepts(yaml.safe_load((ROOT / "matrix.yaml").read_text()))


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"torch": "2.6.0", "cudnn": None}, True),
        ({"torch": "2.6.0+cu124"}, True),
        ({"gpu_arch": ["12.0"]}, True),
        ({"test_on_gpu": True}, True),
        ({"torch": 2.6}, False),
        ({"torch": "2.6.0;id"}, False),
        ({"python": None}, False),
        ({"python": "3"}, False),
        ({"pyhton": "3.13"}, False),
        ({"os": "debian-14"}, False),
        ({"gpu_arch": []}, False),
        ({"gpu_arch": "8.0"}, False),
        ({"mpi": {"flavour": "openmpi"}}, False),
        ({"mpi": "openmpi"}, False),
        ({"test_on_gpu": "true"}, False),
        ({"id": "../x"}, False),
    ],
)
def test_editors_and_loader_agree(change: dict[str, Any], right: bool) -> None:
    document = {"include": [{**ROW, **change}]}
    assert (editor_accepts(document), loader_accepts(document)) == (right, right)


# ------------------------------------------------------------------------------- docs/matrix.md


def fenced(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", (ROOT / "docs/matrix.md").read_text(), re.M | re.S)


def test_examples_of_the_documentation_are_right() -> None:
    first, second, on_both, fabrics, measuring, third, compiling, fourth, tools, layers, alone = (
        expand(interpret(text, "docs/matrix.md", beside=BESIDE)) for text in fenced("yaml")
    )
    assert [(cell.id, cell.platform) for cell in on_both] == [
        ("torch2.15.0-amd64", "linux/amd64"), ("torch2.15.0-arm64", "linux/arm64"),
    ]  # fmt: skip
    assert [cell.fabric for cell in fabrics] == [("verbs", "ofi"), ("verbs", "ofi=1.19.2")]
    assert [cell.benchmarks for cell in measuring] == [("nccl-tests",), ("nccl-tests=2.19.6",)]
    assert [len(cell.pip) for cell in third] == [2, 3, 0]
    assert [addition.requirement for addition in compiling[0].compile] == ["torch-scatter", "flash-attn"]
    assert [(cell.apt, cell.files[0].place) for cell in fourth] == [(("git", "libsndfile1"), "/opt/ours")]
    assert [(cell.value("horovod"), cell.value("torch_distributed")) for cell in layers] == [
        ("0.28.1", "true"), (None, "true"),
    ]  # fmt: skip
    assert [(cell.value("horovod"), cell.value("jax")) for cell in alone] == [(None, "0.12.0.1")]
    assert [(served(cell), cell.value("jupyterlab")) for cell in tools] == [
        ({"tensorboard": 6006, "jupyterlab": 9000}, "4.6.6")
    ]
    text = (ROOT / "docs/matrix.md").read_text()
    (said,) = re.findall(r"^These are four rows: (.*)\.$", text, re.M)
    assert re.findall("`([^`]+)`", said) == [cell.id for cell in first]
    assert [cell.cudnn for cell in second] == ["9.10.2.21"] * 3 + [None]
    assert [cell.id for cell in second][:2] == ["torch2.8.0-tf2.20.0", "torch2.8.0-tfnone"]


def test_documentation_has_every_field_with_an_example_that_is_right() -> None:
    rows = re.findall(
        r"^\| `(build-env|\w+)` \|[^|]*\|[^|]*\| `([^`]*)` \| ([^|]+) \|$",
        (ROOT / "docs/matrix.md").read_text(),
        re.M,
    )
    fields = get_type_hints(schema.RowFields)
    assert {name for name, _, _ in rows} == {*fields, "id"}
    for name, example, left_out in rows:
        row = {**ROW, name: yaml.safe_load(example)}
        assert loader_accepts({"include": [row]}), name
        required = name in {"id", *(names[0] for names in schema.REQUIRED)}
        assert left_out.startswith("error") == required, name
        assert loader_accepts({"include": [{key: row[key] for key in row if key != name}]}) != required, name


def test_messages_of_the_documentation_are_those_of_the_loader() -> None:
    (messages,) = fenced("text")
    row = '    python: "3.13"\n'
    shared = {name: value for name, value in ROW.items() if name not in {"id", "python"}}
    fields = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in shared.items())
    head = f"defaults:\n{fields}include:\n  - id: one\n"
    said = []
    for text in ("    python: 3.10\n", row + '    pyhton: "3.12"\n', row + "  - id: one\n" + row):
        with pytest.raises(MatrixError) as caught:
            interpret(head + text, "matrix.yaml")
        said.append(str(caught.value))
    assert messages == "\n".join(said) + "\n"
