"""Each rule refuses what it is there for, and names a nearest row that all rules accept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rows import CELL, LOCK, SERIES, cell, lock_with

from stackwright.model import Mpi, Rejection, Stack
from stackwright.resolve import check, nccl_code, resolve, suggest
from stackwright.rules.cell import CELL_RULES
from stackwright.rules.lock import LOCK_RULES
from stackwright.suite import upstream

CELL_CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("cuda-gcc", {"gcc": "14"}, "gcc 13 instead of 14"),
    ("cuda-arch", {"gpu_arch": ("12.0", "9.0")}, "gpu_arch [9.0] instead of [12.0, 9.0]"),
    ("cuda-arch", {"gpu_arch": ("3.5", "8.0")}, "gpu_arch [8.0] instead of [3.5, 8.0]"),
    ("cuda-arch", {"gpu_arch": ("9.9", "8.0")}, "gpu_arch [8.0] instead of [9.9, 8.0]"),
    ("python-os", {"python": "3.12"}, "python 3.13 instead of 3.12"),
    ("gcc-os", {"gcc": "11"}, "gcc 13 instead of 11"),
    ("cuda-os", {"cuda": "11.8"}, "cuda 12.4 instead of 11.8"),
    ("mpi-os", {"mpi": Mpi(flavour="openmpi", version="4.1")}, "mpi 5.0.7 instead of 4.1"),
    ("os", {"os": "ubuntu-22.04"}, "os debian-13 instead of ubuntu-22.04"),
    ("provider", {"provider": "nvidia"}, "provider debian instead of nvidia"),
    ("frameworks", {"torch": None}, ""),
)

LOCK_CASES: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("one-cuda", {}, {"nvidia_nccl_cu13": "2.29.7"}),
    ("one-cuda", {}, {"nvidia_cuda_runtime": "13.0.96"}),
    ("one-nccl", {}, {"nvidia_nccl": "2.29.7"}),
    ("declared", {"nccl": "2.22"}, {}),
    ("declared", {"cudnn": "9.2"}, {}),
)


@pytest.mark.parametrize(("rule", "values", "nearest"), CELL_CASES)
def test_a_cell_rule_refuses(rule: str, values: dict[str, Any], nearest: str) -> None:
    rejection = check(cell(**values))
    assert rejection is not None
    assert (rejection.rule, rejection.nearest) == (rule, nearest)
    assert rejection.source
    assert rejection.reason


@pytest.mark.parametrize(("rule", "values", "versions"), LOCK_CASES)
def test_a_lock_rule_refuses(rule: str, values: dict[str, Any], versions: dict[str, str]) -> None:
    rejection = resolve(cell(**values), lock_with(**versions), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == rule


def test_a_lock_without_nccl_is_refused() -> None:
    packages = tuple(package for package in LOCK.packages if not package.name.startswith("nvidia-nccl"))
    rejection = resolve(CELL, replace(LOCK, packages=packages), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == "nccl-present"


def test_a_compiler_of_another_cuda_major_is_refused() -> None:
    packages = tuple(
        replace(package, name=package.name.replace("-cu12", "-cu11")) for package in LOCK.packages
    )
    rejection = resolve(CELL, replace(LOCK, packages=packages), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == "compiler-cuda"


def test_every_rule_is_covered_by_a_case() -> None:
    covered = {case[0] for case in (*CELL_CASES, *LOCK_CASES)} | {"nccl-present", "compiler-cuda"}
    assert covered == {rule.name for rule in (*CELL_RULES, *LOCK_RULES)}


def test_every_rule_names_its_source() -> None:
    assert all(rule.source for rule in (*CELL_RULES, *LOCK_RULES))


def test_the_shipped_row_resolves_and_is_filled_from_the_lock() -> None:
    stack = resolve(CELL, LOCK, SERIES)
    assert isinstance(stack, Stack)
    assert (stack.nccl, stack.nccl_code, stack.cudnn, stack.cuda_runtime) == (
        "2.21.5", 22105, "9.1.0.70", "12.4.127",
    )  # fmt: skip
    assert stack.patches == ("cxx17.patch", "gcc13-includes.patch")


def test_a_value_left_out_is_filled_in() -> None:
    stack = resolve(cell(gcc=None, cuda=None), LOCK, SERIES)
    assert isinstance(stack, Stack)
    assert (stack.gcc, stack.cuda) == ("13.3.0", "12.4")


def test_a_row_without_a_lock_says_how_to_get_one() -> None:
    rejection = resolve(CELL, None, SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.nearest == "run ./build.py lock cuda12-torch"


def test_a_row_that_changed_after_it_was_locked_is_not_built_from_the_old_lock() -> None:
    rejection = resolve(cell(torch="2.7.0"), LOCK, SERIES)
    assert isinstance(rejection, Rejection)
    assert "changed after it was locked" in rejection.reason


def test_what_uv_refused_is_told_in_its_words() -> None:
    rejection = resolve(CELL, replace(LOCK, refused="Because torch==2.6.0 depends on …"), SERIES)
    assert isinstance(rejection, Rejection)
    assert (rejection.rule, rejection.reason) == ("resolver", "Because torch==2.6.0 depends on …")


def test_the_nearest_row_of_the_matrix_is_suggested_where_no_rule_knows_one() -> None:
    stack = resolve(CELL, LOCK, SERIES)
    assert isinstance(stack, Stack)
    other = cell(id="other", nccl="2.22")
    rejection = resolve(other, LOCK, SERIES)
    assert isinstance(rejection, Rejection)
    (suggested,) = suggest([rejection], [stack], [CELL, other])
    assert suggested.nearest == "cuda12-torch (differs in nccl)"


@pytest.mark.parametrize(
    ("version", "code"), [("2.21.5", 22105), ("2.8.4", 2804), ("2.9.0", 20900), ("2.27.3", 22703)]
)
def test_nccl_version_code(version: str, code: int) -> None:
    assert nccl_code(version) == code


@pytest.mark.parametrize(
    ("debian", "project"),
    [
        ("13.3.0-16", "13.3.0"),
        ("12.4.131~12.4.1-2", "12.4.131"),
        ("1:2.3+dfsg-1+b2", "2.3"),
        ("4.1.4-3+b1", "4.1.4"),
        ("4.3.0+really4.2.1-1", "4.2.1"),
    ],
)
def test_upstream_version(debian: str, project: str) -> None:
    assert upstream(debian) == project
