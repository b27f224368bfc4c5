"""Each fault is planted in an image of its own, and exactly the check that is meant for it goes red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults import harness
from faults.ledger import FAULTS as OF_THE_LEDGER
from faults.table import FAULTS, NAMES, WITHOUT_A_FAULT, Fault

from stackwright.core.model.row import Outcome, Stack, Tier, Verdict
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("planted-faults")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """All images, and what the probes found in them."""

    docker: Docker
    runner: Runner
    stack: Stack
    facts: Path
    verdicts: Mapping[str, Verdict]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    runner = Runner()
    docker = engine.find(runner)
    context, facts = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("facts")
    base = harness.base_image(docker, runner, tmp_path_factory.mktemp("base"))
    stack = harness.stack_of(docker, base)
    harness.write_context(context, stack)
    harness.write_servers(context, runner)
    names = ["good", *(fault.name for fault in FAULTS)]
    harness.bake(docker, runner, context, harness.bake_file(context, stack, base, FAULTS))
    try:
        verdicts = harness.probe_all(docker, runner, stack, FAULTS, facts)
        yield Planted(docker=docker, runner=runner, stack=stack, facts=facts, verdicts=verdicts)
    finally:
        harness.remove_all(docker, runner, names)


@pytest.fixture(scope="module")
def verdicts(planted: Planted) -> Mapping[str, Verdict]:
    return planted.verdicts


def test_the_good_image_is_green(verdicts: Mapping[str, Verdict]) -> None:
    good = verdicts["good"]
    assert [(check.id, check.detail) for check in good.failed] == []
    of_files = {check.id for check in good.checks if check.outcome is Outcome.NOT_RUN}
    assert {name for name in of_files if name.startswith("static.")} == set(), (
        "those of stand-ins: test_ledger.py"
    )
    assert {tier: good.tier(tier) for tier in (Tier.LINK, Tier.BUILT)} == {
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
    assert [text for text in fault.says if not any(text in detail for detail in failed.values())] == [], (
        failed
    )


def test_every_check_has_a_fault() -> None:
    found = {red for fault in FAULTS for red in fault.red} | {fault.red for fault in OF_THE_LEDGER}
    assert NAMES - found == set(WITHOUT_A_FAULT)


WITNESSES = (
    ("good", ""),
    ("host-key", "test_no_key_of_ssh[/etc/ssh/ssh_host_*]"),
    ("root", "test_default_user_is_not_root"),
    ("other-row-file", "test_row_is_in_the_image"),
    ("other-gcc", "test_versions_of_programs"),
)


@pytest.mark.parametrize(("name", "red"), WITNESSES, ids=[name for name, _ in WITNESSES])
def test_the_second_witness_sees_it_too(name: str, red: str, planted: Planted, tmp_path: Path) -> None:
    failed = harness.witness(
        planted.docker, planted.runner, planted.stack, name, planted.facts, tmp_path / "junit.xml"
    )
    assert failed == ({red} if red else set())
