"""A SIF built from its definition file and the Docker image of the same row: two worlds with the same inside.

Judged anew from the facts that both left in out/. A row whose facts are not there is skipped:
`./build.py probe ROW` and `./build.py sif ROW --from def` leave them (half an hour and 30 GB of disk).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stackwright.build.job import FACTS
from stackwright.core.checks.compare import differences
from stackwright.core.checks.judge import verify
from stackwright.core.model.record import Record
from stackwright.core.model.row import Outcome, Tier
from stackwright.core.render.definition import render_definition
from stackwright.host.project import Planned, Project, cells, plan, sources
from stackwright.probe.run import gather
from stackwright.records import files as record

ROOT = Path(__file__).parents[2]
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
ROWS = plan(PROJECT, cells(PROJECT)).rows
FOUND = {
    known.row: known for known in record.newest(record.load_all(PROJECT.records, definition=True).records)
}
BUILT = [row for row in ROWS if (kept := FOUND.get(row.stack.id)) and kept.sif]
if not BUILT:
    pytest.skip(
        "no SIF of a definition file was built: ./build.py sif ROW --from def", allow_module_level=True
    )


@pytest.fixture(params=BUILT, ids=lambda row: row.stack.id)
def row(request: pytest.FixtureRequest) -> Planned:
    found: Planned = request.param
    return found


@pytest.fixture
def known(row: Planned) -> Record:
    name = row.stack.id
    found = FOUND[name]
    assert found.definition
    if found.definition.key != render_definition(row.stack, sources(PROJECT)).key:
        pytest.skip(
            f"the definition file has changed since its SIF was built: ./build.py sif {name} --from def"
        )
    if found.key != row.recipe.key or not (PROJECT.folder(row.recipe) / "facts" / "docker").is_dir():
        pytest.skip(f"the facts of the Docker image are not there: ./build.py probe {name}")
    return found


def test_what_differs_is_explained(row: Planned, known: Record) -> None:
    image, sif = (gather(PROJECT.folder(row.recipe) / "facts" / world) for world in ("docker", FACTS))
    assert len(image["system"]["distribution_packages"]) > 100
    assert [str(found) for found in differences(image, sif) if not found.why] == []


def test_every_tier_of_the_cpu_passes_by_todays_checks(row: Planned, known: Record) -> None:
    facts = gather(PROJECT.folder(row.recipe) / "facts" / FACTS)
    verdict = verify(row.stack, facts, "sif", {Tier.GPU: "not asked here"})
    assert verdict.failed == ()
    not_run = {check.id for check in verdict.checks if check.outcome is Outcome.NOT_RUN}
    assert {name for name in not_run if not name.startswith(("gpu.", "ledger."))} == set()
    assert {verdict.tier(tier) for tier in (Tier.LINK, Tier.BUILT, Tier.COLLECTIVE)} == {Outcome.PASSED}


def test_the_file_is_there_under_its_name(known: Record) -> None:
    assert known.sif
    assert known.sif.path.endswith(".def.sif")
    assert (ROOT / known.sif.path).stat().st_size == known.sif.bytes
