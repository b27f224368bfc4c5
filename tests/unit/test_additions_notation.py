"""The notation of ``pip`` in a matrix: what is read, and what is one clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from rows import CELL

from stackwright.core.config.expand import expand, select
from stackwright.core.config.load import interpret, load
from stackwright.core.config.setting import question
from stackwright.core.errors import MatrixError, UsageError

ROW: dict[str, Any] = {
    "id": "one", "provider": "debian", "os": "debian-13", "python": "3.13", "horovod": "0.28.1",
    "mpi": {"flavour": "openmpi", "version": "5.0"}, "gpu_arch": ["8.0"], "torch": "2.6.0",
}  # fmt: skip


def read(pip: Any) -> tuple[str, ...]:
    (row,) = expand(interpret(yaml.safe_dump({"include": [{**ROW, "pip": pip}]}), "m.yaml"))
    return tuple(map(str, row.pip))


def refused(pip: Any) -> str:
    with pytest.raises(MatrixError) as caught:
        read(pip)
    assert str(caught.value).startswith("m.yaml:") and "\n  next: " in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------------------------- notation


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("einops", "einops"),
        ("Transformers >= 4.45", "transformers>=4.45"),
        ("x[B,a]~=1.2,!=1.3.*", "x[a,b]!=1.3.*,~=1.2"),
        ("some_Thing.x==1.0+cu126", "some-thing-x==1.0+cu126"),
        ("x; python_version < '3.12'", 'x ; python_version < "3.12"'),
    ],
)
def test_a_requirement_has_one_normal_form(written: str, normal: str) -> None:
    assert read([written]) == (normal,)
    assert read([written, normal]) == (normal,)


def test_an_entry_may_name_what_is_imported() -> None:
    assert read([{"name": "PyYAML>=6", "import": "yaml"}]) == ("pyyaml>=6:yaml",)
    both = [{"name": "PyYAML", "import": module} for module in ("yaml", "_yaml")]
    assert read(both) == ("pyyaml:yaml+_yaml",)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("-r other.txt", "an option"),
        ("--index-url=https://index.example", "an option"),
        ("-e .", "an option"),
        ("x @ https://host.example/x.whl", "address"),
        ("git+https://host.example/x", "address"),
        ("./x", "a file"),
        ("x.whl", "a file"),
        ("../x", "a file"),
        ("x===1.0", "is not a value"),
        ("x>=1 # why", "is not a value"),
        ("$(id)", "is not a value"),
        ("x; id", "is not a value"),
        ("x && id", "is not a value"),
        ("x\nRUN id", "is not a value"),
        ("{{ x }}", "is not a value"),
        ("x==1\\", "is not"),
        ("", "is not a value"),
        ("a" * 65, "is not a value"),
        ("x>=٣", "is not a value"),
    ],
)
def test_what_is_no_plain_requirement_is_one_error(written: str, says: str) -> None:
    assert says in refused([written])
    assert says in refused([{"name": written, "import": "x"}])


@pytest.mark.parametrize(
    ("pip", "says"),
    [
        ("einops", "must be a list"),
        ([1.0], "in quotes"),
        ([None], "not empty"),
        ([["x"]], "must be a string"),
        ([{"import": "x"}], "'pip.name' is missing"),
        ([{"name": "x", "index": "private"}], "is not a value for 'pip.index'"),
        ([{"name": "x", "index": "https://index.example"}], "is not a value for 'pip.index'"),
        ([{"name": "x", "imports": "x"}], "did you mean 'import'?"),
        ([{"name": "x", "import": "y; id"}], "is not a value for 'pip.import'"),
        ({"requirements": "../x.txt"}, "is not a value for 'pip.requirements'"),
        ({"requirements": "/etc/passwd"}, "is not a value for 'pip.requirements'"),
        ({"files": "x.txt"}, "unknown key"),
        ({"pyproject": "../pyproject.toml"}, "is not a value for 'pip.pyproject'"),
        ({"pyproject": "p.toml", "extras": ["a b"]}, "is not a value for 'pip.extras'"),
        ({"pyproject": "p.toml", "requirements": "r.txt"}, "unknown key"),
        (["x"] * 201, "more than 200"),
    ],
)
def test_other_shapes_are_one_error(pip: Any, says: str) -> None:
    assert says in refused(pip)


def matrix_with(folder: Path, text: str) -> Path:
    (folder / "r.txt").write_text(text)
    path = folder / "matrix.yaml"
    path.write_text(yaml.safe_dump({"include": [{**ROW, "pip": {"requirements": "r.txt"}}]}))
    return path


def test_a_file_beside_the_matrix_is_read(tmp_path: Path) -> None:
    path = matrix_with(tmp_path, "# ours\n\neinops>=0.8  # shapes\nPyYAML\n")
    assert list(map(str, expand(load(path))[0].pip)) == ["einops>=0.8", "pyyaml"]


@pytest.mark.parametrize("line", ["-r more.txt", "--hash=x", "x @ file:///x", "./x", "x \\", "x; $(id)"])
def test_a_file_has_plain_requirements_only(line: str, tmp_path: Path) -> None:
    with pytest.raises(MatrixError) as caught:
        load(matrix_with(tmp_path, f"einops\n{line}\n"))
    assert str(caught.value).startswith("r.txt:2:1: ") and "\n  next: " in str(caught.value)


def test_a_file_that_is_no_file_of_its_own_is_refused(tmp_path: Path) -> None:
    path = matrix_with(tmp_path, "")
    (tmp_path / "r.txt").unlink()
    with pytest.raises(MatrixError, match="no such file"):
        load(path)
    (tmp_path / "secret").write_text("einops\n")
    (tmp_path / "r.txt").symlink_to("secret")
    with pytest.raises(MatrixError, match="link"):
        load(path)


PROJECT = """
[project]
name = "ours"
dependencies = ["einops>=0.8", "PyYAML"]
[project.optional-dependencies]
Train = ["transformers[torch]>=4.45"]
docs = ["sphinx"]
[tool.uv]
index-url = "https://index.example"
"""


def project_in(folder: Path, text: str, **more: Any) -> Path:
    (folder / "pyproject.toml").write_text(text)
    path = folder / "matrix.yaml"
    pip = {"pyproject": "pyproject.toml", **more}
    path.write_text(yaml.safe_dump({"include": [{**ROW, "pip": pip}]}))
    return path


def test_a_project_next_to_the_matrix_is_read(tmp_path: Path) -> None:
    rows = expand(load(project_in(tmp_path, PROJECT)))
    assert list(map(str, rows[0].pip)) == ["einops>=0.8", "pyyaml"]
    rows = expand(load(project_in(tmp_path, PROJECT, extras=["train"])))
    assert list(map(str, rows[0].pip)) == ["einops>=0.8", "pyyaml", "transformers[torch]>=4.45"]


@pytest.mark.parametrize(
    ("text", "extras", "says"),
    [
        (PROJECT, ["none"], "no extra 'none', but docs, train"),
        ("[project]\ndynamic = ['dependencies']\n", [], "dynamic"),
        ("[tool.x]\n", [], "no table [project]"),
        ("[project]\ndependencies = 'x'\n", [], "are no list"),
        ("[project]\ndependencies = [1]\n", [], "not a list of strings"),
        ("[project]\ndependencies = ['x @ file:///x']\n", [], "is not supported"),
        ("[project]\ndependencies = ['x; $(id)']\n", [], "is not a requirement"),
        ("[project]\noptional-dependencies = ['x']\n", ["x"], "no lists by name"),
        ("[project\n", [], "cannot be read as a project"),
    ],
)
def test_a_project_that_no_lock_could_hold_is_one_error(
    text: str, extras: list[str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(MatrixError) as caught:
        load(project_in(tmp_path, text, extras=extras))
    assert says in str(caught.value) and "pyproject.toml" in str(caught.value)
    assert "\n  next: " in str(caught.value)


def test_an_entry_may_name_its_index() -> None:
    assert read([{"name": "ours>=1", "index": "extra"}]) == ("ours>=1@extra",)
    assert read([{"name": "ours", "index": "extra", "import": "x"}, "ours"]) == ("ours:x@extra",)
    found = question(CELL, ["pip=ours:x@extra einops"]).cell.pip
    assert tuple(map(str, found)) == ("ours:x@extra", "einops")


def test_an_axis_and_a_default() -> None:
    shared = {name: value for name, value in ROW.items() if name != "id"} | {"pip": ["einops"]}
    rows = expand(interpret(yaml.safe_dump({"defaults": shared, "axes": {"python": ["3.13"]}}), "m"))
    assert [tuple(map(str, row.pip)) for row in rows] == [("einops",)]
    axis = {"defaults": shared, "axes": {"pip": [["einops"], ["einops>=0.8"], []]}}
    rows = expand(interpret(yaml.safe_dump(axis), "m"))
    assert len({row.id for row in rows}) == 3 and rows[2].id == "pipnone"
    assert [len(row.pip) for row in rows] == [1, 1, 0]
    assert select(rows, [], ["pip=einops"]) == rows[:2]
    assert select(rows, [], ["pip="]) == rows[2:]


def test_it_can_be_set() -> None:
    found = question(CELL, ["pip=einops PyYAML>=6:yaml"]).cell.pip
    assert tuple(map(str, found)) == ("einops", "pyyaml>=6:yaml")
    with pytest.raises(UsageError, match="no requirement"):
        question(CELL, ["pip=$(id)"])
