"""`explain` names the true cause, and every way that it shows works."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from command import call
from rows import CELL, LOCK, ROOT

from stackwright.core.config.setting import Question, question
from stackwright.core.errors import UsageError
from stackwright.core.model.row import Cell, Mpi
from stackwright.core.resolve.explain import Explanation, explain
from stackwright.core.resolve.nearest import KNOWN, nearest
from stackwright.core.resolve.resolve import check
from stackwright.core.rules.document import markdown
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import About
from stackwright.core.rules.table import CELL_RULES

OLDEST = (
    "provider=nvidia", "os=ubuntu-16.04", "cuda=9.0", "cudnn=7.4.1.5", "nccl=2.3.7", "python=3.5",
    "tensorflow=1.12.0", "torch=1.3.0", "mxnet=1.4.1", "gcc=4.9", "mpi=openmpi1.10", "gpu_arch=6.0,7.0",
)  # fmt: skip

CAUSES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("gcc=14", "cuda=12.4"), "cuda-gcc", "no gcc newer than 13"),
    (("gpu_arch=7.0", "cuda=13.0"), "cuda-arch", "7.0 from 9.0 to 12.9"),
    (("mxnet=1.9.1", "cuda=12.4"), "mxnet-cuda", "none was ever made for 12"),
    (("cuda=13.0", "mxnet=1.9.1"), "mxnet-cuda", "none was ever made for 12"),
    (("cuda=13", "mxnet=1.9.1"), "mxnet-cuda", "1.9.1 has wheels for CUDA 10.1"),
    (("cuda=12", "gcc=14"), "cuda-gcc", "nvcc of CUDA 12.4 accepts no gcc newer than 13"),
    (("tensorflow=2.21.0", "torch=2.12.1"), "one-cuda-wheels", "12.5 for tensorflow, 13.0 for torch"),
    (("python=3.13", "tensorflow=2.19.1"), "tensorflow-python", "wheels for Python 3.9 to 3.12"),
    (("torch=2.0.1", "setuptools=75"), "torch-setuptools", "pkg_resources.packaging"),
    (OLDEST, "one-cuda-wheels", "9.0 for tensorflow, 10.1 for torch"),
)


def ask(*settings: str, row: Cell = CELL) -> Explanation:
    return explain(row, question(row, settings), LOCK)


@pytest.mark.parametrize(("settings", "rule", "reason"), CAUSES)
def test_the_true_cause_comes_first(settings: tuple[str, ...], rule: str, reason: str) -> None:
    answer = ask(*settings)
    assert answer.cause
    assert answer.cause.clash
    assert answer.cause.rule == rule
    assert reason in answer.cause.clash.reason
    assert answer.cause.fact.source


def test_the_oldest_row_is_told_all_that_is_impossible() -> None:
    told = {answer.rule: answer.clash.reason for answer in ask(*OLDEST).answers if answer.clash}
    assert "torch 1.3.0 was built for CUDA 10.1, others for 9.2 and 10.0" in told["torch-cuda"]
    assert told["horovod-floor"].endswith("python 3.6, gcc 5, tensorflow 1.15, torch 1.5 or later")
    assert told["nccl-wheel"].endswith("no wheel of NCCL before 2.13")
    assert told["cuda-wheels"].endswith("the libraries of CUDA from 11.0 on")
    assert set(list(told)[-4:]) == {"cuda-wheels", "torch-own-cuda", "nccl-wheel", "tools-os"}, (
        "what a release lacks comes last"
    )


def test_the_oldest_row_needs_an_older_torch_and_no_more_with_the_horovod_of_its_time() -> None:
    answer = ask(*OLDEST, "horovod=0.18.2")
    assert answer.ways[-1].kept == "what goes together, and is not built here"
    assert answer.ways[-1].changes == ("torch 1.1.0 instead of 1.3.0",)
    assert answer.ways[-1].settings == ()


def test_the_search_for_the_oldest_row_stays_small() -> None:
    asked = question(CELL, OLDEST)
    anywhere = tuple(rule for rule in CELL_RULES if rule.about is not About.RELEASE)
    for rules in (CELL_RULES, anywhere):
        found = nearest(asked.cell, rules)
        assert found
        assert found.visited < 2_000
        assert found.asked < 10_000


def test_what_was_set_is_kept_and_other_fields_give_way() -> None:
    python, arch = ask("python=3.12").ways[0], ask("gpu_arch=12.0").ways[0]
    assert python.kept == arch.kept == "keeping what was set"
    assert {"python=3.12", "os=ubuntu-24.04", "mpi=openmpi4.1.6"} <= set(python.settings)
    assert arch.settings == ("cuda=13.0", "torch=2.11.0", "gpu_arch=12.0")


def test_what_cannot_be_kept_gives_way_as_little_as_possible() -> None:
    way = ask("python=3.12", "os=debian-13").ways[0]
    assert way.kept == "fewest changes to what was set"
    assert len(way.changes) == 1


def _some_settings(count: int) -> list[tuple[str, ...]]:
    """Questions of one to three fields, each with a value that the tables know; the same on every run."""
    rng = random.Random(20261122)
    values = {name: [value for value in known if value] for name, known in KNOWN.items()}
    values |= {"mpi": ["openmpi4.1", "mpich4.2", "mpich"], "gpu_arch": ["7.0", "9.0", "12.0", "3.5,8.0"],
               "driver": ["470", "535"], "numpy": ["2.1"]}  # fmt: skip
    names = [sorted(rng.sample(sorted(values), rng.randint(1, 3))) for _ in range(count)]
    return [tuple(f"{name}={rng.choice(values[name])}" for name in some) for some in names]


@pytest.mark.parametrize("settings", _some_settings(70), ids=",".join)
def test_every_way_that_is_printed_works_when_it_is_pasted(settings: tuple[str, ...]) -> None:
    answer = ask(*settings)
    for way in answer.ways:
        if way.settings:
            assert ask(*way.settings).verdict == "can work", way
    assert answer.verdict == "can work" or answer.ways


def test_a_plan_names_the_nearest_row_as_options_too() -> None:
    row = replace(CELL, gcc="14", mpi=Mpi.of("mpich", "9"))
    rejection = check(row)
    assert rejection
    assert rejection.settings == ("gcc=13", "mpi=mpich4.2.1")
    assert check(question(row, rejection.settings).cell) is None


@pytest.mark.parametrize(
    ("setting", "why", "instead"),
    [
        ("arch=arm64", "the field platform", "platform=linux/arm64"),
        ("platform=arm64", "an operating system and an architecture", "linux/arm64"),
        ("platform=linux/ppc64le", "x86-64 and 64-bit Arm", "linux/amd64 or linux/arm64"),
        ("os=rocky-9", "Debian's or Ubuntu's packages", "debian-12"),
        ("mpi=mvapich2", "ABI of MPICH", "cuda12-mpich"),
        ("mpi=abi", "MPICH 5 and Open MPI 6", "cuda12-mpich"),
        ("python=3.13t", "without a global lock", "without the t"),
        ("python=3.13.2", "last number", "two numbers"),
        ("rocm=6.2", "NVIDIA GPUs", "gpu_arch"),
        ("gpu_arch=gfx90a", "NVIDIA GPUs", "8.0"),
        ("gpu_arch=sm_90", "with a point", "9.0"),
        ("torch=nightly", "some weeks", "name a release"),
    ],
)
def test_a_real_value_that_is_not_supported_gets_a_reason_and_the_nearest_way(
    setting: str, why: str, instead: str
) -> None:
    with pytest.raises(UsageError) as error:
        question(CELL, [setting])
    assert why in error.value.cause
    assert instead in error.value.hint


@pytest.mark.parametrize("settings", [("cuda=12.4", "cuda=13.0"), ("numpy=1.26", "numpy=2.0")])
def test_a_field_that_is_set_twice_is_a_usage_error(settings: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="set twice"):
        question(CELL, settings)


def test_a_build_of_pytorchs_own_index_is_not_known_and_says_where_it_is() -> None:
    unknown = ask("torch=2.6.0+cu126").unknown
    assert unknown
    assert unknown.clash
    assert "folder whl/cu126" in unknown.clash.reason
    assert "torch 2.7.1 is for CUDA 12.6" in unknown.clash.reason
    cause = ask("torch=2.6.0+rocm6.2").cause
    assert cause
    assert cause.rule == "torch-release"


def test_what_no_table_knows_is_exit_code_18(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "explain", "cuda12-torch", "--set", "torch=99.0", "--format", "json")
    document = json.loads(out)
    assert (code, document["accepted"], document["verdict"]) == (18, False, "is not known to work")
    assert document["cause"] == ""
    assert "torch-release" in err


@pytest.mark.parametrize("setting", ["gcc=13.9", "cuda=12.4.99"])
def test_a_value_that_the_lock_contradicts_is_refused(setting: str) -> None:
    cause = ask(setting).cause
    assert cause
    assert cause.rule == "declared-base"
    assert ask("gcc=13.3").verdict == "can work"


@pytest.mark.parametrize("settings", [cause[0] for cause in CAUSES[:6]])
def test_the_first_way_works(settings: tuple[str, ...]) -> None:
    row = question(CELL, settings).cell
    way = nearest(row, CELL_RULES)
    assert way
    assert check(way.cell) is None
    assert ask(*settings).ways[0].changes


def test_every_rule_is_asked_and_a_row_that_fits_is_told_what_it_needs() -> None:
    answer = ask()
    assert answer.cause is None
    assert len(answer.answers) == len(CELL_RULES) + len(LOCK_RULES) + 1
    assert {told.said for told in answer.answers} == {"fits", "does not apply"}
    assert any("start it with mpirun" in advice.then for advice in answer.advice)
    assert not any("start it with mpirun" in advice.then for advice in ask("mpi=mpich4.2").advice)


def test_rules_on_a_lock_are_silent_when_the_row_is_no_longer_the_locked_one() -> None:
    changed = replace(CELL, gcc="12")
    said = {answer.rule: answer.said for answer in explain(changed, Question(cell=changed), LOCK).answers}
    assert said["nccl-present"] == "does not apply"


def test_what_uv_refused_is_a_refusal_here_too() -> None:
    refused = replace(LOCK, refused="Because torch==2.6.0 depends on …")
    cause = explain(CELL, Question(cell=CELL), refused).cause
    assert cause
    assert cause.clash
    assert (cause.rule, cause.clash.reason) == ("resolver", "Because torch==2.6.0 depends on …")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("mpi=mpich", {"mpi": Mpi.of("mpich", "4.2.1")}),
        ("mpi=mpich4.0", {"mpi": Mpi.of("mpich", "4.0")}),
        ("torch=", {"torch": None}),
        ("gpu_arch=8.0,9.0", {"gpu_arch": ("8.0", "9.0")}),
    ],
)
def test_a_setting_is_read_as_the_matrix_would(setting: str, value: dict[str, Any]) -> None:
    assert question(CELL, [setting]).cell == CELL.changed(value)


@pytest.mark.parametrize(
    "setting",
    ["cuda", "cuad=13.0", "cuda=$(id)", "os=plan9", "python=", "mpi=lam4", "gpu_arch=", "setuptools=7;x",
     "driver=", "torch=2.6.0\n"],
)  # fmt: skip
def test_a_wrong_setting_is_a_usage_error(setting: str) -> None:
    with pytest.raises(UsageError):
        question(CELL, [setting])


def test_refused_is_exit_code_5_with_the_cause_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "explain", "cuda12-torch", "--set", "gcc=14", "--format", "json")
    document = json.loads(out)
    assert (code, document["accepted"], document["cause"]) == (5, False, "cuda-gcc")
    assert document["rules"][0]["clash"] == [
        {"field": "cuda", "value": "12.4"}, {"field": "gcc", "value": "14"},
    ]  # fmt: skip
    kept, fewest = document["nearest"]
    assert kept["kept"] == "keeping what was set"
    assert "gcc=14" in kept["settings"]
    assert fewest == {"kept": "fewest changes", "changes": ["gcc 13 instead of 14"], "settings": []}
    assert "cuda-gcc" in err


def test_accepted_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "explain", "cuda12-torch", "--set", "driver=535")
    assert code == 0
    assert "can work" in out
    assert "cuda-driver" in out


def test_the_page_is_what_the_rules_say() -> None:
    assert (ROOT / "docs" / "rules.md").read_text() == markdown()
