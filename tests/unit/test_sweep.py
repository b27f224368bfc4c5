"""What is counted equals what the rules say of each cell on its own."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from command import call
from rows import CELL

from stackwright.core.config.expand import expand
from stackwright.core.config.load import interpret
from stackwright.core.model.row import Mpi
from stackwright.core.resolve.sweep import Axis, exclusions, of_matrix, of_tables, sweep
from stackwright.core.rules.table import CELL_RULES, first_clash

AXES = (
    Axis(field="torch", values=(None, "2.0.1", "2.6.0", "2.8.0")),
    Axis(field="gcc", values=("11", "12", "13", "14")),
    Axis(field="os", values=("debian-12", "debian-13", "ubuntu-22.04")),
    Axis(field="python", values=("3.11", "3.13")),
    Axis(field="cuda", values=(None, "11.8", "12.4")),
    Axis(
        field="mpi",
        values=(
            Mpi.of("openmpi", "4.1"),
            Mpi.of("openmpi", "5.0"),
        ),
    ),
    Axis(field="provider", values=("debian", "nvidia")),
    Axis(field="mxnet", values=(None, "1.9.1")),
)


def test_the_cells_that_are_left_are_those_that_every_rule_accepts() -> None:
    swept = sweep(CELL, AXES, CELL_RULES)
    cells = []
    for values in product(*(axis.values for axis in AXES)):
        chosen: dict[str, Any] = dict(zip((axis.field for axis in AXES), values, strict=True))
        cells.append(CELL.changed(chosen))
    accepted = sum(first_clash(cell) is None for cell in cells)
    assert (swept.cells, swept.left) == (len(cells), accepted)
    assert accepted > 0
    assert swept.left + sum(count for _, count in swept.fallen) == swept.cells


def test_no_cell_falls_to_a_rule_that_is_not_there() -> None:
    """Without a rule, at least the cells that only it refuses are left."""
    without = [rule for rule in CELL_RULES if rule.name != "cuda-gcc"]
    assert sweep(CELL, AXES, without).left > sweep(CELL, AXES, CELL_RULES).left


def test_what_this_release_lacks_is_asked_last() -> None:
    releases = Axis(field="horovod", values=("0.28.1", "0.27.0"))
    fallen = {rule.name: count for rule, count in sweep(CELL, (*AXES, releases), CELL_RULES).fallen}
    assert fallen["horovod"] == sweep(CELL, AXES, CELL_RULES).left > 0


def test_the_product_of_the_tables_is_pruned_by_few_questions() -> None:
    swept = sweep(*of_tables(), CELL_RULES)
    assert swept.cells > 100_000
    assert 0 < swept.left < swept.cells
    assert swept.asked < 200_000


def test_the_axes_of_a_matrix_are_taken_where_it_has_some(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text(
        'defaults: {provider: debian, os: debian-13, python: "3.13", horovod: "0.28.1", torch: "2.6.0",\n'
        '  mpi: {flavour: openmpi, version: "5.0"}, gpu_arch: ["8.0"]}\n'
        'axes: {gcc: ["12", "13", "14"]}\n'
    )
    code, out, _ = call(capsys, "--matrix", str(path), "plan", "--all", "--json")
    document = json.loads(out)
    assert (code, document["cells"], document["left"]) == (0, 3, 2)
    assert {rule["rule"]: rule["cells"] for rule in document["rules"]}["cuda-gcc"] == 1


HEAD = """
defaults: {provider: debian, os: debian-13, horovod: "0.28.1", mpi: {flavour: openmpi, version: "5.0"}}
"""
FEW = """
axes:
  torch: ["2.6.0", "2.8.0", "2.9.1"]
  gcc: ["12", "13", "14"]
  python: ["3.11", "3.13"]
  gpu_arch: [["8.0"], ["9.0"]]
exclude:
  - {torch: "2.6.0", gpu_arch: ["9.0"]}
  - {gpu_arch: ["9.0"], torch: "2.8.0"}
  - {gcc: "12"}
  - {torch: "2.9.1", gcc: "13", python: "3.13", provider: debian}
"""


def test_what_the_matrix_excludes_is_not_left() -> None:
    matrix = interpret(HEAD + FEW, "matrix.yaml")
    rows = expand(matrix)
    swept = sweep(*of_matrix(matrix), (*exclusions(matrix), *CELL_RULES))
    assert swept.cells == 36
    assert sweep(*of_matrix(matrix), exclusions(matrix)).left == len(rows) < swept.cells
    assert swept.left == sum(first_clash(row) is None for row in rows) > 0
    assert swept.left + sum(count for _, count in swept.fallen) == swept.cells
    assert sweep(*of_matrix(matrix), CELL_RULES).left > swept.left


def test_entries_that_name_the_same_axes_are_one_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text(HEAD + FEW)
    code, out, _ = call(capsys, "--matrix", str(path), "plan", "--all", "--json")
    rules = [rule["rule"] for rule in json.loads(out)["rules"]]
    assert code == 0
    assert rules[:3] == ["exclude torch, gpu_arch", "exclude gcc", "exclude torch, gcc, python"]


def test_an_entry_that_excludes_nothing_is_an_error_here_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text(HEAD + FEW.replace('{gcc: "12"}', '{gcc: "11"}'))
    code, _, err = call(capsys, "--matrix", str(path), "plan", "--all")
    assert code == 3
    assert "gcc is never '11'" in err


def test_a_large_product_with_many_exclusions_is_counted_by_few_questions() -> None:
    torches = [f"2.{minor}.{patch}" for minor in range(10) for patch in range(10)]
    pythons = [f"3.{minor}" for minor in range(6, 16)]
    wide = {"torch": torches, "python": pythons, "gcc": [str(release) for release in range(7, 17)],
            "cuda": [f"{major}.{minor}" for major in (11, 12) for minor in range(5)],
            "gpu_arch": [["7.0"], ["8.0"], ["9.0"]]}  # fmt: skip
    exclude = [{"torch": torch, "python": python} for torch in torches[::2] for python in pythons]
    matrix = interpret(f"{HEAD}axes: {json.dumps(wide)}\nexclude: {json.dumps(exclude)}\n", "matrix.yaml")
    swept = sweep(*of_matrix(matrix), (*exclusions(matrix), *CELL_RULES))
    assert swept.cells == 300_000
    assert swept.fallen[0][0].name == "exclude torch, python"
    assert swept.fallen[0][1] > 0
    assert swept.asked < 30_000


def test_all_goes_with_no_selection(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "plan", "--all", "cuda12-torch")
    assert code == 2
    assert "--all" in err
