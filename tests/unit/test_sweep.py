"""What is counted equals what the rules say of each cell on its own."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rows import CELL
from test_cli import call

from stackwright.model import Mpi
from stackwright.rules.cell import CELL_RULES, first_clash
from stackwright.sweep import Axis, of_tables, sweep

AXES = (
    Axis(field="torch", values=(None, "2.0.1", "2.6.0", "2.8.0")),
    Axis(field="gcc", values=("11", "12", "13", "14")),
    Axis(field="os", values=("debian-12", "debian-13", "ubuntu-22.04")),
    Axis(field="python", values=("3.11", "3.13")),
    Axis(field="cuda", values=(None, "11.8", "12.4")),
    Axis(field="mpi", values=(Mpi(flavour="openmpi", version="4.1"), Mpi(flavour="openmpi", version="5.0"))),
    Axis(field="provider", values=("debian", "nvidia")),
    Axis(field="mxnet", values=(None, "1.9.1")),
)


def test_the_cells_that_are_left_are_those_that_every_rule_accepts() -> None:
    swept = sweep(CELL, AXES, CELL_RULES)
    cells = []
    for values in product(*(axis.values for axis in AXES)):
        chosen: dict[str, Any] = dict(zip((axis.field for axis in AXES), values, strict=True))
        cells.append(replace(CELL, **chosen))
    accepted = sum(first_clash(cell) is None for cell in cells)
    assert (swept.cells, swept.left) == (len(cells), accepted)
    assert accepted > 0
    assert swept.left + sum(count for _, count in swept.fallen) == swept.cells


def test_no_cell_falls_to_a_rule_that_is_not_there() -> None:
    """Without a rule, at least the cells that only it refuses are left."""
    without = [rule for rule in CELL_RULES if rule.name != "cuda-gcc"]
    assert sweep(CELL, AXES, without).left > sweep(CELL, AXES, CELL_RULES).left


def test_what_this_release_lacks_is_asked_last() -> None:
    fallen = {rule.name: count for rule, count in sweep(CELL, AXES, CELL_RULES).fallen}
    nvidia = [
        axis if axis.field != "provider" else Axis(field="provider", values=("nvidia",)) for axis in AXES
    ]
    assert fallen["provider"] == sweep(CELL, nvidia, CELL_RULES[:-1]).left > 0


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
    assert {one["rule"]: one["cells"] for one in document["rules"]}["cuda-gcc"] == 1


def test_all_goes_with_no_selection(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "plan", "--all", "cuda12-torch")
    assert code == 2
    assert "--all" in err
