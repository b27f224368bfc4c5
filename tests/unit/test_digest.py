"""A verdict is of the checks that gave it: whatever judges an image is in their digest."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from rows import ROOT

from stackwright.core.checks.judge import RULES
from stackwright.probe.digest import JUDGES, checks_digest

FILES = {path for pattern in JUDGES for path in ROOT.glob(pattern)}


def test_each_pattern_is_of_files_that_are_there() -> None:
    assert [pattern for pattern in JUDGES if not [*ROOT.glob(pattern)]] == []


def test_every_check_is_in_the_digest() -> None:
    judges = {rule.id: Path(inspect.getfile(inspect.unwrap(rule.judge))) for rule in RULES}
    assert {name: path.name for name, path in judges.items() if path not in FILES} == {}


@pytest.mark.parametrize("name", ["probes/link.py", "stackwright/core/compiled/checks.py"])
def test_another_check_is_another_digest(name: str, tmp_path: Path) -> None:
    for path in FILES:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    before = checks_digest(tmp_path)
    assert before == checks_digest(ROOT)
    checks_digest.cache_clear()
    (tmp_path / name).write_text("# another\n")
    assert checks_digest(tmp_path) != before
    checks_digest.cache_clear()
