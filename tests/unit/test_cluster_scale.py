"""The simulation of bench/cluster_scale.py, on work that can be counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cluster_scale import COMPRESSED, PULL, PUSH, Task, costs, main, simulate, tasks
from stackwright.records.files import load

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results" / "2026-11-20"
PIECE = Task(name="piece", seconds=100, bytes=PUSH * 10)
ROWS = tuple(Task(name=f"row-{number}", seconds=50, needs=("piece",)) for number in range(2))
WIDE = 1e12


def test_a_shared_piece_is_built_once_pushed_once_and_pulled_by_the_other_node() -> None:
    done = simulate((PIECE, *ROWS), nodes=2, link=WIDE)
    assert done.executed == 3
    assert done.seconds == pytest.approx(100 + 10 + PUSH * 10 / PULL + 50)
    assert done.moved == pytest.approx(2 * PUSH * 10 * COMPRESSED)
    assert done.full == 0


def test_without_a_cache_every_node_builds_it() -> None:
    done = simulate((PIECE, *ROWS), nodes=2, link=WIDE, shared=False)
    assert (done.executed, done.moved) == (4, 0)
    assert done.seconds == pytest.approx(150)


def test_a_node_keeps_what_it_has() -> None:
    done = simulate((PIECE, *ROWS), nodes=1, link=WIDE)
    assert done.seconds == pytest.approx(100 + 10 + 50 + 50)


def test_a_narrow_link_is_full_and_all_wait_for_it() -> None:
    narrow = PUSH * COMPRESSED / 10
    done = simulate((PIECE, *ROWS), nodes=2, link=narrow)
    assert done.seconds == pytest.approx(100 + 100 + 100 + 50)
    assert done.full == pytest.approx(200 / 350)


def test_the_rows_of_the_paper_share_what_they_have_in_common() -> None:
    work = tasks(costs(load(path) for path in RESULTS.glob("*.json")))
    names = {task.name for task in work}
    assert sum(name.startswith("row-") for name in names) == 1000
    assert all(names.issuperset(task.needs) for task in work)
    assert len(names) == len(work)


def test_the_paper_has_what_the_simulation_says(capsys: pytest.CaptureFixture[str]) -> None:
    main([str(path) for path in RESULTS.glob("*.json")])
    table = "".join(line for line in capsys.readouterr().out.splitlines(keepends=True) if line[0] == "|")
    assert table and table in (DOCS / "scale.md").read_text()
