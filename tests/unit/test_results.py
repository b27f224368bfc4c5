"""The records in docs/results are whole, of rows that are in the matrix, and of images that passed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rows import ROOT

from stackwright.core.config.expand import expand
from stackwright.core.config.load import load
from stackwright.core.model.record import Status
from stackwright.core.model.row import Outcome, Tier
from stackwright.core.model.target import platform_of
from stackwright.records import files as record
from stackwright.records.report.sharing import sentence, sharing

DEFINITIONS = sorted((ROOT / "docs" / "results").glob("*/definition/*.json"))
FILES = sorted((ROOT / "docs" / "results").glob("*/*.json"))
EMULATED = sorted((ROOT / "docs" / "results").glob("*/emulated/*.json"))
OF_FABRICS = sorted((ROOT / "docs" / "results").glob("*/fabrics/*.json"))
ROWS = {cell.id for cell in expand(load(ROOT / "matrix.yaml"))}
OF_ARM = {cell.id for cell in expand(load(ROOT / "matrix.arm.yaml"))}
WITH_OFI = {cell.id for cell in expand(load(ROOT / "matrix.fabrics.yaml"))}


@pytest.mark.parametrize(
    "path", FILES + EMULATED + OF_FABRICS, ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_a_result_is_a_complete_record(path: Path) -> None:
    found = record.load(path)
    assert found.row == path.stem
    assert found.row in {"emulated": OF_ARM, "fabrics": WITH_OFI}.get(path.parent.name, ROWS)
    assert found.status is Status.COMPLETE
    for world in ("docker", "sif"):
        verdict = found.verdict(world)
        assert verdict
        tiers = {tier: verdict.tier(tier) for tier in Tier if tier is not Tier.GPU}
        assert set(tiers.values()) == {Outcome.PASSED}


@pytest.mark.parametrize("path", OF_FABRICS, ids=lambda path: path.stem)
def test_data_went_through_the_plugin(path: Path) -> None:
    found = record.load(path)
    assert dict(found.declared)["fabric"] == dict(found.found)["fabric"] == "verbs ofi"
    for world in ("docker", "sif"):
        verdict = found.verdict(world)
        told = {check.id: check.detail for check in verdict.checks} if verdict else {}
        assert told["link.ofi-data"].startswith("1048576 of 1048576 bytes")


def test_the_programs_that_measure_are_those_of_the_row() -> None:
    found = record.load(next(path for path in OF_FABRICS if path.stem == "cuda12-bench"))
    assert dict(found.declared)["nccl-tests"] == dict(found.found)["nccl-tests"] == "2.19.6"
    for world in ("docker", "sif"):
        verdict = found.verdict(world)
        told = {check.id: check.detail for check in verdict.checks} if verdict else {}
        assert told["link.nccl-tests-gpu-arch"] == "7.0, 8.0, 9.0"
        nccl, mpi = told["link.nccl-tests-libraries"].split(", ")
        assert nccl.endswith("/site-packages/nvidia/nccl/lib/libnccl.so.2") and "/libmpi.so.40." in mpi


@pytest.mark.parametrize("path", EMULATED, ids=lambda path: path.stem)
def test_what_was_emulated_is_said(path: Path) -> None:
    found = record.load(path)
    assert platform_of(dict(found.declared)["platform"]).machine != found.host.machine
    assert path.read_text().count("emulated by qemu-aarch64") > 50
    said = re.search(rf"^\| `{path.stem}` .*\| ([^|]+) \|$", (ROOT / "README.md").read_text(), re.M)
    assert said and said[1] == "every CPU tier, in an emulator"


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_a_sif_of_a_definition_file_passed_and_is_as_the_image(path: Path) -> None:
    found = record.load(path)
    assert (found.row, found.status) == (path.stem, Status.COMPLETE)
    verdict = found.verdict("def")
    assert verdict
    tiers = {tier: verdict.tier(tier) for tier in Tier if tier is not Tier.GPU}
    assert set(tiers.values()) == {Outcome.PASSED}
    assert found.definition
    assert found.definition.differences is not None
    assert found.definition.unexplained == ()


def test_every_row_has_a_result_or_the_readme_says_that_it_is_not_built_yet() -> None:
    said = dict(re.findall(r"^\| `([\w-]+)` \| .* \| ([^|]+) \|$", (ROOT / "README.md").read_text(), re.M))
    built = {path.stem for path in FILES}
    assert {row: said[row] for row in ROWS} == {
        row: "every CPU tier" if row in built else "not yet" for row in ROWS
    }


@pytest.mark.parametrize("day", sorted({path.parent for path in FILES}), ids=lambda day: day.name)
def test_how_the_rows_of_a_day_shared_steps_is_what_their_records_say(day: Path) -> None:
    line = sentence(sharing(record.load(path) for path in FILES if path.parent == day))
    assert line in (ROOT / "docs" / "results" / "README.md").read_text()


def test_the_page_of_costs_says_what_the_newest_records_say() -> None:
    newest = {path.stem: record.load(path) for path in FILES}
    lines = []
    for row, found in newest.items():
        assert found.image
        assert found.sif
        took: dict[str, float] = {timing.phase: timing.seconds for timing in found.timings}
        phases = (f"{took[phase]:.0f} s" for phase in ("build", "probe docker", "sif", "probe sif"))
        sizes = (f"{found.image.bytes / 1e9:.1f} GB", f"{found.sif.bytes / 1e9:.1f} GB")
        lines.append(" | ".join([f"| `{row}`", *sizes, *phases]) + " |")
    said = re.findall(r"^\| `[\w-]+` \| .*\|$", (ROOT / "docs" / "cost.md").read_text(), re.MULTILINE)
    assert sorted(said) == sorted(lines), "write into docs/cost.md:\n" + "\n".join(lines)
