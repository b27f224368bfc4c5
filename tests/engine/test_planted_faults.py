"""Each fault is planted in an image of its own, and exactly the check that is meant for it goes red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from faults import harness
from faults.table import FAULTS, NAMES, WITHOUT_A_FAULT, Fault

from stackwright.engines import docker as engine
from stackwright.model import Outcome, Tier, Verdict
from stackwright.runner import Runner

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("planted-faults")]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Verdict]]:
    runner = Runner()
    docker = engine.find(runner)
    context = tmp_path_factory.mktemp("context")
    base = harness.base_image(docker, runner, tmp_path_factory.mktemp("base"))
    stack = harness.stack_of(docker, base)
    harness.write_context(context, stack)
    names = ["good", *(fault.name for fault in FAULTS)]
    harness.bake(docker, runner, context, harness.bake_file(context, stack, base, FAULTS))
    try:
        yield harness.probe_all(docker, runner, stack, names, tmp_path_factory.mktemp("facts"))
    finally:
        harness.remove_all(docker, runner, names)


def test_the_good_image_is_green(verdicts: Mapping[str, Verdict]) -> None:
    good = verdicts["good"]
    assert [(check.id, check.detail) for check in good.failed] == []
    assert {tier: good.tier(tier) for tier in (Tier.STATIC, Tier.LINK, Tier.BUILT)} == {
        Tier.STATIC: Outcome.PASSED,
        Tier.LINK: Outcome.PASSED,
        Tier.BUILT: Outcome.PASSED,
    }


def test_what_was_not_run_is_not_green(verdicts: Mapping[str, Verdict]) -> None:
    assert verdicts["good"].tier(Tier.COLLECTIVE) is Outcome.NOT_RUN
    assert verdicts["good"].tier(Tier.GPU) is Outcome.NOT_RUN


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_found_by_its_check(fault: Fault, verdicts: Mapping[str, Verdict]) -> None:
    failed = {check.id: check.detail for check in verdicts[fault.name].failed}
    assert set(failed) == fault.red, failed
    assert any(fault.says in detail for detail in failed.values()), failed


def test_every_check_has_a_fault() -> None:
    found = {red for fault in FAULTS for red in fault.red}
    assert NAMES - found == set(WITHOUT_A_FAULT)
