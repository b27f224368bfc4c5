"""Whatever the file holds: a Matrix whose every string fullmatches its notation, or one MatrixError."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stackwright.core.config import additions, schema
from stackwright.core.config.expand import expand
from stackwright.core.config.load import interpret, load
from stackwright.core.config.yaml_tree import LOADER
from stackwright.core.errors import MatrixError
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.added.image import Folder, Variable
from stackwright.core.model.matrix import Matrix, Value
from stackwright.core.model.row import Cell, Mpi
from stackwright.core.model.target import PLATFORMS

SHIPPED = (Path(__file__).parents[2] / "matrix.yaml").read_text()
FIELDS = get_type_hints(schema.RowFields)
CLOSED = {name: get_args(FIELDS[name]) for name in ("provider", "os", "flavour")}
CLOSED["platform"] = (None, *PLATFORMS)
SECONDS = 2.0
"""Of processor time, for inputs of a few kB; a row takes 0.1 ms."""

HARMLESS = re.compile(r"[A-Za-z0-9._+-]{1,200}", re.ASCII)
"""What a shell, a Dockerfile and a URL take as it is. Said here once more, apart from the notations."""

quick = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


def outcome(text: str, parser: type[Any] = LOADER) -> tuple[Cell, ...] | None:
    """The rows, or None where a MatrixError said what is wrong. Anything else that is raised is a failure."""
    start = time.process_time()
    try:
        matrix = interpret(text, "m.yaml", parser)
        check_matrix(matrix)
        cells = expand(matrix)
    except MatrixError as error:
        assert re.match(r"m\.yaml:[1-9][0-9]*:[1-9][0-9]*$", error.place), error.place
        assert "\n" not in error.cause + error.hint
        assert len(str(error)) < 1000
        return None
    finally:
        assert time.process_time() - start < SECONDS
    for cell in cells:
        assert schema.NOTATIONS["id"].accepts(cell.id)
        for name in FIELDS:
            check_value(name, cell.value(name))
    return cells


def check_matrix(matrix: Matrix) -> None:
    for name, value in fields_of(matrix):
        check_value(name, value)
    assert all(schema.NOTATIONS["id"].accepts(row.id) for row in matrix.include)
    assert all(schema.NOTATIONS["select"].accepts(text) for text in matrix.select)


def fields_of(matrix: Matrix) -> Iterator[tuple[str, Value]]:
    yield from matrix.defaults
    for group in (matrix.include, matrix.exclude):
        for entry in group:
            yield from entry.fields
    for axis in matrix.axes:
        for value in axis.values:
            yield axis.field, value


def check_value(name: str, value: Value) -> None:
    assert name in FIELDS
    if value is None:
        assert type(None) in get_args(FIELDS[name])
    elif isinstance(value, bool) or (name in schema.PARTS and value == "true"):
        assert name in ("test_on_gpu", *schema.PARTS)
    elif isinstance(value, Mpi):
        assert name == "mpi"
        assert value.flavour in {"openmpi", "mpich"}
        check_text("version", value.version)
    elif isinstance(value, Folder):
        raise AssertionError("there is no folder next to this matrix")
    elif isinstance(value, tuple):
        for entry in value:
            if isinstance(entry, Addition):
                assert name in ("pip", "compile")
                assert additions.normal(entry.requirement) == entry.requirement
            elif isinstance(entry, Variable):
                assert name in ("env", "build-env")
                assert schema.VARIABLE.accepts(entry.name)
                assert schema.OF_IMAGE[name].accepts(entry.value)
            else:
                assert not isinstance(entry, Folder), "there is no folder beside this matrix"
                notation = schema.OF_IMAGE.get(name) or schema.NOTATIONS[name]
                assert notation.accepts(entry)
                assert HARMLESS.fullmatch(entry) or name in ("ports", "entrypoint")
    elif name in CLOSED:
        assert value in CLOSED[name]
    else:
        check_text(name, value)


def check_text(name: str, text: str) -> None:
    notation = schema.OF_IMAGE.get(name) or schema.NOTATIONS[name]
    assert re.fullmatch(notation.pattern, text, re.ASCII)
    assert HARMLESS.fullmatch(text) or name == "user"


# -------------------------------------------------------------------------------- text of any kind


@quick
@given(data=st.binary(max_size=400))
@example(data=b"\xef\xbb\xbf\xef\xbb\xbf")
@example(data=b"\xff\xfea\0")
def test_bytes(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(data)
    try:
        check_matrix(load(path))
    except MatrixError as error:
        assert error.place.startswith(f"{path}:")


WORDS = [
    *FIELDS, *schema.MatrixFile.__annotations__, "id", "version", "openmpi", "debian", '"3.13"', "3.10",
    "~", "null", ":", ": ", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ",", "? ", "|\n", ">-\n",
    "#", " #", "&a ", "*a", "!", "!!str ", "!<x>", "%YAML 1.1\n", "---\n", "...\n", "'", '"', "\\",
    '"\\ud800"', '"\\UFFFFFFFF"', "<<: ", "\t", "\r", "\r\n", "\x85", "\ufeff", "0x1F", "1_0", "1:30",
    ".inf", "1e5", "yes", "true", "2024-01-02", "=", "@", "`",
]  # fmt: skip
yaml_like = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=40).map("".join)


@quick
@given(text=yaml_like)
def test_text_that_looks_like_yaml(text: str) -> None:
    """Both parsers: libyaml's may not let through what Python's would turn into something else."""
    python, default = outcome(text, yaml.SafeLoader), outcome(text)
    assert python is None or default is None or python == default


@quick
@given(text=st.text(max_size=200))
def test_text(text: str) -> None:
    outcome(text)


# ------------------------------------------------------------------------- from what is almost right


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """The shipped matrix with pieces cut, doubled, moved or replaced."""
    text = SHIPPED
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        piece = draw(st.sampled_from(["", text[start:end] * 2, *WORDS]) | st.text(max_size=6))
        text = text[:start] + piece + text[end:]
    return text


@quick
@given(text=mutations())
def test_mutations_of_the_shipped_matrix(text: str) -> None:
    python, default = outcome(text, yaml.SafeLoader), outcome(text)
    assert python is None or default is None or python == default


def test_the_shipped_matrix_has_an_outcome() -> None:
    """Else all of this could pass on a loader that refuses everything."""
    rows = outcome(SHIPPED)
    assert rows is not None
    assert rows[0].value("torch") == "2.6.0"


BASE: dict[str, Any] = {
    "provider": "debian", "os": "debian-13", "python": "3.13", "horovod": "0.28.1", "gpu_arch": ["8.0"],
    "mpi": {"flavour": "openmpi", "version": "5.0"}, "torch": "2.6.0",
}  # fmt: skip
ATTACKS = [
    "; id", "$(id)", "`id`", "\n", "\nRUN id", " ", "\t", "\0", "'", '"', "\\", "&& id", "| id", "> x",
    "{{ 7 }}", "{% x %}", "${x}", "--index-url=x", " @ file:///x", "[extra]", "; python_version>'3'", "#",
    "/../..", "%0a", "\u0661", "\u202e", "\ud7ff", "\r", "\x85",
]  # fmt: skip
versions = st.sampled_from(
    ["2.6.0", "12.4", "3.13", "5.0", "debian-13", "openmpi", "runtime", "one", "8.0", ""]
)
injected = st.builds(
    lambda version, attack, at: (
        version[: at % (len(version) + 1)] + attack + version[at % (len(version) + 1) :]
    ),
    versions,
    st.sampled_from(ATTACKS) | st.characters(exclude_characters="0123456789abcdefghijklmnopqrstuvwxyz.+-_"),
    st.integers(0, 12),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | injected
    | versions,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any) -> dict[str, Any]:
    """One document for each place of the file that a value can stand in."""
    field = {name: {"include": [{**BASE, "id": "one", name: value}]} for name in FIELDS}
    axis = {f"axes.{name}": {"defaults": BASE, "axes": {name: [value]}} for name in FIELDS}
    row: dict[str, Any] = {"id": "one", **BASE}
    whole: dict[str, Any] = {"defaults": BASE, "include": [row]}
    axes: dict[str, Any] = {"torch": ["2.6.0", None]}
    return {
        **field,
        **axis,
        "id": {"include": [{**row, "id": value}]},
        "mpi.flavour": {"include": [{**row, "mpi": {"flavour": value, "version": "5.0"}}]},
        "mpi.version": {"include": [{**row, "mpi": {"flavour": "openmpi", "version": value}}]},
        "gpu_arch.0": {"include": [{**row, "gpu_arch": [value]}]},
        "fabric.0": {"include": [{**row, "fabric": [value]}]},
        "benchmarks.0": {"include": [{**row, "benchmarks": [value]}]},
        "exclude.torch": {"defaults": BASE, "axes": axes, "exclude": [{"torch": value}]},
        "select.0": {"include": [row], "select": [value]},
        **{
            f"defaults.{name}": {"defaults": {**BASE, name: value}, "include": [{"id": "one"}]}
            for name in FIELDS
        },
        **{
            f"top.{name}": {**whole, name: value}
            for name in ("defaults", "axes", "include", "exclude", "select")
        },
    }


PLACES = tuple(places(None))


@settings(quick, max_examples=1500)
@given(value=values, place=st.sampled_from(PLACES))
def test_any_value_in_any_place(value: Any, place: str) -> None:
    outcome(json.dumps(places(value)[place]))
    outcome(yaml.safe_dump(places(value)[place], allow_unicode=True))


@settings(quick, max_examples=40)
@given(text=injected)
def test_injected_string_is_refused_in_every_place(text: str) -> None:
    """A character that no version has: each of the places must refuse the string, not one be forgotten."""
    for place, document in places(text).items():
        pattern = place == "select.0" and set(text) & set("*?[]!")
        folder = place.endswith("wheels") and re.fullmatch(additions.FILE, text, re.ASCII)  # with capitals
        assert outcome(json.dumps(document)) is None or pattern or folder, place


@pytest.mark.parametrize("place", PLACES)
def test_every_attack_in_every_place_is_refused(place: str) -> None:
    for attack in ATTACKS:
        for text in (attack, f"2.6.0{attack}", f"{attack}2.6.0", f"one{attack}"):
            assert outcome(json.dumps(places(text)[place])) is None, text


def test_the_places_are_right_but_for_the_value() -> None:
    """The refusals above come from the value that was put in."""
    right: dict[str, Any] = {
        **BASE, "cuda": "12.4", "cudnn": "9.1", "nccl": "2.21.5", "gcc": "13", "mxnet": "1.9.1",
        "keras": "3.0", "tensorflow": "2.20.0", "platform": "linux/arm64",
        "apt": ["git"], "env": {"A": "b"}, "files": [], "build-env": {"A": "b"}, "ports": ["8888"],
        "entrypoint": ["/opt/ours/start"], "fabric.0": "verbs", "fabric": ["verbs"],
        "benchmarks.0": "nccl-tests", "benchmarks": [],
        "flavour": "devel", "test_on_gpu": True, "torch_distributed": True, "mpi4py": "4.1.2",
        "deepspeed": "0.19.8", "user": "20001", "jax": "0.12.0.1",
        "tensorboard": "2.21.0", "jupyterlab": "4.6.6",
        "wheels": None, "id": "two", "pip": ["einops"], "compile": ["x"], "mpi.flavour": "mpich",
        "mpi.version": "4.2", "gpu_arch.0": "9.0", "select.0": "o*", "exclude.torch": "2.6.0",
        "top.defaults": {}, "top.axes": {"torch": ["2.6.0"]}, "top.include": [{"id": "x", **BASE}],
        "top.exclude": [], "top.select": ["one"],
    }  # fmt: skip
    for place in PLACES:
        value = right[place.removeprefix("axes.").removeprefix("defaults.")]
        assert outcome(json.dumps(places(value)[place])) is not None, place
