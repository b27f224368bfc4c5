"""What a message leads to is there: a rule's, a check's or the gate's own section of the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import call
from report_samples import broken

from stackwright.core.checks.judge import RULES
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.table import CELL_RULES
from stackwright.publish import gate
from stackwright.records.report.table import table

DOCS = Path(__file__).parents[2] / "docs"


def anchors(name: str) -> set[str]:
    return set(re.findall(r'<a id="([^"]+)"></a>', (DOCS / name).read_text()))


def test_every_rule_and_every_check_has_its_own_place() -> None:
    rules = {rule.name for rule in CELL_RULES} | {rule.name for rule in LOCK_RULES}
    assert anchors("rules.md") == rules | {rule.name for rule in EXTRA_RULES}
    assert anchors("checks.md") == {rule.id for rule in RULES}


def test_a_rejected_row_leads_to_its_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = tmp_path / "matrix.yaml"
    assert call(capsys, "init", str(tmp_path))[0] == 0
    matrix.write_text(matrix.read_text().replace('gcc: "13"', 'gcc: "5"'))
    _, out, _ = call(capsys, "--matrix", str(matrix), "plan", "--strict")
    (name,) = re.findall(r"docs/rules\.md#(\S+)", out)
    assert name in anchors("rules.md")


def test_a_failed_check_leads_to_its_section() -> None:
    record = broken()
    (verdict, *_) = record.verdicts
    assert verdict.failed
    said = str(table([record], [], [], plain=True).caption)
    named = set(re.findall(r"docs/checks\.md#([\w.-]+)", said))
    assert named and named <= anchors("checks.md")


def test_a_refused_publish_leads_to_what_may_be_published() -> None:
    (line,) = gate.DOCS
    name, _, section = line.rpartition(" ")[2].removeprefix("docs/").partition("#")
    headings = re.findall(r"^#+ (.+)$", (DOCS / name).read_text(), re.M)
    assert section in {heading.lower().replace(" ", "-") for heading in headings}
