"""What `plan` says that a run would do, from the records alone."""

from pathlib import Path
from typing import Any

import pytest
from report_samples import built, verdict
from rows import ROOT

from stackwright.core.model.record import Phase, Status
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.probe.digest import checks_digest
from stackwright.records import files as record
from stackwright.records.standing import standing


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)


@pytest.fixture
def row(project: Project) -> Planned:
    return plan(project, cells(project, ("cuda12-torch",))).rows[0]


def recorded(project: Project, row: Planned, **changes: Any) -> str:
    today = {"tools": (("checks", checks_digest(ROOT)),), **changes}
    record.write(built(**{"row": row.stack.id, "key": row.recipe.key, **today}), project.records)
    return standing(project, row, checks_digest(project.root))


def test_a_row_without_a_record_is_built(project: Project, row: Planned) -> None:
    assert standing(project, row, checks_digest(project.root)) == "build"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing: unchanged"),
        ({"tools": (("checks", "0" * 12),)}, "probe again: the checks changed"),
        ({"verdicts": (verdict("docker"),)}, "continue after the build"),
        ({"status": Status.INTERRUPTED, "phase": Phase.SIF}, "continue: interrupted in sif"),
        ({"key": "0" * 64}, "build"),
        ({"image": None}, "build"),
    ],
)
def test_what_a_run_would_do(project: Project, row: Planned, changes: dict[str, Any], said: str) -> None:
    assert recorded(project, row, **changes) == said
