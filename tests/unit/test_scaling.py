"""The arithmetic of bench/scaling.py, and what it says of ranks that share cores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from rows import ROOT, stack

from bench import nodes, scaling
from bench.scaling import Line, Run, lines, printed
from stackwright.core.errors import EngineError
from stackwright.core.launch.launchers import Target
from stackwright.engines.docker import Docker
from stackwright.host.runner import Completed, Runner

RESULTS = sorted((ROOT / "docs" / "results").glob("*/scaling/*.json"))
ONE = Run(framework="torch", nodes=1, per_node=1, world_size=1, images_per_second=1000.0, accuracy=0.99)
FOUR = Run(framework="torch", nodes=2, per_node=2, world_size=4, images_per_second=3000.0, accuracy=0.98)


def test_efficiency_is_the_speedup_of_each_rank() -> None:
    assert lines((ONE, FOUR)) == (
        Line(run=ONE, speedup=1.0, efficiency=1.0),
        Line(run=FOUR, speedup=3.0, efficiency=0.75),
    )


def test_each_framework_is_compared_with_itself() -> None:
    other = replace(ONE, framework="keras", images_per_second=500.0)
    found = lines((ONE, FOUR, other, replace(FOUR, framework="keras")))
    assert [line.speedup for line in found] == [1.0, 3.0, 1.0, 6.0]
    assert found[-1].efficiency == 1.5


def test_without_a_run_on_one_rank_nothing_can_be_said() -> None:
    with pytest.raises(ValueError, match="keras"):
        lines((ONE, replace(FOUR, framework="keras")))


def test_the_table_shows_every_run() -> None:
    shown = scaling.table(lines((ONE, FOUR))).splitlines()
    assert shown[2] == "| torch | 1×1 | 1 | 1,000 | 1.00 | 100% | 99.0% |"
    assert shown[3] == "| torch | 2×2 | 4 | 3,000 | 3.00 | 75% | 98.0% |"


def test_ranks_that_share_cores_are_told_of() -> None:
    assert "4 ranks can be at most 2 times as fast as one, an efficiency of 50%" in scaling.caution(2, 4)
    assert "at most" not in scaling.caution(4, 4)
    assert "shared 4 CPU cores" in scaling.caution(4, 4)


def test_two_worlds_of_one_rank_are_no_world_of_two() -> None:
    said = json.dumps({"framework": "torch", "world_size": 1})
    assert printed(f"noise\n{said}\n")["world_size"] == 1
    with pytest.raises(EngineError, match="2 ranks"):
        printed(f"{said}\n{said}\n")
    with pytest.raises(EngineError, match="0 ranks"):
        printed("noise\n")


def test_what_is_written_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    said = scaling.Measured(
        row="some-row", day="2026-01-01", host="2 cores", remark=scaling.caution(2, 4),
        options=("--epochs", "2"), lines=lines((ONE, FOUR)),
    )  # fmt: skip
    for folder in ("one", "two"):
        scaling.write(tmp_path / folder, said)
    document = json.loads((tmp_path / "one" / "some-row.json").read_text())
    assert [line["efficiency"] for line in document["lines"]] == [1.0, 0.75]
    page = (tmp_path / "one" / "some-row.md").read_text()
    assert document["remark"] == said.remark
    assert said.remark in page
    assert "(some-row.svg)" in page
    drawn = [(tmp_path / folder / "some-row.svg").read_bytes() for folder in ("one", "two")]
    assert drawn[0].startswith(b"<?xml")
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_the_same_in_numbers_and_in_words(path: Path) -> None:
    said = TypeAdapter(scaling.Measured).validate_json(path.read_bytes())
    assert said.lines == lines([line.run for line in said.lines])
    page = path.with_suffix(".md").read_text()
    assert scaling.table(said.lines) in page
    assert said.remark in page
    assert "load" in said.host
    assert path.with_suffix(".svg").exists()


class Fake(nodes.Nodes):
    """Nodes whose every run prints the same world."""

    def launch(self, launcher: str, command: Sequence[str], *, nodes: int, per_node: int) -> Completed:
        said = {
            "framework": "torch",
            "world_size": 2,
            "local_size": 2,
            "images_per_second": 9.0,
            "accuracy": 1.0,
        }
        return Completed(argv=tuple(command), returncode=0, stdout=json.dumps(said), stderr="")


def test_a_run_in_another_world_than_was_asked_for_is_no_measurement() -> None:
    docker = Docker(program="docker", host="", version="", driver="", root="")
    fake = Fake(
        stack=stack(),
        target=Target.of(stack(), "i"),
        docker=docker,
        runner=Runner(),
        containers=(),
        hosts=("a", "b"),
    )
    (run,) = scaling.measure(fake, configurations=((1, 2),))
    assert (run.configuration, run.world_size, run.images_per_second) == ("1×2", 2, 9.0)
    for other in ((1, 1), (2, 1), (2, 2)):
        with pytest.raises(EngineError, match="another world"):
            list(scaling.measure(fake, configurations=(other,)))
