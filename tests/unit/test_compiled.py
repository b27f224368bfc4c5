"""What is compiled from source: its notation, what a source says, lock, rules, and what is rendered."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from typing import Any

import pytest
import yaml
from compiling import ALONE, EINOPS, SHA, SOURCE, compiling, locked, pin, resolved
from rows import CELL, LOCK, SERIES, SOURCES, cell

from stackwright.core.checks.probes import words
from stackwright.core.compiled.build import key
from stackwright.core.compiled.source import Source, read, with_needs
from stackwright.core.components import table
from stackwright.core.config import additions
from stackwright.core.config.change import settings
from stackwright.core.config.expand import expand, select
from stackwright.core.config.load import interpret
from stackwright.core.config.setting import question
from stackwright.core.errors import LockError, MatrixError, UsageError
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell, Rejection
from stackwright.core.render import definition, dockerfile, labelled, layers
from stackwright.core.render.instructions import logical_lines
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.additions import no_builder, no_source, with_builders
from stackwright.core.resolve.requirements import asked, request, with_additions
from stackwright.core.resolve.resolve import check, resolve

ROW: dict[str, Any] = {
    "id": "one", "provider": "debian", "os": "debian-13", "python": "3.13", "horovod": "0.28.1",
    "mpi": {"flavour": "openmpi", "version": "5.0"}, "gpu_arch": ["8.0"], "torch": "2.6.0",
}  # fmt: skip


# ------------------------------------------------------------------------------------- notation


def matrix(compile: Any) -> tuple[Cell, ...]:
    return expand(interpret(yaml.safe_dump({"include": [{**ROW, "compile": compile}]}), "m.yaml"))


def test_an_entry_is_a_requirement_or_names_modules_and_variables() -> None:
    whole = {"name": "x", "import": "y", "env": {"B": "2", "A": "a"}, "needs": ["Ninja >= 1"]}
    (row,) = matrix(["Flash_Attn >= 2", whole])
    variables = (("A", "a"), ("B", "2"))
    assert row.compile == (
        Addition(requirement="flash-attn>=2"),
        Addition(requirement="x", modules=("y",), environment=variables, needs=("ninja>=1",)),
    )
    assert str(row.compile[1]) == "x:y[A=a][B=2]{ninja>=1}"
    assert select((row,), [], ["compile=x"]) == (row,)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (["x @ https://host.example/x"], "address"),
        (["-r x"], "an option"),
        (["$(id)"], "is not a value for 'compile'"),
        ([{"import": "x"}], "'compile.name' is missing"),
        ([{"name": "x", "envs": {}}], "did you mean 'env'?"),
        ([{"name": "x", "env": {"a": "1"}}], "'a' is not a variable of a build"),
        ([{"name": "x", "env": {"A": "1; id"}}], "'1; id' is not a value for a variable"),
        ([{"name": "x", "env": {"A": "$(id)"}}], "is not a value for a variable"),
        ([{"name": "x", "env": {"A": 1}}], "must be a string, not the integer 1"),
        ([{"name": "x", "env": ["A"]}], "must be a mapping"),
        ([{"name": "x", "needs": "ninja"}], "'compile.needs' must be a list"),
        ([{"name": "x", "needs": ["$(id)"]}], "is not a value for 'compile.needs'"),
        ([{"name": "x", "needs": ["-r x"]}], "an option"),
        ({"requirements": "r.txt"}, "must be a list"),
        (["x"] * 21, "more than 20"),
    ],
)
def test_what_is_no_source_is_one_error(written: Any, says: str) -> None:
    with pytest.raises(MatrixError) as caught:
        matrix(written)
    assert says in str(caught.value) and "\n  next: " in str(caught.value)


def test_it_can_be_set_and_a_command_line_says_it_again() -> None:
    found = question(CELL, ["compile=einops>=0.8:einops+x[MAX=2][B=c]{ninja}"]).cell
    assert tuple(map(str, found.compile)) == ("einops>=0.8:einops+x[B=c][MAX=2]{ninja}",)
    assert question(CELL, list(settings(CELL, found))).cell.compile == found.compile
    for text in ("x[a=1]", "x[A=$(id)]", "x;id", "x{$(id)}", "x{-r}"):
        with pytest.raises(UsageError, match="no requirement"):
            question(CELL, [f"compile={text}"])


# ------------------------------------------------------------------------------ what a source says


def archive(**files: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"x-1.0/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


def said(**files: str) -> Source:
    return read("x", "1.0", SHA, archive(**files))


METADATA = """Metadata-Version: 2.4
Name: x
Requires-Dist: Torch>=2.0
Requires-Dist: tomli; python_version < "3.11"
Requires-Dist: pytest; extra == "test"

Requires-Dist: no-header-any-more
"""


def test_a_source_says_what_it_runs_and_is_compiled_with() -> None:
    project = '[build-system]\nrequires = ["setuptools >= 42", "ninja"]\n'
    found = said(**{"PKG-INFO": METADATA, "pyproject.toml": project, "x.egg-info/requires.txt": "other"})
    assert found.requires == ("torch>=2.0", 'tomli ; python_version < "3.11"')
    assert found.needs == ("setuptools>=42", "ninja")


def test_an_older_source_says_it_in_the_list_of_setuptools() -> None:
    listed = 'scipy\n\n[:python_version<"3.8"]\nold\n\n[test]\npytest\n'
    found = said(**{"PKG-INFO": "Metadata-Version: 2.1\n", "src/x.egg-info/requires.txt": listed})
    assert found.requires == ("scipy", 'old ; python_version < "3.8"')
    assert found.needs == ("setuptools>=40.8.0",)


def test_what_a_source_does_not_say_is_known() -> None:
    found = read("mpi4py", "4.1.2", SHA, archive(**{"PKG-INFO": ""}))
    assert found.needs == ("setuptools>=40.8.0", "cython>=3.0.1")


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        archive(**{"PKG-INFO": "Requires-Dist: x @ https://host.example\n"}),
        archive(**{"PKG-INFO": "Requires-Dist: $(id)\n"}),
        archive(**{"pyproject.toml": '[build-system]\nrequires = ["x; id"]\n'}),
        archive(**{"pyproject.toml": "[build-system]\nrequires = 1\n"}),
        archive(**{"pyproject.toml": "[build-system\n"}),
        archive(**{"pyproject.toml": "#" * (5 << 20)}),
    ],
)
def test_a_hostile_source_is_refused(content: bytes) -> None:
    with pytest.raises(LockError, match=r"the source of x 1\.0 cannot be read"):
        read("x", "1.0", SHA, content)


# ---------------------------------------------------------------------------------------- the lock


ROW_COMPILING = compiling("fast-op>=1", FORCE_CUDA="1")


def test_a_lock_has_the_source_what_it_runs_with_and_what_is_not_shipped() -> None:
    lock = locked(ROW_COMPILING)
    assert [[package.name for package in part] for part in (lock.added, lock.compiled, lock.builders)] == [
        ["einops"], ["fast-op"], ["cython"],
    ]  # fmt: skip
    assert lockfile.compiled_pins(lock) == f"fast-op==1.2 \\\n    --hash=sha256:{SHA}\n"
    assert lock.version("fast-op") == "1.2" and lock.version("cython") is None
    assert dict(lock.asked_by)["einops"] == ("fast-op",)
    (package,) = resolved(ROW_COMPILING, lock).compiled
    assert (package.sha256, package.environment) == (SHA, (("FORCE_CUDA", "1"),))
    assert {"cython", "einops", "torch"} <= set(package.needs) and "fast-op" not in package.needs


def test_what_both_asks_for_is_compiled_and_no_wheel() -> None:
    """Another addition may require it, so that uv finds a wheel as well."""
    lock = locked(ROW_COMPILING, both=ALONE + EINOPS + pin("fast-op", "1.2", "other"))
    assert [package.name for package in lock.added] == ["einops"]


def test_a_row_says_what_a_source_does_not() -> None:
    wanted = additions.together([("fast-op", (), (), ("ninja", "cython>=3"))])
    assert with_needs(SOURCE, wanted).needs == ("cython>=3", "ninja")
    assert request(cell(compile=wanted)) != request(compiling("fast-op"))


def test_the_questions_to_the_index() -> None:
    assert with_additions(ROW_COMPILING, (SOURCE,))[-2:] == ("einops", "torch")
    assert asked(ROW_COMPILING) == asked(CELL)
    builders = with_builders(ALONE, (SOURCE,))
    assert builders[-1] == "cython>=3" and "torch==2.6.0" in builders
    assert request(ROW_COMPILING) != request(CELL)


SAID = """error: No solution found when resolving dependencies
  cause: Because fast-op was not found in the package registry and you require fast-op, we can conclude that
         your requirements are unsatisfiable.
"""


def test_what_uv_refuses_names_the_source_and_what_it_needs() -> None:
    assert no_source(SAID, ROW_COMPILING) == (
        "the row's compile: fast-op>=1 has no source on the index, because fast-op was not found in the "
        "package registry"
    )
    assert "fast-op cannot be compiled with its packages, which needs cython>=3" in no_builder(
        SAID, (SOURCE,)
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SHA, f"{SHA} \\\n    --hash=sha256:{'cd' * 32}"),
        (f" \\\n    --hash=sha256:{SHA}", ""),
        ('"needs": {"fast-op": ["einops"', '"needs": {"fast-op": ["x; id"'),
    ],
)
def test_a_lock_of_a_source_with_anything_else_is_refused(old: str, new: str) -> None:
    text = locked(ROW_COMPILING).text
    assert old in text
    with pytest.raises(LockError, match="not a lock"):
        lockfile.parse(text.replace(old, new), "x")


# ---------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("row", "rule", "says"),
    [
        (compiling("torch"), "pip-fields", "write it there, and not in compile"),
        (compiling("horovod==0.28.1"), "pip-fields", "is the field horovod"),
        (compiling("cupy-cuda13x"), "pip-cuda", "made for CUDA 13"),
        (compiling("apex"), "compile-known", "NVIDIA's Apex is on no index"),
        (compiling("x", TORCH_CUDA_ARCH_LIST="8.0"), "compile-variables", "follows from the row"),
        (compiling("x", LD_PRELOAD="x.so"), "compile-variables", "follows from the row"),
        (compiling("x").changed({"pip": (Addition(requirement="x>1"),)}), "compile-once", "and not both"),
    ],
)
def test_what_cannot_be_compiled_is_refused_before_a_lock_is_made(row: Cell, rule: str, says: str) -> None:
    rejection = check(row)
    assert rejection and rejection.rule == rule
    assert says in rejection.reason


def test_a_source_that_brings_a_second_nccl_is_refused_by_its_name() -> None:
    row = compiling("fast-op")
    rejection = resolve(
        row, locked(row, both=ALONE + EINOPS + pin("nvidia-nccl-cu13", "2.29", "einops")), SERIES
    )
    assert isinstance(rejection, Rejection) and rejection.rule == "pip-second"
    assert rejection.clash[0] == ("compile", "fast-op") and "einops → nvidia-nccl-cu13" in rejection.reason


def test_a_lock_of_another_source_is_refused() -> None:
    for row in (compiling("fast-op>2"), compiling("fast-op", "other")):
        rejection = resolve(row, locked(row), SERIES)
        assert isinstance(rejection, Rejection) and rejection.rule == "compile-named"


# --------------------------------------------------------------------------------------- render


STACK = resolved(ROW_COMPILING, locked(ROW_COMPILING))


def test_each_source_has_a_stage_and_all_wheels_are_one_layer() -> None:
    recipe, before = dockerfile.render(STACK, SOURCES), dockerfile.render(resolved(CELL, LOCK), SOURCES)
    assert recipe.text("compile/fast-op/source.txt") == lockfile.compiled_pins(STACK.lock)
    assert recipe.text("compile/fast-op/needs.txt").split()[::3] == ["cython==3.1", "einops==0.8.2"]
    assert recipe.text("compile/fast-op/env.txt") == "FORCE_CUDA=1\n"
    steps = logical_lines(recipe.text("Dockerfile"))
    assert [line for line in steps if line.startswith("FROM")][3:6] == [
        "FROM toolchain AS horovod-wheel", "FROM toolchain AS compilers",
        "FROM compilers AS compiled-fast-op",
    ]  # fmt: skip
    assert 'CUDA_ARCHES="7.0;8.0;9.0"' in recipe.text("Dockerfile")
    assert layers.purposes(recipe, ("horovod",))[-4:] == ("horovod", "compiled", "pip", "row")
    assert "compile" not in before.text("row.json")
    assert not [name for name, _ in before.files if name.startswith("compile/")]


def test_a_row_without_a_layer_that_is_compiled_has_the_toolchain_all_the_same() -> None:
    without = cell(horovod=None, torch_distributed=True, compile=ROW_COMPILING.compile)
    lock = replace(locked(ROW_COMPILING), request=request(without))
    recipe = dockerfile.render(resolved(without, lock), SOURCES)
    stages = [
        line.split()[-1] for line in logical_lines(recipe.text("Dockerfile")) if line.startswith("FROM")
    ]
    assert stages == [
        "base",
        "toolchain",
        "frameworks",
        "compilers",
        "compiled-fast-op",
        "additions",
        "final",
    ]


def test_a_component_can_be_compiled_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    own = additions.together([("fast-op==1.2", (), (("FORCE_CUDA", "1"),), ())])
    first, *others = table.COMPONENTS
    monkeypatch.setattr(table, "COMPONENTS", (replace(first, compiled=lambda cell: own), *others))
    assert table.compiled(CELL) == own
    (package,) = resolved(CELL, replace(locked(CELL), request=request(CELL))).compiled
    assert (package.name, package.environment) == ("fast-op", (("FORCE_CUDA", "1"),))


def test_the_definition_file_compiles_in_one_stage() -> None:
    text = definition.render_definition(STACK, SOURCES).text(f"{STACK.id}.def")
    assert text.count("Stage: compiled\n") == 1
    assert "ASKED=/compile/fast-op" in text and "rm -r /compiled-wheels" in text


def test_the_key_of_a_wheel_is_of_all_that_it_depends_on_and_of_nothing_else() -> None:
    (package,) = STACK.compiled
    wheel = key(package, STACK, SOURCES)
    other = pin("einops", "0.8.2") + pin("unrelated", "1.0")
    assert key(package, replace(STACK, lock=locked(ROW_COMPILING, both=ALONE + other)), SOURCES) == wheel
    changed = (
        (replace(package, sha256="cd" * 32), STACK),
        (replace(package, environment=()), STACK),
        (package, replace(STACK, gcc="13.4.0")),
        (package, replace(STACK, nccl="2.99")),
        (package, replace(STACK, gpu_arch=("8.0",))),
        (package, replace(STACK, frameworks=(("torch", "2.8.0"),))),
        (package, replace(STACK, lock=locked(ROW_COMPILING, more=pin("cython", "3.2")))),
    )
    assert len({wheel, *(key(which, stack, SOURCES) for which, stack in changed)}) == len(changed) + 1


def test_the_image_is_asked_about_what_was_compiled() -> None:
    asked_of = words(STACK, 0, {})
    assert "compiled=fast-op" in asked_of and "additions=fast-op,+einops" in asked_of
    said = {"version": "1.2", "sha256": SHA, "environment": {"FORCE_CUDA": "1"}}
    assert dockerfile.declared(STACK)["compile"] == {"fast-op": said}


def test_an_images_label_says_the_row_again() -> None:
    written = dict(dockerfile.labels(STACK))
    assert labelled.stack_of(written, STACK.lock) == STACK
