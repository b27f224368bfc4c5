"""What the second witness of an image says beside the verdict: disagreements, by the name of the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_facts import docker_facts, stack

from stackwright.core.checks.judge import RULES, verify
from stackwright.core.model.row import Check, Outcome, Verdict
from stackwright.probe.agreement import Case, cases, clean, judged

ROW = stack()
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.images.test_checks" name="test_check[user]"><failure message="x"/></testcase>
<testcase classname="tests.images.test_witness" name="test_default_user_is_not_root">
<properties><property name="doubles" value="static.user"/></properties>
<failure message="AssertionError: assert 0 != 0&#10; more">long</failure></testcase>
<testcase classname="tests.images.test_witness" name="test_row_is_in_the_image">
<properties><property name="doubles" value="static.row-file, ledger.declared"/></properties></testcase>
<testcase classname="tests.images.test_witness" name="test_skipped"><skipped message="no"/></testcase>
<testcase classname="tests.images.test_witness" name="test_broken">
<error message="password=Vq8tGm2x"/></testcase>
</testsuite></testsuites>"""


def of(verdict: Verdict, *found: Case) -> Check:
    return judged(found, verdict, "3 failed in 0.1 s")


def good() -> Verdict:
    return verify(ROW, docker_facts(ROW), "docker", {})


def rootful() -> Verdict:
    facts = docker_facts(ROW)
    facts["system"]["user"]["uid"] = 0
    return verify(ROW, facts, "docker", {})


def test_only_tests_that_look_themselves_are_read(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(JUNIT)
    assert [(case.name, case.message, case.doubles) for case in cases(path)] == [
        ("test_default_user_is_not_root", "assert 0 != 0", ("static.user",)),
        ("test_row_is_in_the_image", "", ("static.row-file", "ledger.declared")),
        ("test_broken", "password=[redacted: password]", ()),
    ]


def test_the_kept_file_holds_no_password(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(JUNIT)
    clean(path)
    assert "Vq8tGm2x" not in path.read_text()
    assert cases(path)[0].name == "test_default_user_is_not_root"


USER = Case(name="test_default_user", message="assert 0 != 0", doubles=("static.user",))
FINE = Case(name="test_row", message="", doubles=("static.row-file",))


def test_a_test_that_fails_where_its_check_passed_is_named() -> None:
    check = of(good(), USER, FINE)
    assert check.outcome is Outcome.FAILED
    assert check.detail == "test_default_user fails (assert 0 != 0), and what it doubles passed: static.user"


def test_a_test_that_fails_beside_its_check_says_nothing_new() -> None:
    check = of(rootful(), USER, FINE)
    assert (check.outcome, check.detail) == (Outcome.PASSED, "2 tests, 1 of them fail where a check fails")
    assert of(good(), FINE).detail == "1 tests"


def test_a_check_that_was_not_asked_is_no_agreement_to_break() -> None:
    facts = docker_facts(ROW)
    facts["system"]["programs"]["gcc"] = None
    case = Case(name="test_versions", message="no gcc", doubles=("declared.gcc",))
    assert of(verify(ROW, facts, "docker", {}), case).outcome is Outcome.PASSED


def test_no_test_at_all_is_no_agreement() -> None:
    check = of(good())
    assert check.outcome is Outcome.FAILED
    assert check.detail == "no test looked at the image: 3 failed in 0.1 s"


@pytest.mark.parametrize("path", ["tests/images/test_witness.py"])
def test_what_a_test_doubles_is_a_check(path: str) -> None:
    import re

    text = (Path(__file__).parents[2] / path).read_text()
    named = {name for line in re.findall(r'"doubles", "([^"]+)"', text) for name in line.split(", ")}
    tests = text.count("\ndef test_")
    assert len(re.findall(r'"doubles"', text)) == tests
    assert named <= {rule.id for rule in RULES} | {"ledger.undeclared", "ledger.credentials"}
