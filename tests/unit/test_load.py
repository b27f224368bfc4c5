"""Every kind of wrong input: one MatrixError at its place, with the wrong value and the nearest right one."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from counted import calls
from mistakes import GOOD

from stackwright.core.config.load import MAX_BYTES, interpret, load
from stackwright.core.config.yaml_tree import LOADER
from stackwright.core.errors import MatrixError
from stackwright.core.model.matrix import Mark
from stackwright.core.model.row import Mpi

SHIPPED = Path(__file__).parents[2] / "matrix.yaml"

"""Nine lines; the cases below add the tenth and following, or replace a part."""

PARSERS = [pytest.param(yaml.SafeLoader, id="python"), pytest.param(LOADER, id="default")]


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def added(line: str) -> str:
    return f"{GOOD}    {line}\n"


BILLION_LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
    for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)

WRONG: dict[str, tuple[str | bytes, str, str, str]] = {
    # name: the text, line:column, part of the cause, the hint (whole where the nearest value matters)
    "unknown field": (added('pyhton: "3.12"'), "10:5", "unknown key 'pyhton'", "did you mean 'python'?"),
    "unknown top key": ("includes: []\n" + GOOD, "1:1", "unknown key 'includes'", "did you mean 'include'?"),
    "unknown and nothing near": (added("zzz: 1"), "10:5", "unknown key 'zzz'", "the fields are provider, os"),
    "unknown key of mpi": (
        added('mpi: {flavor: mpich, version: "4.2"}'), "10:11", "unknown key 'flavor' in 'mpi'",
        "did you mean 'flavour'?",
    ),
    "field at the top": (
        'python: "3.13"\n' + GOOD, "1:1", "unknown key 'python' at the top", "under 'defaults'",
    ),
    "id in defaults": (
        changed("provider: debian", "id: x"), "2:3", "unknown key 'id'", "only rows of 'include'",
    ),
    "merge key": (added('"<<": {}'), "10:5", "merge keys", "'defaults'"),
    "number for a version": (
        changed('"3.13"', "3.10"), "9:13", "'python' must be a string, not the number 3.10",
        'write "3.10" in quotes',
    ),
    "integer for gcc": (
        added("gcc: 13"), "10:10", "'gcc' must be a string, not the integer 13", 'write "13" in quotes',
    ),
    "number in a list": (
        changed('["8.0"]', '["8.0", 9.0]'), "6:21",
        "an entry of 'gpu_arch' must be a string, not the number 9.0", 'write "9.0" in quotes',
    ),
    "integer with underscores": (
        added("gcc: 1_3"), "10:10", "not the integer 1_3", 'write a string, as in "13"',
    ),
    "base 60": (changed('"3.13"', "3:13"), "9:13", "not the integer 3:13", 'write a string, as in "3.13"'),
    "date": (added("torch: 2024-01-02"), "10:12", "not the date 2024-01-02", 'write a string, as in "2.6.0"'),
    "list for a string": (
        added('torch: ["2.6.0"]'), "10:12", "'torch' must be a string, not a list", 'as in "2.6.0"',
    ),
    "string for a list": (
        changed('["8.0"]', '"8.0"'), "6:13", "'gpu_arch' must be a list, not the string '8.0'",
        'gpu_arch: ["8.0", "9.0"]',
    ),
    "string for mpi": (
        added("mpi: openmpi"), "10:10", "'mpi' must be a mapping, not the string 'openmpi'",
        'mpi: {flavour: openmpi, version: "5.0"}',
    ),
    "string for bool": (added('test_on_gpu: "true"'), "10:18", "must be true or false", "test_on_gpu: true"),
    "yes for true": (
        added("test_on_gpu: yes"), "10:18", "must be true or false, not the boolean yes",
        "test_on_gpu: true",
    ),
    "empty value": (changed('"3.13"', ""), "9:12", "'python' must be a string, not empty", 'as in "3.13"'),
    "empty include": ("include:\n", "1:9", "'include' must be a list, not empty", "include: [{id:"),
    "entry of include": (
        "include: [one]\n", "1:11", "an entry of 'include' must be a mapping", "include: [{id:",
    ),
    "mapping for a list": (
        "include: {id: one}\n", "1:10", "'include' must be a list, not a mapping", "include: [{id:",
    ),
    "axis without list": (
        GOOD + 'axes:\n  torch: "2.6.0"\n', "11:10", "'torch' must be a list", 'torch: ["2.6.0"]',
    ),
    "axis of lists": (
        GOOD + 'axes:\n  gpu_arch: ["8.0"]\n', "11:14", "an entry of 'gpu_arch' must be a list",
        '[["8.0", "9.0"]]',
    ),
    "axis without values": (
        GOOD + "axes:\n  torch: []\n", "11:10", "'torch' is an empty list", "at least one value",
    ),
    "axis with a value twice": (
        GOOD + 'axes:\n  torch: ["2.6.0", "2.6.0"]\n', "11:10", "has the value '2.6.0' twice", "remove one",
    ),
    "axes without required": (
        GOOD + 'axes:\n  torch: ["2.6.0"]\n', "11:10", "no 'python'", 'add python: "3.13"',
    ),
    "row without id": ("include:\n  - python: '3.13'\n", "2:5", "'id' is missing", 'add id: "cuda12-torch"'),
    "mpi without version": (
        added("mpi: {flavour: mpich}"), "10:10", "'mpi.version' is missing", 'add version: "5.0"',
    ),
    "row without python": (
        changed('    python: "3.13"\n', ""), "8:5", "row 'one' has no 'python'", 'add python: "3.13"',
    ),
    "no rows": ("defaults: {}\n", "1:1", "the matrix has no rows", "add include:"),
    "exclude without axes": (
        GOOD + "exclude:\n  - {python: '3.13'}\n", "11:5", "without 'axes'", "remove 'exclude'",
    ),
    "value outside a closed set": (
        changed("debian-13", "debian-14"), "3:7", "'debian-14' is not a value for 'os'",
        "did you mean 'debian-1",
    ),
    "flavour of mpi": (
        changed("openmpi", "opnmpi"), "5:18", "'opnmpi' is not a value for 'mpi.flavour'",
        "did you mean 'openmpi'?",
    ),
    "flavour of row": (
        added("flavour: openmpi"), "10:14", "'openmpi' is not a value for 'flavour'",
        "one of runtime, devel",
    ),
    "v before a version": (
        added('torch: "v2.6.0"'), "10:12", "'v2.6.0' is not a value", 'did you mean "2.6.0"?',
    ),
    "another distribution": (
        changed("debian-13", "rocky-9"), "3:7", "'rocky-9' is not supported for 'os'", "debian-12",
    ),
    "another MPI": (
        changed("openmpi", "mvapich2"), "5:18", "'mvapich2' is not supported for 'mpi.flavour'",
        "cuda12-mpich",
    ),
    "another architecture": (
        added("arch: arm64"), "10:5", "there is no field 'arch'", "platform=linux/arm64",
    ),
    "semicolon": (added('torch: "2.6.0;id"'), "10:12", "'2.6.0;id' is not a value", 'write it as in "2.6.0"'),
    "newline": (added(r'torch: "2.6\n0"'), "10:12", r"'2.6\n0' is not a value", 'write it as in "2.6.0"'),
    "trailing newline": (
        added(r'torch: "2.6.0\n"'), "10:12", r"'2.6.0\n' is not a value", 'did you mean "2.6.0"?',
    ),
    "block scalar": (
        added("torch: |\n      2.6.0"), "10:12", r"'2.6.0\n' is not a value", 'did you mean "2.6.0"?',
    ),
    "backtick": (added('torch: "`id`"'), "10:12", "'`id`' is not a value", 'write it as in "2.6.0"'),
    "command substitution": (
        added('cuda: "$(id)"'), "10:11", "'$(id)' is not a value", 'write it as in "12.4"',
    ),
    "unicode digits": (added('cuda: "١٢.٤"'), "10:11", "'١٢.٤' is not a value", 'write it as in "12.4"'),
    "leading zero": (changed('"3.13"', '"3.013"'), "9:13", "'3.013' is not a value", 'write it as in "3.13"'),
    "long value": (
        added(f'gcc: "{"1" * 5000}"'), "10:10", f"'{'1' * 60}'… (5000 characters)", 'write it as in "13"',
    ),
    "id with a slash": (
        changed("id: one", "id: ../one"), "8:9", "'../one' is not a value for 'id'", "cuda12-torch",
    ),
    "long id": (
        changed("id: one", f"id: {'x' * 64}"), "8:9", "(64 characters) is not a value for 'id'", "cuda12",
    ),
    "pattern of select": (
        GOOD + "select: ['a b']\n", "10:10", "'a b' is not a value for 'select'", "*cuda12*",
    ),
    "too many patterns": (GOOD + f"select: [{'one,' * 101}]\n", "10:9", "more than 100 entries", "glob"),
    "duplicate key": (
        added('python: "3.12"'), "10:5", "duplicate key 'python', first on line 9", "lines 9 and 10",
    ),
    "platforms without rows": (
        GOOD + "publish:\n  platforms: [{tag: x}]\n", "11:15", "'platforms.rows' is missing",
        "add rows: [cuda12-torch, cuda12-arm]",
    ),
    "platforms with too many rows": (
        GOOD + "publish:\n  platforms: [{tag: x, rows: [a, b, c]}]\n", "11:30",
        "'platforms.rows' has more than 2 entries", "one row for each platform: linux/amd64, linux/arm64",
    ),
    "unknown key of platforms": (
        GOOD + "publish:\n  platforms: [{tag: x, row: [a]}]\n", "11:24", "unknown key 'row' in 'platforms'",
        "did you mean 'rows'?",
    ),
    "tag of platforms": (
        GOOD + "publish:\n  platforms: [{tag: 'a b', rows: [one]}]\n", "11:21",
        "'a b' is not a value for 'platforms.tag'", 'write it as in "all"',
    ),
    "duplicate row id": (
        GOOD + '  - id: one\n    python: "3.12"\n', "10:5", "duplicate row id 'one', first on line 8",
        "lines 8 and 10",
    ),
    "anchor": (changed("include:", "include: &rows"), "7:10", "the anchor '&rows'", "under 'defaults'"),
    "alias": (GOOD + "select: *rows\n", "10:9", "the alias '*rows'", "under 'defaults'"),
    "anchor loop": ("include: &a\n  - *a\n", "1:10", "the anchor '&a'", "under 'defaults'"),
    "billion laughs": (BILLION_LAUGHS, "1:4", "the anchor '&a'", "under 'defaults'"),
    "python tag": (
        "!!python/object/apply:os.system ['id']\n", "1:1", "the tag 'tag:yaml.org,2002:python/obj",
        "remove the tag",
    ),
    "string tag": (
        changed('"3.13"', "!!str 3.13"), "9:13", "the tag 'tag:yaml.org,2002:str'", "remove the tag",
    ),
    "bare tag": (changed('"3.13"', "! 3.13"), "9:13", "the tag '!'", "remove the tag"),
    "several documents": (GOOD + "---\n" + GOOD, "10:1", "a second document", "remove the '---'"),
    "directive": ("%YAML 1.1\n---\n" + GOOD, "1:1", "directives", "start with '%'"),
    "complex key": ("? [a]\n: b\n", "1:3", "a key must be a word", "'key: value'"),
    "deep flow": ("[" * 100_000, "1:9", "nested deeper than 8 levels", "deeper than 4"),
    "deep block": ("- " * 100_000, "1:17", "nested deeper than 8 levels", "deeper than 4"),
    "deep mapping": ("{a: " * 100_000, "1:33", "nested deeper than 8 levels", "deeper than 4"),
    "not YAML": (GOOD + "select: [one\n", "11:1", "not YAML", "check the indentation"),
    "tab": ("include:\n\t- id: one\n", "2:1", "this is a tab", "indent with blanks"),
    "escape beyond Unicode": (added(r'torch: "\UFFFFFFFF"'), "", "not YAML", "check the indentation"),
    "a list": ("- id: one\n", "1:1", "a matrix is a mapping, not a list", "defaults, axes, include"),
    "a word": (
        "matrix\n", "1:1", "a matrix is a mapping, not the string 'matrix'", "defaults, axes, include",
    ),
    "empty": ("", "1:1", "the file is empty", "start from the matrix.yaml"),
    "only a comment": ("# matrix\n", "1:1", "the file is empty", "start from the matrix.yaml"),
    "only a start": ("---\n", "2:1", "a matrix is a mapping, not empty", "defaults, axes, include"),
    "NUL": (GOOD + "\0", "10:1", "a NUL byte", "UTF-8"),
    "control character": (added("torch: \x1b[31m"), "10:12", "U+001B", "UTF-8"),
    "line separator": (added("# \u2028"), "10:7", "U+2028", "UTF-8"),
    "not UTF-8": (
        GOOD.encode() + b"    # caf\xe9\n", "10:10", "byte 0xe9 is not UTF-8", "save the file as UTF-8",
    ),
    "UTF-16": (GOOD.encode("utf-16"), "1:1", "is not UTF-8", "save the file as UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("name", [name for name, case in WRONG.items() if isinstance(case[0], str)])
def test_wrong_input_is_one_located_error(name: str, parser: type[Any]) -> None:
    content, place, cause, hint = WRONG[name]
    assert isinstance(content, str)
    with pytest.raises(MatrixError) as caught:
        interpret(content, "m.yaml", parser)
    check(caught.value, "m.yaml", place, cause, hint)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_file_is_one_located_error(name: str, tmp_path: Path) -> None:
    content, place, cause, hint = WRONG[name]
    path = tmp_path / "m.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(MatrixError) as caught:
        load(path)
    check(caught.value, str(path), place, cause, hint)


def check(error: MatrixError, path: str, place: str, cause: str, hint: str) -> None:
    assert error.place == f"{path}:{place}" if place else error.place.startswith(f"{path}:")
    assert cause in error.cause
    assert hint in error.hint
    assert len(str(error)) < 600
    assert str(error).count("\n") == 1, "a value reached the message with a line break in it"


def test_good_text_of_these_tests_is_good() -> None:
    """The cases above are wrong for what they changed, not for what they started from."""
    matrix = interpret(GOOD, "m.yaml")
    assert [row.id for row in matrix.include] == ["one"]
    assert matrix.include[0].mark == Mark(line=8, column=5)
    assert dict(matrix.defaults)["mpi"] == Mpi.of("openmpi", "5.0")


@pytest.mark.parametrize("parser", PARSERS)
def test_shipped_matrix(parser: type[Any]) -> None:
    matrix = interpret(SHIPPED.read_text(), "matrix.yaml", parser)
    assert matrix.select == ("cuda12-torch",)
    assert dict(matrix.include[0].fields)["gpu_arch"] == ("7.0", "8.0", "9.0")
    assert matrix == interpret(SHIPPED.read_text(), "matrix.yaml", LOADER)


def test_first_line_of_shipped_matrix_names_the_schema() -> None:
    first = SHIPPED.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=docs/matrix.schema.json"
    assert (SHIPPED.parent / "docs/matrix.schema.json").is_file()


def test_the_first_wrong_thing_of_the_file_is_told() -> None:
    text = changed("debian-13", "debian13").replace('"3.13"', "3.13")
    with pytest.raises(MatrixError, match="debian13") as caught:
        interpret(text, "m.yaml")
    assert caught.value.place == "m.yaml:3:7"


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_true(text: str) -> None:
    assert dict(interpret(added(f"test_on_gpu: {text}"), "m").include[0].fields)["test_on_gpu"] is True


@pytest.mark.parametrize(
    "version", ["1.8.0.post0", "2.0.0+cu118", "2.9.0rc1", "2.9.0.dev20250101", "2.9.0a1"]
)
def test_versions_of_frameworks_follow_pep_440(version: str) -> None:
    assert dict(interpret(added(f'torch: "{version}"'), "m").include[0].fields)["torch"] == version


@pytest.mark.parametrize(
    "version", ["2.6.0+", "2.6.0-1", "1!2.6", "2.6.0+cu118;x", ">=2.6", "2.6.*", "", " 2.6.0", "2..6"]
)
def test_other_notations_of_versions_are_refused(version: str) -> None:
    with pytest.raises(MatrixError, match="is not a value for 'torch'"):
        interpret(added(f'torch: "{version}"'), "m")


def test_null_is_the_same_as_left_out() -> None:
    assert dict(interpret(added("cudnn: null"), "m").include[0].fields)["cudnn"] is None


def test_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load(path).include[0].mark == Mark(line=8, column=5)


# --------------------------------------------------------------------------------------- the file


def test_missing_file_names_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text(GOOD)
    with pytest.raises(MatrixError, match="no such file") as caught:
        load(tmp_path / "matrx.yaml")
    assert caught.value.hint == f"did you mean '{tmp_path}/matrix.yaml'?"


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="this is a directory"):
        load(tmp_path)


def test_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said: list[str] = []

    def attempt() -> None:
        with pytest.raises(MatrixError) as caught:
            load(tmp_path / "pipe")
        said.append(caught.value.cause)

    thread = Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert said == ["this is not a regular file"]


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "matrix.yaml/x"])
def test_impossible_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text(GOOD)
    with pytest.raises(MatrixError):
        load(tmp_path / name)


def test_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    """50 GB, sparse: reading it all would take longer than any test, and more memory than there is."""
    path = tmp_path / "m.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 2**30)
    with pytest.raises(MatrixError, match="larger than 1 MiB"):
        load(path)


def test_limit_of_size_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(GOOD + "#" * (MAX_BYTES - len(GOOD)))
    assert load(path).include
    path.write_text(GOOD + "#" * (MAX_BYTES - len(GOOD) + 1))
    with pytest.raises(MatrixError, match="larger than 1 MiB"):
        load(path)


def test_ten_times_the_rows_are_ten_times_the_work(tmp_path: Path) -> None:
    row = SHIPPED.read_text().partition("include:")[2].partition("  - ")[2].partition("  - ")[0]
    head = "defaults: {provider: debian}\ninclude:\n"
    path = tmp_path / "m.yaml"

    def work(count: int) -> int:
        rows = (f"  - {row.replace('cuda12-torch', f'row{number}')}" for number in range(count))
        path.write_text(head + "".join(rows))
        return calls(lambda: load(path))

    few, many = work(100), work(1000)
    assert len(load(path).include) == 1000
    assert many < 11 * few
