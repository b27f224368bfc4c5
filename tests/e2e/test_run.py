"""What `make run` left behind: read as a user would, from the record, the file and the page."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from stackwright.core.model.record import Phase, Record, Status
from stackwright.core.model.row import Outcome, Tier
from stackwright.host.project import Project, cells, default_rows, plan
from stackwright.records import files as record

ROOT = Path(__file__).parents[2]
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
PLAN = plan(PROJECT, cells(PROJECT, default_rows(PROJECT)))
CPU_TIERS = (Tier.STATIC, Tier.LINK, Tier.BUILT, Tier.COLLECTIVE)
LARGEST = 6_500_000_000
"""Bytes of a runtime image; a single-stage build of the same row is 12 GB."""


@pytest.fixture(params=PLAN.rows, ids=lambda row: row.stack.id)
def made(request: pytest.FixtureRequest) -> Record:
    row = request.param
    found = record.latest(PROJECT.records, row.stack.id, row.recipe.key)
    assert found, f"no record of {row.stack.id}: run `make run` first"
    return found


def test_it_is_complete(made: Record) -> None:
    assert made.status is Status.COMPLETE
    assert {timing.phase for timing in made.timings} >= {Phase.BUILD, Phase.SIF}


@pytest.mark.parametrize("world", ["docker", "sif"])
@pytest.mark.parametrize("tier", CPU_TIERS)
def test_every_cpu_tier_passed(made: Record, world: str, tier: Tier) -> None:
    verdict = made.verdict(world)
    assert verdict
    assert verdict.tier(tier) is Outcome.PASSED


def test_a_gpu_tier_that_did_not_run_says_why(made: Record) -> None:
    for verdict in made.verdicts:
        for check in verdict.checks:
            if check.tier is Tier.GPU:
                assert check.outcome is not Outcome.FAILED
                assert check.detail


def test_what_was_found_is_what_was_declared(made: Record) -> None:
    found = dict(made.found)
    compared = [name for name, _ in made.declared if name in found]
    assert {"torch", "horovod", "nccl", "cudnn", "cuda_runtime", "python", "gcc"} <= set(compared)
    assert {name: found[name] for name in compared} == {name: dict(made.declared)[name] for name in compared}


def test_the_image_is_small(made: Record) -> None:
    assert made.image
    assert made.image.bytes < LARGEST
    explained = sum(component.bytes for component in made.components)
    assert explained > 0.9 * made.image.bytes


def test_the_sif_is_the_one_that_was_recorded(made: Record) -> None:
    assert made.sif
    path = PROJECT.out.parent / made.sif.path
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == made.sif.sha256


def test_the_record_s_file_keeps_to_its_schema(made: Record) -> None:
    schema = json.loads((ROOT / "docs" / "record.schema.json").read_text())
    jsonschema.validate(json.loads(record.path_of(made, PROJECT.records).read_text()), schema)


def test_the_page_shows_the_row(made: Record) -> None:
    assert made.row in (PROJECT.out / "report" / "index.html").read_text()


def test_a_second_run_does_nothing(made: Record) -> None:
    before = {path: path.read_bytes() for path in PROJECT.records.rglob("*.json")}
    done = subprocess.run([ROOT / "build.py", "run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in PROJECT.records.rglob("*.json")} == before
    assert "passed" in done.stdout
    assert "started" not in done.stderr


@pytest.mark.parametrize("command", ["plan", "render"])
def test_it_needs_no_network(command: str, tmp_path: Path) -> None:
    """In a network namespace of its own, where not even the loopback device is up."""
    argv = ["unshare", "--net", str(ROOT / "build.py"), "--out", str(tmp_path), command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
