"""The judgement of facts as a whole. tests/engine plants the faults that an image can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_facts import EXTENSION, ROW, docker_facts, failed, sif_facts

from stackwright.core.checks.check import MissingFact, Rule, cause, numbers, same_release
from stackwright.core.checks.judge import RULES, document, rules, verify
from stackwright.core.components.shared.loaded import cuda_version, cudnn_version, nccl_version
from stackwright.core.model.row import IMAGE_WORLDS, Outcome, Tier


def test_the_row_itself_passes_everything() -> None:
    verdict = verify(ROW, docker_facts(ROW), "docker", {})
    assert failed(docker_facts(ROW)) == {}
    assert [check.outcome for check in verdict.checks] == [Outcome.PASSED] * len(rules("docker"))


def test_the_row_as_sif_passes_everything_that_a_sif_has() -> None:
    assert failed(sif_facts(ROW), world="sif") == {}
    ids = {rule.id for rule in rules("sif")}
    assert ids == {rule.id for rule in RULES} - {
        "static.scan", "static.proxy", "static.user", "static.entrypoint", "static.history", "static.workdir",
        "static.site-layers", "static.settings", "link.any-user-compile", "collective.any-user",
        "static.any-user-ssh",
    }  # fmt: skip
    assert {rule.id for rule in RULES} - {rule.id for rule in rules("docker")} == {
        "static.scripts",
        "ledger.same-files",
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_without_facts_no_check_passes(rule: Any) -> None:
    world = next(world for world in IMAGE_WORLDS if world in rule.worlds)
    check = next(check for check in verify(ROW, {}, world, {}).checks if check.id == rule.id)
    assert check.outcome is (Outcome.NOT_RUN if rule.needs else Outcome.FAILED)
    assert check.detail
    with pytest.raises(MissingFact):
        rule.judge(ROW, {})


@pytest.mark.parametrize("probe", ["files", "system", "link"])
def test_a_crashed_probe_fails_its_checks_with_its_error(probe: str) -> None:
    facts = {**docker_facts(ROW), probe: {"error": "exit code 1"}}
    details = failed(facts)
    assert details
    assert all("exit code 1" in detail for detail in details.values())


def test_needs_name_checks_and_lead_to_no_circle() -> None:
    table = {rule.id: rule for rule in RULES}

    def above(rule: Rule, below: tuple[str, ...]) -> None:
        assert rule.id not in below, below
        for name in rule.needs:
            above(table[name], (*below, rule.id))

    for rule in RULES:
        above(rule, ())


def test_a_missing_library_is_one_failure_and_the_rest_is_not_asked() -> None:
    """As it is without libmpi: nothing of Horovod works, and one check says why."""
    facts = docker_facts(ROW)
    facts["link"]["libraries"][EXTENSION]["unresolved"].append("libmpi.so.40")
    facts["link"]["modules"]["horovod.torch"] = {
        "error": "exit code 1: libmpi.so.40: cannot open shared object"
    }
    facts["built"]["torch"] = {"error": "exit code 1"}
    for run in facts["collective"].values():
        run.update(ranks=[], code=1, error="horovodrun ended", output="Gloo support has not been built.")
    verdict = verify(ROW, facts, "docker", {})
    assert {check.id: check.detail for check in verdict.failed} == {
        "link.unresolved": f"{EXTENSION} needs libmpi.so.40"
    }
    waiting = [check for check in verdict.checks if check.outcome is Outcome.NOT_RUN]
    assert {check.detail for check in waiting} == {"not asked, because link.unresolved failed"}
    assert len(waiting) > 20
    assert verdict.tier(Tier.LINK) is Outcome.FAILED
    assert {verdict.tier(tier) for tier in (Tier.BUILT, Tier.COLLECTIVE)} == {Outcome.NOT_RUN}


def test_a_check_is_asked_where_what_it_needs_was_not_to_run() -> None:
    facts = docker_facts(ROW)
    facts["built"]["torch"]["mpi_built"] = 0
    verdict = verify(ROW, facts, "docker", {Tier.LINK: "nobody asked for it"})
    assert {check.id for check in verdict.failed} == {"built.mpi"}


def test_an_extension_that_horovod_did_without() -> None:
    """Horovod prints a warning and goes on; its answers are then none, which is not "no"."""
    facts = docker_facts(ROW)
    facts["link"]["modules"]["horovod.torch"]["extension"]["error"] = "no shared object"
    facts["built"]["torch"] |= dict.fromkeys(("mpi_built", "gloo_built", "nccl_built", "cuda_built"))
    assert failed(facts) == {"link.import": "horovod.torch: its extension does not load: no shared object"}
    facts["link"]["modules"]["horovod.torch"]["extension"]["error"] = None
    details = failed(facts)
    assert set(details) == {"built.mpi", "built.gloo", "built.nccl", "built.cuda"}
    assert all("does not say whether it was built with" in detail for detail in details.values())


OUTPUTS = (
    (
        "-"
        * 76
        + "\nIt appears that your filesystem is not writable.\nunable to create /tmp/prterun.node.0: "
        "Permission denied\n" + "-" * 76 + "\n",
        "unable to create /tmp/prterun.node.0: Permission denied",
    ),
    (
        "Traceback (most recent call last):\n  File x\n    error()\nValueError: no rank 1\n"
        + "=" * 40
        + "\nkilled\n",
        "ValueError: no rank 1",
    ),
    ("starting\nended\n-----\n", "ended"),
    ("------\n", "it said nothing"),
    ("", "it said nothing"),
)


@pytest.mark.parametrize(("output", "line"), OUTPUTS)
def test_the_cause_is_shown_and_not_the_frame_around_it(output: str, line: str) -> None:
    assert cause(output) == line
    facts = docker_facts(ROW)
    facts["collective"]["torch/mpi"].update(
        ranks=[], code=1, error="mpirun ended with exit code 1", output=output
    )
    assert failed(facts) == {"collective.run": f"torch/mpi: mpirun ended with exit code 1: {line}"}


@pytest.mark.parametrize("tier", list(Tier))
def test_a_tier_that_did_not_run_is_never_green(tier: Tier) -> None:
    verdict = verify(ROW, docker_facts(ROW), "docker", {tier: "no device"})
    assert verdict.tier(tier) is Outcome.NOT_RUN
    assert {check.detail for check in verdict.checks if check.tier is tier} == {"no device"}
    others = [verdict.tier(other) for other in Tier if other is not tier]
    assert others == [Outcome.PASSED] * (len(Tier) - 1)


def test_what_could_not_be_read_is_not_run() -> None:
    facts = sif_facts(ROW)
    facts["files"] |= {"outside": False, "uid": 1000, "unreadable": ["/root", "/home/train/.ssh"]}
    facts["ledger"] = {"not_read": "there is no unsquashfs"}
    outcomes = {check.id: check.outcome for check in verify(ROW, facts, "sif", {}).checks}
    blind = ("static.private-key", "static.host-key", "static.pip-cache", "static.temporary", "ledger.wheels")
    assert {outcomes[name] for name in blind} == {Outcome.NOT_RUN}
    assert Outcome.FAILED not in outcomes.values()


def test_a_world_that_is_none_has_no_empty_verdict() -> None:
    with pytest.raises(ValueError, match="singularity"):
        verify(ROW, docker_facts(ROW), "singularity", {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(docker_facts(ROW), JSON)))
def test_facts_of_any_shape_are_judged_and_not_raised(facts: dict[str, Any]) -> None:
    verdict = verify(ROW, facts, "docker", {})
    assert len(verdict.checks) == len(rules("docker"))
    assert verdict.failed


@pytest.mark.parametrize(
    ("declared", "seen", "same"),
    [("13", "13.3.0", True), ("13.3.0", "13.3.0", True), ("2.6.0", "2.6.0+cu124", True),
     ("12.4", "12.40", False), ("13.3.0", "13", False), ("", "13", False),
     ("13", "", False), ("x", "y", False)],
)  # fmt: skip
def test_same_release(declared: str, seen: str, same: bool) -> None:
    assert same_release(declared, seen) is same


def test_version_codes() -> None:
    assert cuda_version(12040) == (12, 4)
    assert cuda_version(11080) == (11, 8)
    assert cudnn_version(90100) == (9, 1, 0)
    assert cudnn_version(8902) == (8, 9, 2)
    assert nccl_version(22105) == (2, 21, 5)
    assert nccl_version(2708) == (2, 7, 8)
    assert numbers("9.1.0.70") == (9, 1, 0, 70)


def test_ids_are_unique_and_every_check_says_what_it_is_for() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.why.endswith("."), rule.id
        assert 30 < len(rule.why) < 130, rule.id


def test_the_list_in_the_documentation_is_the_table() -> None:
    path = Path(__file__).parents[2] / "docs" / "checks.md"
    assert path.read_text() == document(), (
        "write it anew: python -m stackwright.core.checks.judge > docs/checks.md"
    )
