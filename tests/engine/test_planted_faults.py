"""Each fault is planted in an image, and exactly the checks that are meant for the image's faults go red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from faults import harness
from faults.ledger import FAULTS as OF_THE_LEDGER
from faults.table import FAULTS, NAMES, WITHOUT_A_FAULT, Fault
from faults.variants import TOGETHER, Variant, variants

from stackwright.core.checks.judge import RULES
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
    variants: tuple[Variant, ...]
    verdicts: Mapping[str, Verdict]

    def image_of(self, fault: str) -> Variant:
        return next(
            variant for variant in self.variants if any(each.name == fault for each in variant.faults)
        )


@pytest.fixture(scope="module", params=["together", pytest.param("alone", marks=pytest.mark.nightly)])
def planted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    runner = Runner()
    docker = engine.find(runner)
    context, facts = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("facts")
    base = harness.base_image(docker, runner, tmp_path_factory.mktemp("base"))
    stack = harness.stack_of(docker, base)
    harness.write_context(context, stack)
    harness.write_servers(context, runner)
    images = variants(alone=request.param == "alone")
    harness.bake(docker, runner, context, harness.bake_file(context, stack, base, images))
    try:
        verdicts = harness.probe_all(docker, runner, stack, images, facts)
        yield Planted(
            docker=docker, runner=runner, stack=stack, facts=facts, variants=images, verdicts=verdicts
        )
    finally:
        harness.remove_all(docker, runner, ["good", *(image.name for image in images)])


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
def test_fault_is_found_by_its_check(fault: Fault, planted: Planted) -> None:
    image = planted.image_of(fault.name)
    failed = {check.id: check.detail for check in planted.verdicts[image.name].failed}
    assert set(failed) == image.red, failed
    told = [failed[check] for check in fault.red]
    assert [text for text in fault.says if not any(text in detail for detail in told)] == [], failed


def test_faults_that_share_an_image_are_told_apart() -> None:
    """Each check names every fault that it is red for, and none is left out because another one is red."""
    names = [name for group in TOGETHER for name in group]
    assert len(names) == len(set(names))
    assert {fault.name for variant in variants(alone=False) for fault in variant.faults} == {
        f.name for f in FAULTS
    }
    waits = {rule.id: set(rule.needs) for rule in RULES}
    for _ in RULES:  # and for what those wait for
        waits = {name: needs.union(*(waits[need] for need in needs)) for name, needs in waits.items()}
    for image in variants(alone=False):
        assert [(name, red) for name in image.red for red in waits[name] & image.red] == []
        said = [text for fault in image.faults for text in fault.says]
        assert len(said) == len(set(said)) and all(fault.says for fault in image.faults)


def test_every_check_has_a_fault() -> None:
    found = {red for fault in FAULTS for red in fault.red} | {fault.red for fault in OF_THE_LEDGER}
    assert NAMES - found == set(WITHOUT_A_FAULT)


WITNESSED = {
    "host-key": "test_no_key_of_ssh[/etc/ssh/ssh_host_*]",
    "private-key": "test_no_key_of_ssh[/home/*/.ssh/*]",
    "pip-config": "test_nothing_of_the_build_is_left[/etc/pip.conf]",
    "pip-cache": "test_nothing_of_the_build_is_left[/root/.cache]",
    "other-row-file": "test_row_is_in_the_image",
    "root": "test_default_user_is_not_root",
    "stub-in-cache": "test_loader_has_no_libcuda",
    "other-mpi": "test_versions_of_programs",
    "other-gcc": "test_versions_of_programs",
}
"""What the tests of images, which look by other means, find of the faults. Of others they find nothing."""


@pytest.mark.parametrize(
    "name", ["good", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("host-key", "root"))]
)
def test_the_second_witness_sees_it_too(name: str, planted: Planted, tmp_path: Path) -> None:
    faults = () if name == "good" else planted.image_of(name).faults
    image = faults[0].name if faults else name
    failed = harness.witness(
        planted.docker, planted.runner, planted.stack, image, planted.facts, tmp_path / "junit.xml"
    )
    assert failed == {WITNESSED[fault.name] for fault in faults if fault.name in WITNESSED}


def test_the_second_witness_asks_for_no_horovodrun_in_a_row_without_horovod(
    planted: Planted, tmp_path: Path
) -> None:
    row = replace(
        planted.stack, communication=(("torch_distributed", dict(planted.stack.frameworks)["torch"]),)
    )
    failed = harness.witness(
        planted.docker, planted.runner, row, "good", planted.facts, tmp_path / "junit.xml"
    )
    assert failed == {"test_horovodrun_only_with_horovod", "test_row_is_in_the_image"}
