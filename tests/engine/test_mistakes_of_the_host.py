"""Mistakes of the table that ask the host: a dead proxy, a dead engine, a site without registry or key."""

from __future__ import annotations

import pytest
from mistakes import ALL, ASKING, make, page
from rows import ROOT


@pytest.mark.long
def test_the_whole_page_has_what_is_said() -> None:
    said = {mistake.what: make(mistake) for mistake in ALL}
    assert [mistake.what for mistake in ASKING if said[mistake.what].code != mistake.code] == []
    assert (ROOT / "docs" / "mistakes.md").read_text() == page(said)
