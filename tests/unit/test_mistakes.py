"""Each mistake of the table is made for real: one message, its place, the next step, the code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from mistakes import ALL, ASKING, NOTATION, VALUES, YAML, Mistake, Said, make, page
from rows import ROOT

PAGE = (ROOT / "docs" / "mistakes.md").read_text()
HERE = tuple(mistake for mistake in ALL if mistake not in ASKING)


@pytest.fixture(scope="module")
def said() -> dict[str, Said]:
    return {mistake.what: make(mistake) for mistake in HERE}


def test_the_table_is_long_enough_and_names_each_mistake_once() -> None:
    assert len({mistake.what for mistake in ALL}) == len(ALL) >= 60


@pytest.mark.parametrize("mistake", HERE, ids=lambda mistake: mistake.what)
def test_a_mistake_gets_one_message_with_the_next_step_and_its_code(
    mistake: Mistake, said: dict[str, Said]
) -> None:
    told = said[mistake.what]
    assert told.code == mistake.code
    assert told.message and told.next
    assert told.err.count("error: ") == 1
    assert "Traceback" not in told.err and "internal error" not in told.err


@pytest.mark.parametrize("mistake", (*NOTATION, *VALUES, *YAML), ids=lambda mistake: mistake.what)
def test_a_mistake_in_the_matrix_has_its_line_and_column(mistake: Mistake, said: dict[str, Said]) -> None:
    assert re.match(r"matrix\.yaml:\d+:\d+: ", said[mistake.what].message)


def test_the_page_has_what_is_said(said: dict[str, Said]) -> None:
    """`python -m mistakes > docs/mistakes.md` writes it anew; the difference is what a reviewer reads."""
    told = page(said).splitlines()
    assert PAGE.splitlines()[: len(told)] == told


def test_another_message_or_code_is_seen(said: dict[str, Said]) -> None:
    first = HERE[0].what
    others: tuple[dict[str, Any], ...] = ({"code": 1}, {"err": "error: something else\n  next: wait"})
    for other in others:
        assert not PAGE.startswith(page({**said, first: replace(said[first], **other)}))
