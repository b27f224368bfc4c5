"""The plan of the house: which package may import which, and what `core` may import at all."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "stackwright"
FLOORS = {
    "core": 1, "host": 2, "engines": 3, "probe": 4, "records": 4, "publish": 5, "build": 6, "nightly": 7,
    "audit": 7, "cli": 8,
}  # fmt: skip
"""A package imports from lower floors only."""
MOST = 10
"""Modules in a folder, without ``__init__``."""
LINES, PARAMETERS, FILE, MEDIAN = 40, 7, 400, 8
"""At most: lines and parameters of a function, lines of a file, lines of the median function of a folder."""
CODE = (PACKAGE, "probes", "tests")

LIBRARIES = {
    "annotated_types", "jinja2", "packaging", "pydantic", "pydantic_core", "typing_extensions", "yaml",
}  # fmt: skip
WORLD = {
    "asyncio", "ctypes", "fcntl", "http", "multiprocessing", "os", "select", "shutil", "signal", "socket",
    "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
CARRIED = "stackwright.core.launch.carried"
"""Programs that run in the job: they are read as text, and are no modules of ours."""
ABSENT = ("docker", "requests", "dask", "distributed", "dxf")


def modules(root: Path) -> dict[str, ast.Module]:
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        words = path.relative_to(root).with_suffix("").parts
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = ast.parse(path.read_text())
    return found


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Pairs of a module and a name in it, which may be a module as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def edges(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Imports within the package. A name that is a module counts as that module."""
    return {
        name: {
            f"{module}.{word}" if f"{module}.{word}" in trees else module
            for module, word in imports(tree)
            if module.split(".")[0] == PACKAGE and module != PACKAGE
        }
        - {name}
        for name, tree in trees.items()
    }


def upward(graph: Mapping[str, set[str]]) -> list[str]:
    def floor(name: str) -> int:
        return FLOORS[name.split(".")[1]]

    return [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in sorted(others)
        if name != PACKAGE and name.split(".")[1] != other.split(".")[1] and floor(other) >= floor(name)
    ]


def impure(trees: Mapping[str, ast.Module]) -> list[str]:
    """What ``core`` may not import, even within a function."""
    return [
        f"{name} imports {module}"
        for name, tree in trees.items()
        if name.startswith("stackwright.core") and not name.startswith(CARRIED)
        for module, _ in imports(tree)
        if (top := module.split(".")[0]) != PACKAGE
        and top not in LIBRARIES
        and (top in WORLD or top not in sys.stdlib_module_names)
    ]


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return modules(ROOT)


def test_no_package_imports_from_its_floor_or_above(trees: dict[str, ast.Module]) -> None:
    assert upward(edges(trees)) == []


def test_no_circle(trees: dict[str, ast.Module]) -> None:
    tuple(TopologicalSorter(edges(trees)).static_order())


def test_a_folder_can_be_read_at_a_glance(trees: dict[str, ast.Module]) -> None:
    parents = {name.rpartition(".")[0] for name in trees}
    count = Counter(name.rpartition(".")[0] for name in trees if name not in parents)
    assert {name: number for name, number in count.items() if number > MOST} == {}


def test_core_imports_nothing_that_touches_the_world(trees: dict[str, ast.Module]) -> None:
    assert impure(trees) == []


def test_core_is_imported_where_the_libraries_of_effects_are_absent(trees: dict[str, ast.Module]) -> None:
    core = [
        name for name in trees if name.startswith("stackwright.core") and not name.startswith(f"{CARRIED}.")
    ]
    program = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({ABSENT!r}))
for name in {core!r}:
    importlib.import_module(name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_plan_is_seen_broken() -> None:
    planted = {
        "stackwright.core.a": ast.parse(
            "from stackwright.host import runner\nimport subprocess, requests, json"
        ),
        "stackwright.host.runner": ast.parse("from stackwright.core.a import x"),
        "stackwright.probe.b": ast.parse("def f():\n    from stackwright.records import files"),
        "stackwright.records.files": ast.parse(""),
    }
    graph = edges(planted)
    assert upward(graph) == [
        "stackwright.core.a imports stackwright.host.runner",
        "stackwright.probe.b imports stackwright.records.files",
    ]
    assert impure(planted) == [
        "stackwright.core.a imports subprocess", "stackwright.core.a imports requests",
    ]  # fmt: skip
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(graph).static_order())


def test_the_map_of_the_house_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "develop.md").read_text()
    named = set(
        re.findall(r"`((?:stackwright|tests|probes|patches|dockerfiles|steps|bench|docs)/[\w./-]*)`", text)
    )
    assert len(named) > 40
    assert [path for path in sorted(named) if not (ROOT / path).exists() and "NAME" not in path] == []
    packages = {path.name for path in (ROOT / PACKAGE).iterdir() if (path / "__init__.py").exists()}
    assert set(re.findall(r"^\| \d \| `stackwright/(\w+)` \|", text, re.MULTILINE)) == packages == set(FLOORS)


# -- sizes -----------------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(text: str) -> list[Function]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]


def lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """Return how many a caller may hand in: neither ``self`` nor ``cls``, and ``*args`` as one."""
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [argument.arg for argument in (given.vararg, given.kwarg) if argument]
    return len([name for name in names if name not in ("self", "cls")])


def too_large(name: str, text: str) -> Iterator[str]:
    if (length := len(text.splitlines())) > FILE:
        yield f"{name} has {length} lines"
    for function in functions(text):
        if lines(function) > LINES:
            yield f"{name}: {function.name} has {lines(function)} lines"
        if parameters(function) > PARAMETERS:
            yield f"{name}: {function.name} has {parameters(function)} parameters"


@pytest.mark.parametrize("folder", CODE)
def test_functions_and_files_are_small(folder: str) -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / folder).rglob("*.py")}
    assert [what for name, text in sorted(texts.items()) for what in too_large(name, text)] == []
    assert median(lines(function) for text in texts.values() for function in functions(text)) <= MEDIAN


def test_a_large_function_is_found() -> None:
    body = "    x = 1\n" * LINES
    wide = "def wide(self, a, b, c, d, e, *args, f, g, **more): pass\n"
    narrow = "class A:\n    def narrow(self, a, b, c, d, e, f, g): pass\n"
    text = f"async def long():\n{body}{wide}{narrow}" + "\n" * FILE
    length = len(text.splitlines())
    assert list(too_large("a.py", text)) == [
        f"a.py has {length} lines", "a.py: long has 41 lines", "a.py: wide has 9 parameters",
    ]  # fmt: skip
    assert list(too_large("a.py", f"def long():\n{body[10:]}{narrow}")) == []


def test_no_test_imports_another_test() -> None:
    """What two tests need is in tests/support."""
    imports = re.compile(r"^\s*(?:from|import) test_\w+", re.MULTILINE)
    paths = sorted((ROOT / "tests").rglob("*.py"))
    assert [path.name for path in paths if imports.search(path.read_text())] == []
    assert imports.search("from test_cli import call")


# -- platform, accelerator and package manager -----------------------------------------------------

WORDS_OF_TARGETS = re.compile(
    r"nvidia\.com/gpu|/dev/nvidia|NVIDIA_[A-Z]+|nvidia-(smi|ctk|container)|apt-get|binary-amd64|x86_64|amd64"
)
MAY_SAY_THEM = (
    "core/model/target.py",
    "core/launch/carried/",  # programs for another machine
    "engines/sif/layout.py",  # its table has every architecture
)


def words_of_targets(tree: ast.Module) -> Iterator[str]:
    """Yield the strings with such a word, without docstrings."""
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield from (match[0] for match in WORDS_OF_TARGETS.finditer(node.value))


def test_no_two_files_of_tests_that_run_together_share_a_name() -> None:
    """pytest imports them by their names, and refuses the second one."""
    folders = ("engine", "patches", "unit", "golden")
    names = Counter(path.name for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


def test_a_second_platform_accelerator_or_package_manager_is_one_more_value() -> None:
    said = {
        name: list(words_of_targets(ast.parse(path.read_text())))
        for path in (ROOT / PACKAGE).rglob("*.py")
        if not (name := path.relative_to(ROOT / PACKAGE).as_posix()).startswith(MAY_SAY_THEM)
    }
    assert {name: words for name, words in said.items() if words} == {}


def test_a_word_of_a_target_is_found() -> None:
    text = '"""Not the apt-get of a docstring."""\nrun(["apt-get", "update"], f"{x}/binary-amd64/y")\n'
    assert list(words_of_targets(ast.parse(text))) == ["apt-get", "binary-amd64"]
