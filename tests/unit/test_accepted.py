"""What tries the promise finds what breaks it: planted failures, and answers that contradict a rule."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rows import CELL, LOCK, cell

from stackwright.audit.accepted import combinations, contradict, headers, install, report
from stackwright.audit.accepted.combinations import Compile, Question, Refusal
from stackwright.audit.accepted.contradict import Outcome
from stackwright.audit.accepted.steps import Chosen, locks, refusals
from stackwright.audit.accepted.work import Work
from stackwright.core.model.row import Cell
from stackwright.core.model.site import Site
from stackwright.core.resolve.requirements import requirements, toolchain
from stackwright.core.resolve.resolve import check
from stackwright.core.rules.rule import Clash, Ruling, weigh
from stackwright.core.rules.table import CELL_RULES, first_clash
from stackwright.host.files import replace_file
from stackwright.host.runner import Runner
from stackwright.host.site import settings

CHOSEN = Chosen(seed=1, rows=1, refusals=1)


RUNNER = Runner(show=False)


@cache
def site() -> Site:
    """Asked once: it starts pip."""
    return settings.site(RUNNER)


def work(folder: Path) -> Work:
    return Work(
        out=folder, runner=RUNNER, site=site(), environment={},
        compilers=headers.Compilers(roots={}), kept=headers.Kept(index="", folder=folder),
    )  # fmt: skip


def keep(work: Work, row: Cell, *, pins: str = "", refused: str = "") -> None:
    """As if the index had been asked today."""
    path = work.out / "locks" / f"{work.key(row, requirements(row))}.json"
    replace_file(path, json.dumps({"pins": pins, "refused": refused}).encode())


def refusal(row: Cell) -> Refusal:
    found = first_clash(row)
    assert found
    return Refusal(cell=row, changed="", rule=found[0], clash=found[1])


def test_rows_that_differ_in_what_no_index_is_asked_are_one_question() -> None:
    asked = combinations.questions([CELL, cell(gcc="12"), cell(gpu_arch=("8.0",)), cell(torch="2.8.0")])
    assert [question.rows for question in asked] == [3, 1]


def test_a_compiler_in_wheels_is_a_question_too() -> None:
    row = cell(cuda="13.2", torch="2.15.0", gcc="14", gpu_arch=("8.0",))
    assert [question.wanted for question in combinations.questions([row])] == [
        requirements(row),
        toolchain(row),
    ]


def test_each_framework_is_compiled_once_with_each_gcc() -> None:
    rows = [CELL, cell(python="3.12"), cell(gcc="12"), cell(tensorflow="2.20.0")]
    assert combinations.compiles(rows) == (
        Compile(name="tensorflow", version="2.20.0", gcc="13"),
        Compile(name="torch", version="2.6.0", gcc="12"),
        Compile(name="torch", version="2.6.0", gcc="13"),
    )


def test_a_seed_gives_the_same_refusals_and_each_is_of_one_changed_value() -> None:
    found = combinations.refusals([CELL], 5, 12)
    assert found == combinations.refusals([CELL], 5, 12)
    assert len({(refused.rule.name, refused.clash.values) for refused in found}) == 12
    for refused in found:
        assert weigh(refused.rule, refused.clash) is Ruling.REFUSES
        assert check(refused.cell.changed({refused.changed: CELL.value(refused.changed)})) is None


def test_a_lock_that_uv_refuses_is_wrong(tmp_path: Path) -> None:
    tried = work(tmp_path)
    keep(tried, CELL, refused="Because torch==2.6.0 depends on nothing")
    section = locks([CELL], tried, CHOSEN)
    assert section.said == "1 distinct questions to the index, asked of uv: 0 lock."
    assert "Because torch==2.6.0" in section.wrong[0]
    assert "- **wrong**: torch==2.6.0" in report.page("2026-11-22", "make accepted", 1, [section])


def test_a_refusal_of_what_uv_locks_is_contradicted_and_of_what_it_refuses_is_not(tmp_path: Path) -> None:
    tried = work(tmp_path)
    row = cell(torch="2.0.1")  # no wheel for Python 3.13
    keep(tried, row, pins="".join(f"{package.name}=={package.version}\n" for package in LOCK.packages))
    assert contradict.ask(refusal(row), tried).outcome is Outcome.CONTRADICTS
    other = cell(torch="2.1.2")
    keep(tried, other, refused="no wheels with a matching Python ABI tag")
    assert contradict.ask(refusal(other), tried).outcome is Outcome.AGREES


def test_a_cuda_that_a_wheel_does_not_require_is_not_for_uv_to_contradict(tmp_path: Path) -> None:
    tried = work(tmp_path)
    row = cell(torch="2.9.1", tensorflow="2.13.1", python="3.11")
    refused = Refusal(cell=row, changed="", rule=CUDA_RULE, clash=Clash(values=(), reason=""))
    keep(tried, row, pins="".join(f"{package.name}=={package.version}\n" for package in LOCK.packages))
    assert contradict.ask(refused, tried).outcome in (Outcome.READ, Outcome.NOT_ASKED)


CUDA_RULE = next(rule for rule in CELL_RULES if rule.name == "one-cuda-wheels")


def test_a_lock_that_another_rule_refuses_contradicts_nothing(tmp_path: Path) -> None:
    tried = work(tmp_path)
    row = cell(torch="2.0.1")
    two = [*LOCK.packages, *(replace(package, name="nvidia-nccl-cu13") for package in LOCK.packages[:1])]
    keep(tried, row, pins="".join(f"{package.name}=={package.version}\n" for package in two))
    answer = contradict.ask(refusal(row), tried)
    assert (answer.outcome, "one-cuda" in answer.said) == (Outcome.AGREES, True)


def test_a_refusal_by_a_compiler_that_compiles_is_contradicted(tmp_path: Path) -> None:
    tried = work(tmp_path)
    rule = next(rule for rule in CELL_RULES if rule.name == "cxx-gcc")
    clash = Clash(values=(("torch", "2.14.1"), ("gcc", "10")), reason="")
    refused = Refusal(cell=cell(torch="2.14.1", gcc="10"), changed="gcc", rule=rule, clash=clash)
    for error, outcome in (("", Outcome.CONTRADICTS), ("all.h: error: C++20", Outcome.AGREES)):
        replace_file(tmp_path / "compiles" / "torch-2.14.1-gcc10.json", f'"{error}"'.encode())
        assert contradict.ask(refused, tried).outcome is outcome


def test_a_rule_that_rests_on_a_table_is_not_asked_again(tmp_path: Path) -> None:
    row = cell(gpu_arch=("3.7",))
    assert contradict.ask(refusal(row), work(tmp_path)).outcome in (Outcome.READ, Outcome.NOT_ASKED)
    assert refusals([CELL], work(tmp_path), replace(CHOSEN, refusals=0)).wrong == ()


GCC = next((release for release in map(str, range(9, 16)) if shutil.which(f"g++-{release}")), "")


@pytest.mark.skipif(not GCC, reason="no g++-N here")
@pytest.mark.parametrize(("header", "error"), [("", ""), ("#error too old a gcc\n", "too old a gcc")])
def test_headers_that_refuse_the_compiler_are_told(header: str, error: str, tmp_path: Path) -> None:
    tried = work(tmp_path)
    folder = tmp_path / "tensorflow-2.20.0" / "tensorflow" / "include"
    for name in headers.INCLUDED["tensorflow"]:
        replace_file(folder / name, header.encode())
    (tmp_path / "tensorflow-2.20.0" / ".whole").touch()
    found = tried.compiled(Compile(name="tensorflow", version="2.20.0", gcc=GCC))
    assert found is not None
    assert error in found
    assert bool(found) == bool(error)


def test_a_compiler_that_is_not_here_is_no_answer(tmp_path: Path) -> None:
    assert work(tmp_path).compiled(Compile(name="torch", version="2.6.0", gcc="99")) is None
    assert not (tmp_path / "compiles").exists()


STUB = """
import sys


class Array:
    def __eq__(self, other):
        return self

    def all(self):
        return True


class Tensor:
    def sum(self):
        return 2

    def numpy(self):
        return Array()


def from_numpy(array):
    return Tensor()


def ones(count):
    return Tensor()


"""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (STUB, ()),
        ("raise TypeError('numpy 2')", ("torch: TypeError: numpy 2",)),
        (f"{STUB}print('UserWarning: Numpy is not available', file=sys.stderr)",
         ("torch: UserWarning: Numpy is not available",)),
    ],
    ids=["works", "raises", "warns"],
)  # fmt: skip
def test_what_cannot_be_imported_is_told(code: str, why: tuple[str, ...], tmp_path: Path) -> None:
    pins = wheel(tmp_path, "torch", code) + wheel(tmp_path, "numpy", "ones = lambda n: None")
    row = replace(CELL, python=f"{sys.version_info.major}.{sys.version_info.minor}")
    offline = {"UV_FIND_LINKS": str(tmp_path), "UV_NO_INDEX": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}
    assert install.failures(row, pins, uv=settings.UV, runner=Runner(show=False), environment=offline) == why


def wheel(folder: Path, name: str, code: str) -> str:
    """A wheel of one module; the line of a lock that pins it."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    meta = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(f"{meta}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{meta}/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name}==1.0 --hash=sha256:{digest}\n"


def test_a_question_is_told_apart_by_all_that_its_answer_depends_on() -> None:
    rows = (CELL, cell(python="3.12"), cell(os="debian-12"), cell(nccl="2.27.7"), cell(cudnn="9.1.0.70"))
    asked = [Question(cell=row, wanted=requirements(row), rows=1) for row in rows]
    assert len({question.digest for question in asked}) == 5
