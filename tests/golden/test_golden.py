"""Three rows render to the committed bytes, and all to the committed digests.

`pytest --update-golden` rewrites both. What holds in each rendered row is in test_configuration.py here, and
in tests/unit/test_render.py and test_definition.py.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from shipped_rows import NVIDIA, PLAN, PROJECTS, ROWS, SOURCES

from stackwright.core.render import definition, dockerfile
from stackwright.host.project import Planned, cells, plan

GOLDEN = Path(__file__).parent
WRITTEN_OUT = ("cuda12-torch", "cuda12-llm", "cuda13-ubuntu")
"""The default row, the one with the user's own software and tools, and one of NVIDIA's images."""


def rendered(row: Planned) -> dict[str, str]:
    """Return the files that a row is rendered to; its lock and scripts stand in the tree."""
    name = definition.file_name(row.stack)
    texts = {each: row.recipe.text(each) for each in ("Dockerfile", "row.json")}
    return {**texts, name: definition.render_definition(row.stack, SOURCES[row.stack.id]).text(name)}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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


@pytest.mark.parametrize("id", WRITTEN_OUT)
def test_a_row_renders_to_the_committed_bytes(id: str, update: bool) -> None:
    (row,) = (row for row in ROWS if row.stack.id == id)
    for name, text in rendered(row).items():
        assert text == expected(GOLDEN / id / name, text, update), name


def test_every_row_renders_to_the_committed_digests(update: bool) -> None:
    digests = {
        row.stack.id: {
            name: hashlib.sha256(text.encode()).hexdigest() for name, text in rendered(row).items()
        }
        for row in ROWS
    }
    text = json.dumps(digests, indent=1) + "\n"
    assert digests == json.loads(expected(GOLDEN / "digests.json", text, update))


def test_bake_file(update: bool) -> None:
    text = dockerfile.bake(row.recipe for row in PLAN.rows)
    assert text == expected(GOLDEN / "docker-bake.json", text, update)


def test_rendering_twice_gives_the_same_bytes() -> None:
    again = [row.recipe for project in PROJECTS for row in plan(project, cells(project)).rows]
    assert again == [row.recipe for row in ROWS]


def test_no_golden_file_is_left_of_a_row_that_is_gone() -> None:
    folders = {path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert folders == set(WRITTEN_OUT)
