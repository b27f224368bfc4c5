"""The gate and the tags, which are pure: what may be published, and under which names."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_facts import EXTENSION, docker_facts, stack
from report_samples import UNEXPLAINED, built, failed_definition, unbuilt_definition
from report_samples import definition as of_definition
from rows import ROOT

from stackwright.core.checks.judge import verify
from stackwright.core.config.load import interpret
from stackwright.core.config.notation import publishing
from stackwright.core.errors import GateError, MatrixError
from stackwright.core.model.matrix import Mark, PlatformTag, Publish
from stackwright.core.model.record import Image, Record, SifFile
from stackwright.core.model.row import Check, Outcome, Tier, Verdict, World
from stackwright.engines.docker import Docker
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.probe.digest import checks_digest
from stackwright.publish import Publisher, foretell, gate, refusals, tags
from stackwright.publish.gate import Yesterday
from stackwright.publish.registry.client import Registry
from stackwright.records import files as records

CPU = (Tier.STATIC, Tier.LINK, Tier.BUILT, Tier.COLLECTIVE)
CHECKS = "0123456789ab"
KEY = "abcdef012345" + "0" * 52
DAY = date(2026, 1, 2)
SIF = SifFile(path="out/x.sif", bytes=1, sha256="0" * 64)


def verdict(world: str = "docker", **outcomes: Outcome) -> Verdict:
    """Every tier passed but those that are named."""
    checks = (
        Check(id=f"{tier}.x", tier=tier, why="", outcome=outcomes.get(tier, Outcome.PASSED), detail="")
        for tier in Tier
    )
    return Verdict(world=World(world), checks=tuple(checks))


def record(*verdicts: Verdict, **declared: str) -> Record:
    image = Image(reference="x", id="sha256:1", bytes=1, base="")
    known = {"torch": "2.6.0", "tensorflow": "2.18.0", "gpu_arch": "8.0 9.0", **declared}
    return replace(
        built(), image=image, sif=SIF, verdicts=verdicts, tools=(("checks", CHECKS),),
        declared=tuple((name, text) for name, text in known.items() if text),
    )  # fmt: skip


def before(row: Record, *, sif: bool = False) -> Yesterday:
    return Yesterday(digest="sha256:2", row=dict(row.declared), passed=gate.passed(row), sif=sif)


# -- what every row needs --------------------------------------------------------------------------


def test_a_row_that_passed_may_be_published_also_without_a_gpu() -> None:
    assert gate.unproven(record(verdict(gpu=Outcome.NOT_RUN)), CPU, CHECKS, sif=False) == ()


@pytest.mark.parametrize("tier", CPU)
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_RUN])
@pytest.mark.parametrize("world", ["docker", "sif"])
def test_each_required_tier_that_did_not_pass_is_named(tier: Tier, outcome: Outcome, world: str) -> None:
    other = verdict("sif" if world == "docker" else "docker")
    row = record(verdict(world, **{tier: outcome}), other)
    assert gate.unproven(row, CPU, CHECKS, sif=True) == (f"the tier {tier} is {outcome} in {world}",)


def test_a_tier_that_failed_counts_also_where_it_is_not_required() -> None:
    row = record(verdict(gpu=Outcome.FAILED))
    assert gate.unproven(row, CPU, CHECKS, sif=False) == ("the tier gpu failed in docker",)
    assert gate.unproven(record(verdict(gpu=Outcome.NOT_RUN)), (Tier.GPU,), CHECKS, sif=False)


def test_what_was_not_asked_for_one_cause_keeps_the_row_back() -> None:
    """One failure, and all else waits for it: the tiers that wait did not pass either."""
    facts = docker_facts(stack())
    facts["link"]["libraries"][EXTENSION]["unresolved"].append("libmpi.so.40")
    judged = verify(stack(), facts, "docker", {Tier.GPU: "no device"})
    assert [check.id for check in judged.failed] == ["link.unresolved"]
    assert gate.unproven(record(judged), CPU, CHECKS, sif=False) == (
        "the tier link is failed in docker",
        "the tier built is not run in docker",
        "the tier collective is not run in docker",
    )
    assert gate.unproven(record(judged), (Tier.STATIC,), CHECKS, sif=False) == (
        "the tier link failed in docker",
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "not built"),
        (replace(record(verdict()), image=None), "not built"),
        (record(), "not probed in docker"),
        (record(verdict("sif")), "not probed in docker"),
        (replace(record(verdict()), tools=()), "judged by other checks"),
        (replace(record(verdict()), sif=None), "no .sif"),
        (record(verdict()), "not probed in sif"),
    ],
)
def test_what_is_missing_is_said(row: Record | None, reason: str) -> None:
    said = gate.unproven(row, CPU, CHECKS, sif=True)
    assert reason in said[0]


# -- the SIF of its definition file ----------------------------------------------------------------


def test_a_definition_file_says_something_against_a_row_where_it_was_proven_and_failed() -> None:
    assert gate.against(None) == gate.against(of_definition()) == gate.against(unbuilt_definition()) == ()
    assert gate.against(failed_definition()) == ("the tier link failed in def",)
    assert gate.against(of_definition(UNEXPLAINED, UNEXPLAINED)) == (
        "2 unexplained differences between the image and the SIF of its definition file",
    )


class NoRegistry:
    """What the gate looks up first is among the records."""


def asked(folder: Path, definition: Record | None, *, sif: bool) -> tuple[tuple[str, ...], list[str]]:
    """Why a proven row is refused, and what is said; its SIF of the definition file is this one."""
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=folder)
    row = plan(project, cells(project, ["cuda12-torch"])).rows[0]
    names: dict[str, Any] = {"row": row.stack.id, "key": row.recipe.key}
    tools = (("checks", checks_digest(ROOT)),)
    records.write(replace(record(verdict(), verdict("sif")), tools=tools, **names), project.records)
    if definition:
        records.write(replace(definition, **names), project.records)
    said: list[str] = []
    by = Publisher(
        project=project, scheme=Publish(), registry=cast("Registry", NoRegistry()), base="base",
        docker=cast("Docker", None), runner=Runner(), skopeo=cast("Any", None), say=said.append, today=DAY,
        allow_less=(row.stack.id,), sif=sif,
    )  # fmt: skip
    refusals(by, row)
    try:
        foretell(by, [row])
    except GateError as error:
        return (error.cause,), said
    return refusals(by, row), said


@pytest.mark.parametrize("sif", [False, True])
def test_a_good_one_and_none_at_all_change_nothing(sif: bool, tmp_path: Path) -> None:
    assert asked(tmp_path / "a", None, sif=sif) == ((), [])
    assert asked(tmp_path / "b", of_definition(), sif=sif) == ((), [])


def test_one_that_failed_refuses_the_sif_and_is_said_without_it(tmp_path: Path) -> None:
    warning = "warning: cuda12-torch: the build from its definition file failed: checks failed: 1"
    assert asked(tmp_path / "a", failed_definition(), sif=False) == ((), [warning])
    refused, said = asked(tmp_path / "b", failed_definition(), sif=True)
    assert refused == ("cuda12-torch: the tier link failed in def",)
    assert said == [warning]


def test_one_that_was_not_built_is_said_and_refuses_nothing(tmp_path: Path) -> None:
    for sif in (False, True):
        refused, (warning,) = asked(tmp_path / str(sif), unbuilt_definition(), sif=sif)
        assert refused == ()
        assert warning.endswith("failed: E: no such package")


# -- less than yesterday ---------------------------------------------------------------------------


def test_the_same_and_more_are_not_less() -> None:
    row = record(verdict())
    assert gate.less(row, before(row), sif=False) == ()
    richer = record(verdict(), mxnet="1.9.1", gpu_arch="8.0 9.0 10.0", torch="2.8.0")
    assert gate.less(richer, before(row), sif=True) == ()


def test_everything_that_is_gone_is_named() -> None:
    row = record(verdict(gpu=Outcome.NOT_RUN), tensorflow="", gpu_arch="9.0")
    assert gate.less(row, before(record(verdict()), sif=True), sif=False) == (
        "tensorflow 2.18.0", "GPU architecture 8.0", "the tier gpu passed in docker", "a .sif",
    )  # fmt: skip


def test_tiers_of_the_sif_count_where_it_is_published() -> None:
    yesterday = before(record(verdict(), verdict("sif")))
    today = record(verdict(), verdict("sif", gpu=Outcome.NOT_RUN))
    assert gate.less(today, yesterday, sif=True) == ("the tier gpu passed in sif",)
    assert gate.less(today, yesterday, sif=False) == ()


def test_tiers_that_nobody_knows_are_not_compared() -> None:
    yesterday = replace(before(record(verdict())), passed=None)
    assert gate.less(record(verdict(gpu=Outcome.NOT_RUN)), yesterday, sif=False) == ()


@pytest.mark.parametrize("label", ["", "no json", "[1]", "{"])
def test_an_image_that_is_none_of_ours_declares_nothing(label: str) -> None:
    assert gate.declared({"org.stackwright.stack": label}) == {}


def test_an_image_that_was_built_from_a_row_s_image_does_not_declare_what_it_inherits() -> None:
    own = [
        {"created_by": line}
        for line in ("ADD x", "LABEL org.stackwright.row=row", "USER a", "WORKDIR /", "ENTRYPOINT x", "CMD y")
    ]
    labels = {"org.stackwright.stack": '{"torch": "2.6.0"}'}
    described = {"config": {"Labels": labels}, "history": own}
    assert gate.own_labels(described) == labels
    assert gate.own_labels({**described, "history": [*own, {"created_by": "RUN pip"}]}) == {}
    damaged: tuple[object, ...] = (None, [], {"config": []}, {"config": {"Labels": [1]}})
    for broken in damaged:
        assert gate.own_labels(broken) == {}
    assert gate.own_labels({**described, "history": ["x", None]}) == labels


# -- tags ------------------------------------------------------------------------------------------


def test_templates_are_filled() -> None:
    names = tags.named(Publish(), "hpc/images", "row", KEY, DAY)
    assert names == tags.Named(
        repository="hpc/images", fixed=("row-20260102", "row-abcdef012345"), moving=("row",)
    )
    scheme = Publish(repository="{row}", tags=("{key}",), moving=("latest", "{date}"))
    assert tags.named(scheme, "hpc", "row", KEY, DAY, sif=True) == tags.Named(
        repository="hpc/row", fixed=(f"{KEY}.sif",), moving=("latest.sif", "20260102.sif")
    )


@pytest.mark.parametrize(
    ("row", "scheme", "cause"),
    [
        (".hidden", Publish(), "cannot be a tag"),
        ("torch2.0+cu118", Publish(), "cannot be a tag"),
        ("x" * 120, Publish(), "cannot be a tag"),
        ("a..b", Publish(repository="{row}"), "cannot be the name of a repository"),
        ("a", Publish(repository="../{row}"), "cannot be the name of a repository"),
    ],
)
def test_what_no_registry_takes_is_refused(row: str, scheme: Publish, cause: str) -> None:
    with pytest.raises(MatrixError, match=cause):
        tags.named(scheme, "hpc", row, KEY, DAY)


@given(
    st.from_regex(publishing.TEMPLATES["moving"].pattern, fullmatch=True), st.sampled_from(["row", "a.b_c-1"])
)
def test_whatever_a_template_comes_to_is_a_tag_or_an_error(template: str, row: str) -> None:
    try:
        names = tags.named(Publish(moving=(template,)), "hpc", row, KEY, DAY)
    except MatrixError:
        return
    assert re.fullmatch(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}", names.moving[0], re.ASCII)


def test_two_rows_never_share_a_tag() -> None:
    scheme = Publish(moving=("latest",))
    named = [(row, tags.named(scheme, "hpc", row, KEY, DAY)) for row in ("a", "b")]
    with pytest.raises(MatrixError, match="a and b would both be hpc:latest"):
        tags.refuse_shared(named)
    tags.refuse_shared(named[:1] * 2)


def test_a_tag_for_all_rows_needs_one_repository_and_a_name_of_its_own() -> None:
    named = [("a", tags.named(Publish(), "hpc", "a", KEY, DAY))]
    tags.refuse_indexes(Publish(set="all"), named)
    with pytest.raises(MatrixError, match="'set' needs one repository"):
        tags.refuse_indexes(Publish(set="all", repository="{row}"), named)
    with pytest.raises(MatrixError, match="'a' is a tag of a, and of all rows"):
        tags.refuse_indexes(Publish(set="a"), named)


def of_platforms(tag: str, *rows: str) -> PlatformTag:
    return PlatformTag(tag=tag, rows=rows, mark=Mark(line=1, column=1))


@pytest.mark.parametrize(
    ("scheme", "cause"),
    [
        (Publish(platforms=(of_platforms("both", "a", "b"),), repository="{row}"), "'platforms' needs one"),
        (Publish(platforms=(of_platforms("a", "a", "b"),)), "'a' is a tag of a, and of the platforms of a"),
        (
            Publish(platforms=(of_platforms("all", "a", "b"),), set="all"),
            "'all' is a tag of all rows, and of the platforms of a",
        ),
        (
            Publish(platforms=(of_platforms("both", "a", "b"), of_platforms("both", "c", "d"))),
            "'both' is a tag of the platforms of a, and of the platforms of c",
        ),
    ],
)
def test_a_tag_for_several_platforms_needs_one_repository_and_a_name_of_its_own(
    scheme: Publish, cause: str
) -> None:
    named = [("a", tags.named(Publish(), "hpc", "a", KEY, DAY))]
    tags.refuse_indexes(Publish(platforms=(of_platforms("both", "a", "b"),), set="all"), named)
    with pytest.raises(MatrixError, match=cause):
        tags.refuse_indexes(scheme, named)


# -- the matrix ------------------------------------------------------------------------------------

ROW = (
    'include: [{id: a, provider: debian, os: debian-13, python: "3.13", horovod: "0.28.1",'
    ' mpi: {flavour: openmpi, version: "5.0"}, gpu_arch: ["8.0"]}]\n'
)


def test_the_matrix_says_it() -> None:
    assert interpret(ROW, "m").publish == Publish()
    text = ROW + 'publish: {require: [static], moving: ["{row}-latest"], repository: "{row}", tags: []}'
    assert interpret(text, "m").publish == Publish(
        require=("static",), moving=("{row}-latest",), repository="{row}", tags=()
    )


@pytest.mark.parametrize(
    ("publish", "cause", "hint"),
    [
        ("{requires: []}", "unknown key 'requires' in 'publish'", "did you mean 'require'?"),
        ("{require: [statik]}", "'statik' is not a value for 'require'", "did you mean 'static'?"),
        ("{require: []}", "'require' is an empty list", "at least one"),
        ("{moving: []}", "'moving' is an empty list", "at least one"),
        ('{moving: ["{rows}"]}', "is not a value for 'moving'", 'write it as in "{row}"'),
        ('{tags: ["a b"]}', "is not a value for 'tags'", 'write it as in "{row}-{date}"'),
        ('{tags: ["$(id)"]}', "is not a value for 'tags'", ""),
        ('{tags: ["{row}\\n"]}', "is not a value for 'tags'", ""),
        ('{set: "a b"}', "is not a value for 'set'", 'write it as in "all"'),
        ('{repository: "Upper"}', "is not a value for 'repository'", ""),
        ("{tags: latest}", "'tags' must be a list", 'write tags: ["{row}-{date}"]'),
    ],
)
def test_what_is_wrong_in_it_is_said(publish: str, cause: str, hint: str) -> None:
    with pytest.raises(MatrixError) as caught:
        interpret(ROW + f"publish: {publish}", "m")
    assert cause in caught.value.cause and hint in caught.value.hint
    assert caught.value.place.startswith("m:2:")
