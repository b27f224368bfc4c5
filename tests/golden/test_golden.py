"""Every row of the matrices renders to the committed bytes. `pytest --update-golden` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipped_rows import NVIDIA, PLAN, PROJECTS, ROWS, SOURCES

from stackwright.core.render import definition, dockerfile
from stackwright.host.project import Planned, cells, plan

GOLDEN = Path(__file__).parent

# The lock and the scripts stand in the tree already; the rest of a context is made by render alone.
KEPT = ("Dockerfile", "row.json")


def expected(path: Path, content: str, update: bool) -> str:
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return path.read_text()


@pytest.fixture
def update(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--update-golden"))


def test_every_row_of_the_shipped_matrix_works() -> None:
    assert PLAN.rejections == ()


def test_of_the_rows_on_ubuntu_only_the_oldest_that_was_asked_for_cannot_work() -> None:
    assert [rejection.id for rejection in NVIDIA.rejections] == ["oldest"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
@pytest.mark.parametrize("name", KEPT)
def test_context(row: Planned, name: str, update: bool) -> None:
    recipe = row.recipe
    assert recipe.text(name) == expected(GOLDEN / recipe.id / name, recipe.text(name), update)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_definition_file(row: Planned, update: bool) -> None:
    name = definition.file_name(row.stack)
    text = definition.render_definition(row.stack, SOURCES[row.stack.id]).text(name)
    assert text == expected(GOLDEN / row.stack.id / name, text, update)


def test_bake_file(update: bool) -> None:
    text = dockerfile.bake(row.recipe for row in PLAN.rows)
    assert text == expected(GOLDEN / "docker-bake.json", text, update)


def test_rendering_twice_gives_the_same_bytes() -> None:
    again = [row.recipe for project in PROJECTS for row in plan(project, cells(project)).rows]
    assert again == [row.recipe for row in ROWS]


def test_no_golden_file_is_left_of_a_row_that_is_gone() -> None:
    assert {path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name[0] not in "._"} == {
        row.stack.id for row in ROWS
    }
