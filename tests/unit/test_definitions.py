"""What was built from a definition file is not built again while it is good, but compared anew."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from image_facts import docker_facts
from report_samples import native as sample
from report_samples import verdict
from rows import ROOT

from stackwright.build.sif import definition_rows
from stackwright.build.sif.definition_rows import FACTS, Means
from stackwright.core.errors import BuildError, StackwrightError
from stackwright.core.model.compression import compression
from stackwright.core.model.record import SifFile
from stackwright.core.model.site import Site
from stackwright.core.render.definition import render_definition
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.sif.sign import Signer
from stackwright.host.project import Plan, Planned, Project, cells, plan, sources
from stackwright.host.runner import Runner
from stackwright.records import definition_builds
from stackwright.records.definition_builds import Native

ANEW = "it is built anew"


def written(folder: Path, facts: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("system", "files", "link"):
        (folder / f"{name}.json").write_text(json.dumps(facts[name]))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path / "out")


@pytest.fixture
def row(project: Project) -> Planned:
    return plan(project, cells(project, ["cuda12-torch"])).rows[0]


@pytest.fixture
def means() -> Means:
    runner = Runner()
    apptainer = Apptainer(program=Path("/nowhere"), version="1.4.5", native=True, runner=runner)
    site = Site(mirror=None, ca=None, pip=(), proxies=())
    return Means(
        apptainer=apptainer, docker=None, runner=runner, site=site, say=lambda text: None, signer=None
    )


@pytest.fixture
def good(project: Project, row: Planned, means: Means) -> Path:
    """A file of yesterday, and what is known of it."""
    folder = project.folder(row.recipe)
    path = folder / "cuda12-torch.def.sif"
    for world in ("docker", FACTS):
        written(folder / "facts" / world, docker_facts(row.stack))
    path.write_bytes(b"yesterday")
    known = sample(
        row=row.stack.id, key=row.recipe.key, differences=None, verdict=verdict("sif"),
        definition=render_definition(row.stack, sources(project)).key,
        sif=SifFile(
            path=str(path.relative_to(project.out.parent)), bytes=9, sha256="0" * 64, compression="zstd:3"
        ),
        tools=definition_rows._tools(project, means),
    )  # fmt: skip
    definition_builds.write(known, project.records)
    return path


def work(project: Project, row: Planned, means: Means) -> tuple[Native, list[StackwrightError]]:
    (one,), errors = definition_rows.work(project, Plan(rows=(row,), rejections=()), means)
    assert definition_builds.newest(project.records).natives == (one,)
    return one, errors


def stand_in(*_: Any, **__: Any) -> None:
    raise BuildError(ANEW)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition_rows, "built", stand_in)


def test_one_that_is_good_is_only_compared(good: Path, project: Project, row: Planned, means: Means) -> None:
    one, errors = work(project, row, means)
    assert (one.differences, one.reason, errors) == ((), "", [])
    assert one.build_seconds == sample().build_seconds


def test_a_signed_one_is_good_unsigned_and_by_another_key_is_not(
    good: Path, project: Project, row: Planned, means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = definition_builds.newest(project.records).natives
    definition_builds.write(
        replace(known, tools=(*known.tools, ("sif signed by", "f" * 16))), project.records
    )
    assert work(project, row, means)[1] == []
    monkeypatch.setattr(definition_rows, "built", stand_in)
    signer = Signer(key=Path("/nowhere"), public=b"another")
    assert [error.cause for error in work(project, row, replace(means, signer=signer))[1]] == [ANEW]


def test_one_that_is_not_as_todays_image_loses_its_name(
    good: Path, project: Project, row: Planned, means: Means
) -> None:
    facts = docker_facts(row.stack)
    facts["system"]["gcc"] = "1.0"
    written(project.folder(row.recipe) / "facts" / "docker", facts)
    one, (error,) = work(project, row, means)
    assert error.exit_code == 8
    assert one.sif
    assert one.sif.path.endswith("/cuda12-torch.def.failed.sif")
    assert not good.exists()
    assert good.with_name("cuda12-torch.def.failed.sif").read_bytes() == b"yesterday"


@pytest.mark.parametrize(
    "change",
    [{"definition": "0" * 64}, {"key": "0" * 64}, {"tools": ()}, {"reason": "it failed"}, {"sif": None}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.usefixtures("built")
def test_one_of_another_content_or_of_other_checks_is_built_anew(
    change: dict[str, Any], good: Path, project: Project, row: Planned, means: Means
) -> None:
    (known,) = definition_builds.newest(project.records).natives
    for path in (project.records / row.stack.id / "definition").iterdir():
        path.unlink()
    definition_builds.write(replace(known, **change), project.records)
    one, (error,) = work(project, row, means)
    assert (error.cause, one.reason) == (ANEW, ANEW)
    assert good.read_bytes() == b"yesterday"


@pytest.mark.usefixtures("built")
def test_another_compression_than_it_has_is_built_anew(
    good: Path, project: Project, row: Planned, means: Means
) -> None:
    other = replace(means, compression=compression("lz4"))
    assert [error.cause for error in work(project, row, other)[1]] == [ANEW]
    assert good.read_bytes() == b"yesterday"


@pytest.mark.usefixtures("built")
def test_one_whose_facts_are_gone_is_built_anew_and_keeps_its_name(
    good: Path, project: Project, row: Planned, means: Means
) -> None:
    shutil.rmtree(good.parent / "facts" / FACTS)
    assert [error.cause for error in work(project, row, means)[1]] == [ANEW]
    assert good.read_bytes() == b"yesterday"


@pytest.mark.usefixtures("built")
def test_a_file_that_was_cut_short_is_built_anew(
    good: Path, project: Project, row: Planned, means: Means
) -> None:
    good.write_bytes(b"yester")
    _, (error,) = work(project, row, means)
    assert error.cause == ANEW
