"""Variables that hold while a row's sources are compiled: what is refused, and where they are and are not."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from compiling import compiling, locked, resolved
from own_parts import ROW
from rows import CELL, LOCK, SOURCES, cell

from stackwright.core.compiled.build import key
from stackwright.core.config.change import settings
from stackwright.core.config.expand import expand, select
from stackwright.core.config.load import interpret
from stackwright.core.config.setting import question
from stackwright.core.model.added.image import Variable
from stackwright.core.model.row import Cell
from stackwright.core.render import configuration, definition, dockerfile
from stackwright.core.resolve.resolve import check

ROW_COMPILING = compiling("fast-op>=1", FORCE_CUDA="1")
STACK = resolved(ROW_COMPILING, locked(ROW_COMPILING))
FLAGS = Variable(name="CXXFLAGS", value="-g1 -DA=b")


def with_variables(*variables: Variable) -> Cell:
    return cell(**{"build-env": variables})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("CC", "clang", "follows from the row's own fields"),
        ("CUDA_HOME", "/usr", "follows from"),
        ("CUDAARCHS", "90", "follows from"),
        ("TORCH_NVCC_FLAGS", "-g", "names a compiler"),
        ("CMAKE_CUDA_COMPILER", "x", "names a compiler"),
        ("NVCC_APPEND_FLAGS", "-g", "names a compiler"),
        ("HOROVOD_WITH_MPI", "0", "says what a layer is compiled with"),
        ("HOROVOD_WITHOUT_GLOO", "1", "says what a layer is compiled with"),
        ("MPI4PY_BUILD_MPICC", "x", "says what a layer is compiled with"),
        ("FRAMEWORKS", "mxnet", "follows from"),
        ("LD_PRELOAD", "/x.so", "follows from"),
        ("LDFLAGS", "-s", "follows from"),
        ("SKBUILD_LDFLAGS", "-s", "takes headers, libraries"),
        ("CPLUS_INCLUDE_PATH", "/x", "takes headers, libraries"),
        ("MAKEFILES", "/x", "takes headers, libraries"),
        ("PIP_INDEX_URL", "https://index.example", "is of the site"),
        ("HTTPS_PROXY", "http://proxy.example", "is of the site"),
        ("CFLAGS", "-O2 -march=native", "for which CPU"),
        ("CFLAGS", "-mavx512f", "for which CPU"),
        ("ANY", "-Xcompiler=-march=native", "for which CPU"),
        ("CXXFLAGS", "-Ofast", "other numbers"),
        ("CXXFLAGS", "-g -ffast-math", "other numbers"),
        ("ANY", "--use_fast_math", "other numbers"),
        ("ANY", "-gencode=arch=compute_70", "for which GPU"),
        ("CXXFLAGS", "-L/opt/other -lnccl", "takes headers, libraries"),
        ("CXXFLAGS", "-Wl,-rpath,/x", "takes headers, libraries"),
        ("CXXFLAGS", "-fuse-ld=gold", "takes headers, libraries"),
        ("CXXFLAGS", "@/tmp/options", "takes headers, libraries"),
        ("CMAKE_ARGS", "-DCMAKE_CXX_COMPILER=clang++", "takes headers, libraries"),
        ("MAKEFLAGS", "-j2 CXX=clang", "how many compilers run"),
    ],
)
def test_no_variable_of_all_builds_undermines_the_proof(name: str, value: str, says: str) -> None:
    rejection = check(with_variables(FLAGS, Variable(name=name, value=value)))
    assert rejection and rejection.rule == "build-env-names"
    assert rejection.clash == (("build-env", name),) and says in rejection.reason
    assert value not in rejection.reason.split(), "a value may be anything"
    assert rejection.settings == ("build-env='CXXFLAGS=-g1 -DA=b'",), "the nearest row is without it"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_JOBS", "2"), ("MAKEFLAGS", "-j4"), ("CFLAGS", "-O2 -g -fno-plt"),
        ("CMAKE_ARGS", "-DWITH_X=ON -DNAME=a-march"), ("DS_BUILD_UTILS", "1"), ("VERBOSE", "1"),
    ],
)  # fmt: skip
def test_others_may_be_set_for_all_builds(name: str, value: str) -> None:
    assert check(with_variables(Variable(name=name, value=value))) is None


def test_a_build_has_one_value_of_a_variable_and_something_that_reads_it() -> None:
    jobs, forced = Variable(name="MAX_JOBS", value="2"), Variable(name="FORCE_CUDA", value="0")
    rejection = check(compiling("x", MAX_JOBS="3").changed({"build-env": (jobs,)}))
    assert rejection and rejection.reason == "x is compiled with MAX_JOBS=3, by its own env"
    rejection = check(compiling("torch-scatter").changed({"build-env": (forced,)}))
    assert rejection and (rejection.rule, rejection.clash[1]) == (
        "build-env-once",
        ("compile", "torch-scatter"),
    )
    assert check(compiling("x").changed({"build-env": (jobs, forced)})) is None
    nothing = with_variables(jobs).changed({"horovod": None, "torch_distributed": True})
    rejection = check(nothing)
    assert rejection and rejection.rule == "build-env-read"
    assert check(nothing.changed({"compile": compiling("x").compile})) is None


def test_variables_of_all_builds_are_of_each_wheel_and_not_of_the_image() -> None:
    row = ROW_COMPILING.changed({"build-env": (FLAGS,)})
    stack = resolved(row, locked(row))
    (package,) = stack.compiled
    assert package.environment == (("CXXFLAGS", "-g1 -DA=b"), ("FORCE_CUDA", "1"))
    recipe, before = dockerfile.render(stack, SOURCES), dockerfile.render(STACK, SOURCES)
    assert recipe.text("compile/fast-op/env.txt") == "CXXFLAGS=-g1 -DA=b\nFORCE_CUDA=1\n"
    assert key(package, stack, SOURCES) != key(STACK.compiled[0], STACK, SOURCES)
    keys = {re.findall("WHEEL_KEY=([0-9a-f]{64})", made.text("Dockerfile"))[0] for made in (recipe, before)}
    assert len(keys) == 2, "the first of a Dockerfile is Horovod's"
    assert json.loads(recipe.text("row.json"))["build-env"] == {"CXXFLAGS": "-g1 -DA=b"}
    assert configuration.settings(stack)["Env"] == configuration.settings(STACK)["Env"]
    assert recipe.text("Dockerfile").count('\n    CXXFLAGS="-g1 -DA=b" \\\n') == 1
    text = definition.render_definition(stack, SOURCES).text(f"{stack.id}.def")
    assert text.count('\n    CXXFLAGS="-g1 -DA=b" \\\n') == 1


def test_a_shell_gives_them_to_the_build_and_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "build").write_text('echo "$CXXFLAGS|$PYTHON|$WHEEL_KEY"\n')
    more = (Variable(name="WHEEL_KEYS", value="x"), Variable(name="A", value="%d /b"))
    row = with_variables(FLAGS, *more)
    text = definition.render_definition(resolved(row, LOCK), SOURCES).text(f"{row.id}.def")
    (step,) = re.findall(r"\n( +CXXFLAGS=(?:.*\\\n)+ +bash) /horovod/build-horovod.sh\n", text)
    done = subprocess.run(["bash", "-euc", f"{step} {tmp_path}/build"], stdout=subprocess.PIPE, check=True)
    flags, python, wheel = done.stdout.decode().strip().split("|")
    assert (flags, python, len(wheel)) == ("-g1 -DA=b", "/opt/stack/bin/python", 64)


def test_variables_of_all_builds_can_be_set_and_selected() -> None:
    found = question(CELL, ["build-env=MAX_JOBS=2 CXXFLAGS='-g1 -DA=b'"]).cell
    assert found.build_env == (FLAGS, Variable(name="MAX_JOBS", value="2"))
    assert question(CELL, list(settings(CELL, found))).cell == found
    assert select((found, CELL), [], ["build-env=MAX_JOBS=*"]) == (found,)
    assert question(found, ["build-env="]).cell == CELL
    (row,) = expand(
        interpret(yaml.safe_dump({"include": [{**ROW, "build-env": {"B": "2", "A": "a"}}]}), "m.yaml")
    )
    assert list(map(str, row.build_env)) == ["A=a", "B=2"]
