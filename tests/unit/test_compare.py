"""Two worlds of one row: what differs is seen, explained or not, and what cannot matter is left out."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from image_facts import docker_facts, stack

from stackwright import definitions
from stackwright.compare import COMPARED, Difference, differences
from stackwright.convert import Made
from stackwright.errors import BuildError
from stackwright.model import Check, Outcome, Tier, Verdict

FACTS = docker_facts(stack())


def changed(*path: str, to: Any) -> dict[str, Any]:
    facts = deepcopy(FACTS)
    place = facts
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return facts


def test_the_same_facts_have_no_difference() -> None:
    assert differences(FACTS, deepcopy(FACTS)) == ()


@pytest.mark.parametrize(
    "path",
    [("system", "python_packages", "torch"), ("system", "distribution_packages", "bash"), ("system", "gcc")],
)
def test_another_version_is_seen_and_nothing_explains_it(path: tuple[str, ...]) -> None:
    (found,) = differences(FACTS, changed(*path, to="0.1"))
    assert (found.path, found.other, found.why) == ("/".join(path), "0.1", "")


def test_what_one_of_them_lacks_is_seen() -> None:
    facts = deepcopy(FACTS)
    del facts["system"]["distribution_packages"]["bash"]
    (found,) = differences(FACTS, facts)
    assert (found.one, found.other) == ("5.2-1", None)
    assert [one.path for one in differences(FACTS, {**FACTS, "built": {}})] != []


def test_who_runs_it_is_no_difference() -> None:
    assert differences(FACTS, changed("system", "user", to={"uid": 0})) == ()
    assert differences(FACTS, changed("system", "environment", to={"LD_LIBRARY_PATH": "/x"})) == ()


def test_the_cmake_of_another_day_is_explained() -> None:
    compiled = FACTS["built"]["torch"]["compiled_by"]
    (found,) = differences(FACTS, changed("built", "torch", "compiled_by", to={**compiled, "cmake": "9.9"}))
    assert "CMake" in found.why
    (found,) = differences(FACTS, changed("built", "torch", "compiled_by", to={**compiled, "gcc": "9.9"}))
    assert found.why == ""


def test_most_of_what_is_compared_is_in_the_facts() -> None:
    """A name that no probe writes any more would compare nothing with nothing."""
    tops = {path.split("/")[0] for path in COMPARED}
    assert tops <= set(FACTS)


def native(*found: Difference, outcome: Outcome = Outcome.PASSED) -> definitions.Native:
    check = Check(id="link.x", tier=Tier.LINK, why="", outcome=outcome, detail="seen")
    return definitions.Native(
        row="r", path=Path("/out/r.def.sif"), made=Made(bytes=10**9, sha256="0" * 64),
        verdict=Verdict(world="sif", checks=(check,)), differences=found,
    )  # fmt: skip


def test_a_failed_check_and_an_unexplained_difference_are_errors() -> None:
    explained = Difference(path="a", one=1, other=2, why="because")
    assert definitions.problem(native(explained)) is None
    for bad in (native(Difference(path="a", one=1, other=2)), native(outcome=Outcome.FAILED)):
        found = definitions.problem(bad)
        assert found
        assert found.exit_code == 8


def test_the_report_says_tiers_differences_and_errors() -> None:
    text = definitions.report([native()], [], "text")
    assert "1.00 GB" in text
    assert "link passed, built not run" in text
    document = definitions.document([native()], [BuildError("no", place="r")])
    assert document["sifs"][0]["tiers"]["link"] == "passed"
    assert document["errors"] == [{"exit_code": 7, "place": "r", "cause": "no"}]
