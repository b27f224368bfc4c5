"""Rows for another platform: what there is for it, what is locked, rendered and found, and the emulator."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from image_facts import docker_facts
from image_facts import stack as a_row
from rows import CELL, LOCK, ROOT, SERIES, SOURCES, cell
from shipped_rows import ARM, PLAN, PROJECTS

from stackwright.core.checks.observed import found
from stackwright.core.checks.tables.declared import operating_system
from stackwright.core.config.expand import expand
from stackwright.core.config.load import interpret
from stackwright.core.config.setting import question
from stackwright.core.errors import MatrixError, SiteError
from stackwright.core.facts import distributions
from stackwright.core.model.labels import ROW, STACK
from stackwright.core.model.row import Check, Outcome, Rejection, Tier, Verdict, World
from stackwright.core.model.target import AMD64, ARM64, PLATFORMS
from stackwright.core.render import definition, dockerfile, instructions, labelled, layers
from stackwright.core.resolve import lockfile, resolve
from stackwright.core.resolve.bases import reference
from stackwright.core.resolve.explain import Feasibility, explain
from stackwright.core.resolve.requirements import platform, request
from stackwright.engines import emulation
from stackwright.host.project import Planned, cells
from stackwright.probe.run import STACK as STACK_IN_JSON

ON_ARM = {"platform": "linux/arm64", "cuda": "13.2", "gcc": "14", "gpu_arch": ("9.0",), "torch": "2.15.0"}
"""What makes of the row of the tests one that works on Arm."""
(ROW_ON_ARM,) = ARM.rows
CELLS = cells(PROJECTS[0])
MATRIX = """
defaults: {provider: debian, os: debian-13, python: "3.13", horovod: "0.28.1", torch: "2.15.0",
  mpi: {flavour: openmpi, version: "5.0"}, gpu_arch: ["9.0"]}
axes:
  platform: [linux/amd64, linux/arm64]
"""


# -- rows and rules ---------------------------------------------------------------------------------


def test_an_axis_makes_a_row_for_each() -> None:
    rows = expand(interpret(MATRIX, "m"))
    assert [(row.id, row.platform) for row in rows] == [("amd64", "linux/amd64"), ("arm64", "linux/arm64")]


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_row_can_be_asked_about_on_another_platform(name: str) -> None:
    assert question(CELL, (f"platform={name}",)).cell == cell(platform=name)
    assert question(cell(platform=name), ("platform=",)).cell == CELL


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("linux/ppc64le", "CUDA for"),
        ("arm64", "write linux/arm64"),
        ("aarch64", "write linux/arm64"),
        ("linux/arm64/v8", "write linux/arm64"),
        ("x86_64", "write linux/amd64"),
        ("windows/amd64", "images are of Linux"),
        ("linux/arn64", "did you mean 'linux/arm64'"),
    ],
)
def test_a_platform_that_no_row_can_have_gets_a_reason(written: str, message: str) -> None:
    with pytest.raises(MatrixError) as raised:
        interpret(MATRIX.replace("linux/amd64", written), "m")
    assert message in f"{raised.value.cause} {raised.value.hint}"


@pytest.mark.parametrize(
    ("values", "rule", "reason"),
    [
        ({"torch": "2.8.0"}, "torch-platform", "for the CPU alone; those with CUDA begin with 2.11"),
        ({"torch": "1.7.1"}, "torch-platform", "no wheel of torch 1.7.1 for linux/arm64"),
        ({"torch": None, "tensorflow": "2.20.0"}, "tensorflow-platform", "for the CPU alone; none there"),
        ({"mxnet": "1.9.1"}, "mxnet-platform", "no wheel of mxnet 1.9.1 for linux/arm64"),
        ({"provider": "nvidia", "os": "ubuntu-24.04", "python": "3.12"}, "platform-base", "Debian's mirror"),
        ({"mpi4py": "4.1.2"}, "compile-platform", "of x86-64 alone"),
        ({"gpu_arch": ("7.5",)}, "torch-arch", "no code that runs on a GPU of 7.5"),
    ],
)
def test_what_there_is_not_for_arm_is_refused(values: dict[str, object], rule: str, reason: str) -> None:
    rejection = resolve.check(cell(**{**ON_ARM, **values}))
    assert rejection
    assert (rejection.rule, reason in rejection.reason) == (rule, True), rejection.reason
    assert "linux/amd64" not in rejection.nearest, "the nodes decide on the platform"
    assert not any(setting.startswith("platform=") for setting in rejection.settings)


@pytest.mark.parametrize(
    "values", [{}, {"torch": "2.11.0", "cuda": "13.0"}, {"jax": "0.12.0.1", "horovod": None}]
)
def test_what_there_is_for_arm_is_accepted(values: dict[str, object]) -> None:
    assert resolve.check(cell(**{**ON_ARM, **values})) is None


@pytest.mark.parametrize("row", PLAN.rows, ids=lambda row: row.stack.id)
def test_every_rule_answers_about_each_row_on_arm(row: Planned) -> None:
    (of_row,) = [each for each in CELLS if each.id == row.stack.id]
    asked = question(of_row, (f"platform={ARM64.name}",))
    refused = explain(of_row, asked, None).verdict is not Feasibility.CAN_WORK
    assert refused is (row.stack.id not in ("cuda13-torch", "cuda13-jax"))


def test_the_usual_platform_is_the_same_named_or_not() -> None:
    assert request(cell(platform=AMD64.name)) == request(CELL) == LOCK.request
    found = resolve.resolve(cell(platform=AMD64.name), LOCK, SERIES)
    assert found == resolve.resolve(CELL, LOCK, SERIES)


def test_a_compiler_in_wheels_is_there_for_each_platform() -> None:
    assert set(distributions.NVCC_WHEELS) == {f"releases{each.suffix}" for each in PLATFORMS.values()}
    assert "13.2" in distributions.nvcc_wheels(ARM64.name)


# -- locks ------------------------------------------------------------------------------------------


def test_a_lock_says_its_platform() -> None:
    lock = ROW_ON_ARM.stack.lock
    assert lock.platform is ARM64
    assert platform("debian-13", ARM64.name) == "aarch64-manylinux_2_40"
    assert re.search(r'"platform": "linux/arm64"', lock.text)
    assert LOCK.platform is AMD64
    assert '"platform"' not in LOCK.text


def test_a_lock_of_another_platform_is_refused() -> None:
    rejection = resolve.resolve(CELL, replace(LOCK, platform=ARM64), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == "lock-platform"


def test_a_lock_of_an_unknown_platform_is_none() -> None:
    text = ROW_ON_ARM.stack.lock.text.replace("linux/arm64", "linux/mips")
    with pytest.raises(Exception, match="not a lock"):
        lockfile.parse(text, "x")


# -- rendering --------------------------------------------------------------------------------------


def test_a_row_for_arm_is_rendered_for_arm() -> None:
    recipe = ROW_ON_ARM.recipe
    text = recipe.text("Dockerfile")
    assert "ARG PLATFORM=linux/arm64\nFROM --platform=${PLATFORM} ${BASE_IMAGE} AS base\n" in text
    assert 'ARCH_FLAGS="-march=armv8-a"' in text
    assert "-mavx" not in text
    assert json.loads(recipe.text("row.json"))["platform"] == "linux/arm64"
    shared = re.findall(r"type=cache,id=(\S+?),", text)
    assert {cache for cache in shared if cache != "pip"} == {
        "apt-archives-debian-13-arm64", "apt-lists-debian-13-arm64", "horovod-debian-13-arm64",
    }  # fmt: skip
    assert json.loads(dockerfile.bake([recipe]))["target"]["cuda13-arm"]["platforms"] == ["linux/arm64"]
    assert "-march=armv8-a" in definition.render_definition(ROW_ON_ARM.stack, SOURCES).text("cuda13-arm.def")


def test_a_sif_has_the_platform_of_its_image() -> None:
    """A record keeps what the last probing found, and an image is signed only if the image's facts agree."""
    row = replace(a_row(), platform=ARM64)
    image = {"image": {"Os": "linux", "Architecture": "arm64"}}
    sif = {"system": {"machine": "aarch64"}}
    assert dict(found(row, image)) == {"platform": "linux/arm64"} == dict(found(row, sif))
    assert dict(found(row, {"system": {"machine": "riscv64"}})) == {}
    assert dict(found(a_row(), image)) == {} == dict(found(a_row(), sif))


def test_other_rows_name_no_platform() -> None:
    for row in PLAN.rows:
        assert "platform" not in json.loads(row.recipe.text("row.json"))
        assert "PLATFORM" not in row.recipe.text("Dockerfile")
    assert "platforms" not in dockerfile.bake(row.recipe for row in PLAN.rows)


def test_steps_and_layers_of_a_row_for_arm_are_found() -> None:
    def shape(row: Planned) -> tuple[object, ...]:
        steps = [(step.stage, step.number) for step in instructions.instructions(row.recipe)]
        return steps, layers.purposes(row.recipe, ("horovod",))

    (beside,) = [row for row in PLAN.rows if row.stack.id == "cuda13-torch"]
    assert shape(ROW_ON_ARM) == shape(beside)


def test_a_base_is_one_of_a_platform() -> None:
    assert reference("debian-13", "D") == reference("debian-13", "D", AMD64) == "stackwright/base:debian-13-D"
    assert reference("debian-13", "D", ARM64) == "stackwright/base:debian-13-arm64-D"


def test_a_label_says_the_platform() -> None:
    stack = ROW_ON_ARM.stack
    said = dockerfile.declared(stack)
    labels = {ROW: stack.id, STACK: json.dumps(said)}
    assert labelled.stack_of(labels, stack.lock).platform is ARM64
    with pytest.raises(ValueError, match="platform"):
        labelled.stack_of({**labels, STACK: json.dumps(said | {"platform": "linux/mips"})}, stack.lock)


def test_the_tests_in_an_image_are_handed_the_row_with_its_platform() -> None:
    for row in (ROW_ON_ARM, *PLAN.rows):
        handed = STACK_IN_JSON.validate_json(STACK_IN_JSON.dump_json(row.stack))
        assert dockerfile.declared(handed) == dockerfile.declared(row.stack), row.stack.id


# -- images and hosts -------------------------------------------------------------------------------


def test_an_image_of_another_platform_is_found() -> None:
    stack = a_row()
    plain = docker_facts(stack)
    facts = {**plain, "image": {**plain["image"], "Os": "linux", "Architecture": "arm64"}}
    (problem,) = operating_system(stack, facts).problems
    assert problem == "the row is for linux/amd64, the image for arm64"
    of_arm = replace(stack, platform=ARM64)
    assert operating_system(of_arm, facts).problems == ()
    assert dict(found(of_arm, facts))["platform"] == "linux/arm64"
    assert "platform" not in dict(found(stack, facts))


def test_a_check_that_ran_emulated_says_so() -> None:
    def check(tier: Tier, outcome: Outcome, detail: str) -> Check:
        return Check(id="x", tier=tier, why="", outcome=outcome, detail=detail)

    verdict = Verdict(
        world=World.DOCKER,
        checks=(
            check(Tier.STATIC, Outcome.PASSED, "1"), check(Tier.LINK, Outcome.PASSED, "2"),
            check(Tier.BUILT, Outcome.FAILED, ""), check(Tier.GPU, Outcome.NOT_RUN, "no GPU"),
        ),
    )  # fmt: skip
    assert verdict.emulated("") == verdict
    said = [each.detail for each in verdict.emulated("by qemu on x").checks]
    assert said == ["1", "2; emulated by qemu on x", "emulated by qemu on x", "no GPU"]


HANDLER = """enabled
interpreter /usr/bin/qemu-aarch64-static
flags: OCF
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""


@pytest.mark.parametrize(
    ("text", "emulated"),
    [
        (HANDLER, True),
        (HANDLER.replace("enabled", "disabled"), False),
        (HANDLER.replace("flags: OCF", "flags: OC"), False),
        (HANDLER.replace("b700", "2800"), False),
        ("enabled\n", False),
    ],
)
def test_an_emulator_that_containers_can_start_is_found(text: str, emulated: bool, tmp_path: Path) -> None:
    (tmp_path / "status").write_text("enabled\n")
    (tmp_path / "qemu").write_text(text)
    assert bool(emulation.emulator(ARM64, tmp_path)) is emulated


@pytest.mark.parametrize(
    ("said", "old"),
    [
        ("qemu-aarch64 version 7.2.22 (Debian 1:7.2+dfsg-7)", True),
        ("qemu-aarch64 version 10.0.13 (Debian 1:10.0.13+ds-0)", False),
        ("qemu-aarch64 version 8.2.2", False),
        ("", False),
    ],
)
def test_an_emulator_that_crashes_in_programs_is_refused(said: str, old: bool, tmp_path: Path) -> None:
    """QEMU is called by a link, by whose name it would start what follows."""
    (tmp_path / "bin").mkdir()
    program, link = tmp_path / "bin" / "qemu", tmp_path / "bin" / "binfmt-P"
    program.write_text(f'#!/bin/sh\n[ "$0" = {program} ] && [ "$1" = --version ] && echo "{said}"\n')
    program.chmod(0o755)
    link.symlink_to(program)
    assert emulation.is_old(str(link)) is old
    assert not emulation.is_old(str(tmp_path / "none"))
    (other,) = [each for each in PLATFORMS.values() if not emulation.is_native(each)]
    head = f"{other.elf:02x}00"
    handlers = tmp_path / "handlers"
    handlers.mkdir()
    (handlers / "q").write_text(
        HANDLER.replace("b700", head).replace("/usr/bin/qemu-aarch64-static", str(link))
    )
    if old:
        with pytest.raises(SiteError, match="older than QEMU 8") as raised:
            emulation.how(other, handlers)
        assert raised.value.hint.startswith("scripts/emulation.sh")
    else:
        assert emulation.how(other, handlers).startswith("by qemu on ")


def test_a_host_without_an_emulator_says_what_to_do(tmp_path: Path) -> None:
    (native,) = [each for each in PLATFORMS.values() if emulation.is_native(each)]
    (other,) = [each for each in PLATFORMS.values() if each is not native]
    assert emulation.how(native, tmp_path) == ""
    assert emulation.words(native) == ()
    assert emulation.words(other) == ("--platform", other.name)
    with pytest.raises(SiteError) as raised:
        emulation.how(other, tmp_path / "none")
    assert raised.value.hint.startswith("scripts/emulation.sh")
    assert (ROOT / emulation.SCRIPT).stat().st_mode & 0o100
