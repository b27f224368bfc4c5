"""Axes, include and exclude to rows; rows to a selection."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from counted import calls

from stackwright.core.components.table import FIELDS
from stackwright.core.config.expand import ID_ORDER, WHERE, expand, select
from stackwright.core.config.load import interpret
from stackwright.core.config.yaml_tree import LOADER
from stackwright.core.errors import MatrixError, UsageError
from stackwright.core.model.row import Cell, Mpi, ProviderName

DEFAULTS = """\
defaults:
  provider: debian
  os: debian-13
  python: "3.13"
  horovod: "0.28.1"
  mpi: {flavour: openmpi, version: "5.0"}
  gpu_arch: ["8.0", "9.0"]
"""

AXES = """\
axes:
  python: ["3.12", "3.13"]
  torch: ["2.6.0", "2.8.0+cu128"]
  cuda: ["12.4"]
"""


def cells(text: str) -> tuple[Cell, ...]:
    return expand(interpret(DEFAULTS + text, "m.yaml"))


def ids(text: str) -> list[str]:
    return [cell.id for cell in cells(text)]


def error(text: str) -> MatrixError:
    matrix = interpret(DEFAULTS + text, "m.yaml")
    with pytest.raises(MatrixError) as caught:
        expand(matrix)
    return caught.value


# ----------------------------------------------------------------------------------------- expand


def test_axes_make_every_combination_in_the_order_of_the_file() -> None:
    assert ids(AXES) == [
        "torch2.6.0-cuda12.4-py3.12",
        "torch2.8.0_cu128-cuda12.4-py3.12",
        "torch2.6.0-cuda12.4-py3.13",
        "torch2.8.0_cu128-cuda12.4-py3.13",
    ]


def test_a_row_has_its_values_and_the_defaults() -> None:
    assert cells(AXES)[0] == Cell(
        id="torch2.6.0-cuda12.4-py3.12",
        provider=ProviderName.DEBIAN,
        os="debian-13",
        python="3.12",
        mpi=Mpi.of("openmpi", "5.0"),
        gpu_arch=("8.0", "9.0"),
        cuda="12.4",
        components=(("horovod", "0.28.1"), ("torch", "2.6.0")),
    )


def test_ids_do_not_depend_on_the_order_of_the_axes_nor_on_other_values() -> None:
    turned = 'axes:\n  cuda: ["12.4"]\n  torch: ["2.6.0"]\n  python: ["3.12"]\n'
    assert ids(turned) == ["torch2.6.0-cuda12.4-py3.12"]


def test_every_field_can_be_an_axis_and_shows_in_the_id() -> None:
    text = """\
axes:
  torch: ["2.6.0", null]
  mpi: [{flavour: mpich, version: "4.2"}]
  gpu_arch: [["8.0", "10.0"]]
  os: [ubuntu-22.04]
  provider: [nvidia]
  flavour: [devel]
"""
    assert ids(text) == [
        "torch2.6.0-mpich4.2-ubuntu-22.04-nvidiabase-sm80_100-devel",
        "torchnone-mpich4.2-ubuntu-22.04-nvidiabase-sm80_100-devel",
    ]
    assert ids("axes: {test_on_gpu: [true, false]}\n") == ["gputest", "nogputest"]
    assert set(ID_ORDER) == set(FIELDS)


def test_include_comes_after_the_axes_with_its_own_values_and_its_line() -> None:
    rows = cells(
        AXES + 'include:\n  - id: mine\n    python: "3.9"\n    mpi: {flavour: mpich, version: "4.0"}\n'
    )
    assert rows[-1].id == "mine"
    assert (rows[-1].python, rows[-1].mpi.flavour, rows[-1].os) == ("3.9", "mpich", "debian-13")
    assert [row.line for row in rows] == [9, 9, 9, 9, 13]


def test_null_takes_a_default_back() -> None:
    text = 'include: [{id: a, cudnn: "9.1"}, {id: b, cudnn: null}]\n'
    matrix = interpret(DEFAULTS + '  cudnn: "9.0"\n' + text, "m.yaml")
    assert [cell.cudnn for cell in expand(matrix)] == ["9.1", None]


def test_exclude_drops_rows_that_match_all_its_fields() -> None:
    assert ids(AXES + 'exclude:\n  - {torch: "2.6.0", python: "3.12", os: debian-13}\n') == [
        "torch2.8.0_cu128-cuda12.4-py3.12",
        "torch2.6.0-cuda12.4-py3.13",
        "torch2.8.0_cu128-cuda12.4-py3.13",
    ]
    two = 'exclude:\n  - {python: "3.12"}\n  - {torch: "2.6.0"}\n'
    assert ids(AXES + two) == ["torch2.8.0_cu128-cuda12.4-py3.13"]


def test_exclude_compares_mpi_lists_and_what_is_left_out() -> None:
    text = 'axes:\n  torch: ["2.6.0", null]\n  gpu_arch: [["8.0"], ["8.0", "9.0"]]\n'
    where = 'exclude: [{torch: null, gpu_arch: ["8.0"], cudnn: null, test_on_gpu: false, flavour: runtime}]\n'
    assert ids(text + where) == ["torch2.6.0-sm80", "torch2.6.0-sm80_90", "torchnone-sm80_90"]


def test_exclude_leaves_included_rows() -> None:
    text = AXES + 'include:\n  - {id: mine, python: "3.12"}\nexclude:\n  - {python: "3.12"}\n'
    assert "mine" in ids(text)


@pytest.mark.parametrize(
    ("entry", "cause", "hint"),
    [
        ('{torch: "2.7.0"}', "torch is never '2.7.0'", "torch is one of: 2.6.0, 2.8.0+cu128"),
        ('{torch: "2.6.0", os: debian-12}', "os is never 'debian-12'", "os is one of: debian-13"),
        ('{cudnn: "9.1"}', "cudnn is never '9.1'", "cudnn is one of: null"),
        ("{torch: null}", "torch is never 'left out'", "torch is one of: 2.6.0"),
    ],
)
def test_exclude_that_matches_nothing(entry: str, cause: str, hint: str) -> None:
    wrong = error(AXES + f"exclude:\n  - {entry}\n")
    assert wrong.place == "m.yaml:13:5"
    assert cause in wrong.cause
    assert hint in wrong.hint


def test_exclude_of_everything() -> None:
    wrong = error(AXES + 'exclude:\n  - {cuda: "12.4"}\n')
    assert (wrong.place, wrong.cause) == ("m.yaml:13:5", "'exclude' drops every row")


def test_empty_exclude_entry_drops_everything_and_says_so() -> None:
    assert error(AXES + "exclude: [{}]\n").cause == "'exclude' drops every row"


def test_included_id_that_the_axes_make_too() -> None:
    wrong = error(AXES + "include:\n  - id: torch2.6.0-cuda12.4-py3.12\n")
    assert wrong.place == "m.yaml:13:5"
    assert "duplicate row id 'torch2.6.0-cuda12.4-py3.12': the axes on line 9" in wrong.cause


def test_id_longer_than_a_tag_may_be() -> None:
    suffix = "+" + ".".join(["x" * 16] * 4)
    wrong = error(f'axes:\n  torch: ["2.6.0{suffix}"]\n')
    assert wrong.place == "m.yaml:9:10"
    assert "longer than 63" in wrong.cause
    assert "'include'" in wrong.hint


def test_too_many_rows_are_refused_before_any_is_made() -> None:
    values = ", ".join(f'"1.{number}"' for number in range(1000))
    refused: list[MatrixError] = []
    text = f"axes:\n  torch: [{values}]\n  keras: [{values}]\n  gcc: ['1', '2']\n"
    assert calls(lambda: refused.append(error(text))) < 1_000_000, "a call for each row would be more"
    (wrong,) = refused
    assert wrong.place == "m.yaml:9:10"
    assert "2,000,000 rows; the limit is 1,000,000" in wrong.cause


def test_many_rows_with_many_exclusions_stay_linear() -> None:
    def work(count: int) -> tuple[int, int]:
        values = [f"1.{number}" for number in range(count)]
        listed = ", ".join(f'"{value}"' for value in values)
        excluded = "".join(f'  - {{torch: "{value}", keras: "{value}"}}\n' for value in values)
        matrix = interpret(
            DEFAULTS + f"axes:\n  torch: [{listed}]\n  keras: [{listed}]\nexclude:\n{excluded}", "m"
        )
        return len(expand(matrix)), calls(lambda: expand(matrix))

    (few, less), (many, more) = work(50), work(150)
    assert (few, many) == (50 * 50 - 50, 150 * 150 - 150)
    assert more / many < 1.5 * less / few


def test_select_of_the_file_must_match() -> None:
    wrong = error("include: [{id: cuda12-torch}]\nselect: [cuda12-toch]\n")
    assert wrong.place == "m.yaml:9:10"
    assert wrong.hint == "did you mean 'cuda12-torch'?"
    assert "'*rocm*' matches no row" in error("include: [{id: a}]\nselect: ['*rocm*']\n").cause


@pytest.mark.parametrize(
    ("rows", "cause", "hint"),
    [
        ("[a, bb]", "'platforms': there is no row 'bb'", "did you mean 'b'?"),
        ("[a, b]", "'platforms': a and b are both for linux/amd64", "name one row for each platform"),
    ],
)
def test_a_tag_for_platforms_names_one_row_for_each(rows: str, cause: str, hint: str) -> None:
    arm = "include: [{id: a}, {id: b}, {id: arm, platform: linux/arm64}]\npublish:\n  platforms: "
    assert cells(f"{arm}[{{tag: x, rows: [a, arm]}}]\n")
    wrong = error(f"{arm}[{{tag: x, rows: {rows}}}]\n")
    assert cause in wrong.cause and hint in wrong.hint


def test_expand_is_the_same_with_both_parsers() -> None:
    both = [expand(interpret(DEFAULTS + AXES, "m", parser)) for parser in (yaml.SafeLoader, LOADER)]
    assert both[0] == both[1]


# ----------------------------------------------------------------------------------------- select

ROWS = expand(
    interpret(
        DEFAULTS
        + """\
include:
  - {id: cuda12-torch, torch: "2.6.0", cuda: "12.4", test_on_gpu: true}
  - {id: cuda12-all, torch: "2.8.0", tensorflow: "2.20.0", cuda: "12.4", gpu_arch: ["7.0"]}
  - {id: cuda11-old, torch: "2.0.1+cu118", cuda: "11.8", mpi: {flavour: mpich, version: "4.0"}}
""",
        "m",
    )
)


@pytest.mark.parametrize(
    ("wanted", "where", "found"),
    [
        ([], [], "cuda12-torch cuda12-all cuda11-old"),
        (["cuda12-all"], [], "cuda12-all"),
        (["*cuda12*"], [], "cuda12-torch cuda12-all"),
        (["cuda11-old", "cuda12-torch", "cuda1*-torch"], [], "cuda12-torch cuda11-old"),
        (["cuda1[12]-[!a]*"], [], "cuda12-torch cuda11-old"),
        ([], ["torch=2.8.0"], "cuda12-all"),
        ([], ["torch=2.0.1+cu118"], "cuda11-old"),
        ([], ["cuda=12.*"], "cuda12-torch cuda12-all"),
        ([], ["cuda=12.4", "torch=2.6.0"], "cuda12-torch"),
        ([], ["tensorflow="], "cuda12-torch cuda11-old"),
        ([], ["gpu_arch=8.0"], "cuda12-torch cuda11-old"),
        ([], ["mpi=openmpi"], "cuda12-torch cuda12-all"),
        ([], ["mpi=mpich4.0"], "cuda11-old"),
        ([], ["mpi.version=5.*"], "cuda12-torch cuda12-all"),
        ([], ["mpi.flavour=mpich"], "cuda11-old"),
        ([], ["test_on_gpu=true"], "cuda12-torch"),
        ([], ["id=*-all"], "cuda12-all"),
        (["*cuda12*"], ["torch=2.8.0"], "cuda12-all"),
    ],
)
def test_select(wanted: list[str], where: list[str], found: str) -> None:
    assert [cell.id for cell in select(ROWS, wanted, where)] == found.split()


@pytest.mark.parametrize(
    ("wanted", "where", "cause", "hint"),
    [
        (["cuda12-toch"], [], "no row matches 'cuda12-toch'", "did you mean 'cuda12-torch'?"),
        (["cuda12-torch", "*rocm*"], [], "no row matches '*rocm*'", "the rows are cuda12-torch, cuda12-all"),
        (["CUDA12-torch"], [], "no row matches 'CUDA12-torch'", "cuda12-torch"),
        ([], ["toch=2.6.0"], "unknown field 'toch'", "did you mean 'torch'?"),
        ([], ["line=3"], "unknown field 'line'", "the fields are id, provider"),
        ([], ["torch"], "has no '='", "--where torch=2.8.0"),
        ([], ["torch=2.8"], "'torch=2.8' matches no row", "did you mean '2.8.0'?"),
        ([], ["nccl=2"], "'nccl=2' matches no row", "left out everywhere"),
        ([], ["torch=2.6.0", "cuda=11.8"], "'cuda=11.8' matches no row", "12.4"),
        (["cuda11-old"], ["torch=2.6.0"], "'torch=2.6.0' matches no row", "2.0.1+cu118"),
    ],
)
def test_selection_that_matches_nothing(wanted: list[str], where: list[str], cause: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(ROWS, wanted, where)
    assert cause in caught.value.cause
    assert hint in caught.value.hint


def test_every_field_can_be_asked_for() -> None:
    assert {"id", *FIELDS} <= set(WHERE)
    words: dict[str, Any] = {name: WHERE[name](ROWS[0])[0] for name in WHERE}
    for name, word in words.items():
        assert ROWS[0] in select(ROWS, [], [f"{name}={word}"]), name
