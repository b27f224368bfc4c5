"""Edges of checks: the first value that is red, beside the last that is green."""

from __future__ import annotations

from typing import Any

import pytest
from rows import stack

from stackwright.core.checks.check import MissingFact, listed, take
from stackwright.core.checks.tables import declared, gpu
from stackwright.core.components import table
from stackwright.core.components.shared.loaded import cudnn_version, nccl_version

ROW = stack()
RANK = {
    "rank": 0,
    "size": 1,
    "device": "cuda",
    "given": [1.0],
    "sum": [1.0],
    "driver": "1",
    "driver_cuda": 12000,
}


def of_gpu(**values: Any) -> dict[str, Any]:
    """What one rank on one GPU left, for each framework of the row."""
    done = {"code": 0, "asked": 1, "ranks": [RANK | values.pop("rank", {})], "output": "", **values}
    return {"gpu": {name: done for name, _ in ROW.frameworks}}


@pytest.mark.parametrize(("count", "ends"), [(4, "3"), (5, "4"), (6, "4 and 1 more"), (8, "4 and 3 more")])
def test_a_list_shows_five_and_counts_the_rest(count: int, ends: str) -> None:
    assert listed(map(str, range(count))).endswith(f", {ends}")


def test_a_fact_that_is_missing_is_named_by_its_whole_path() -> None:
    facts = {"a": {"b": {"error": "no gcc"}}}
    with pytest.raises(MissingFact, match=r"left no a/b/c: no gcc$"):
        take(facts, "a", "b", "c", "d")


def test_one_rank_that_ended_well_is_green() -> None:
    for judge in (gpu.ended, gpu.allreduce, gpu.driver):
        assert judge(ROW, of_gpu()).problems == (), judge


@pytest.mark.parametrize("wrong", [{"code": 1}, {"asked": 2}, {"asked": 0}, {"error": "killed"}])
def test_each_sign_of_a_bad_end_is_enough(wrong: dict[str, Any]) -> None:
    assert gpu.ended(ROW, of_gpu(**wrong)).problems


@pytest.mark.parametrize("device", ["cpu", "xpu", ""])
def test_a_sum_on_another_device_is_red(device: str) -> None:
    assert gpu.allreduce(ROW, of_gpu(rank={"device": device})).problems


@pytest.mark.parametrize(("code", "good"), [(11999, False), (12000, True), (13000, True)])
def test_the_driver_is_of_the_major_release_or_later(code: int, good: bool) -> None:
    assert (gpu.driver(ROW, of_gpu(rank={"driver_cuda": code})).problems == ()) is good


@pytest.mark.parametrize("version", ["0.0.1", "99.0", None])
def test_an_older_and_a_newer_layer_are_red(version: str | None) -> None:
    name, wanted = ROW.communication[0]
    component = next(component for component in table.COMPONENTS if component.name == name)
    judge = declared.layer(component)
    assert judge(ROW, {"system": {"python_packages": {component.package: wanted}}}).problems == ()
    assert judge(ROW, {"system": {"python_packages": {component.package: version}}}).problems


@pytest.mark.parametrize(
    ("code", "version"),
    [(10000, (1, 0, 0)), (22105, (2, 21, 5)), (9999, (9, 9, 99)), (2708, (2, 7, 8)), (12345, (1, 23, 45))],
)
def test_the_code_of_an_nccl_says_its_version(code: int, version: tuple[int, ...]) -> None:
    assert nccl_version(code) == version


@pytest.mark.parametrize(
    ("code", "version"),
    [(90000, (9, 0, 0)), (91234, (9, 12, 34)), (89999, (89, 9, 99)), (8902, (8, 9, 2)), (100203, (10, 2, 3))],
)
def test_the_code_of_a_cudnn_says_its_version(code: int, version: tuple[int, ...]) -> None:
    assert cudnn_version(code) == version
