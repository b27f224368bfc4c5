"""Builds from definition files in the history: lines of their own, and never taken for builds of images."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command import call
from histories import a_night, filled
from report_samples import built, definition, failed_definition, unbuilt_definition
from rows import ROOT

from stackwright.core.model.night import RowNight, State
from stackwright.records import files as record
from stackwright.records.history import builds, show


def test_a_build_from_a_definition_file_has_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the nights of its row, with its own size, time and tiers."""
    image, file = built(row="one"), definition(row="one")
    path = filled(tmp_path, image, file, failed_definition(row="two"))
    night = RowNight(row="one", state=State.REBUILT, key=image.key, build=builds.id_of(image))
    for day in (1, 3):
        a_night(path, f"r{day}", night, started=f"2026-03-0{day}T03:00:00Z")
    code, out, _ = call(capsys, "history", "--history", str(path), "show", "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert [line["tiers"] for line in document["nights"]] == ["docker 4 of 5, sif 4 of 5"] * 2
    good, bad = document["definitions"]
    assert (good["row"], good["state"], good["tiers"]) == ("one", "def complete", "def 4 of 5")
    assert (good["sif"], good["seconds"], good["image"]) == (3_400_000_000, 1321.5, None)
    assert (bad["row"], bad["state"], bad["tiers"]) == ("two", "def failed", "def 3 of 5")
    code, out, _ = call(capsys, "history", "--history", str(path))
    first, second, third, fourth = (line for line in out.splitlines() if " 2026-03-0" in line)
    assert [("def" in line) for line in (first, second, third, fourth)] == [False, True, False, True]
    assert "3.4 GB" in second
    assert "22 min" in second


def test_the_history_of_this_project_knows_what_was_built_since_the_last_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record.write(definition(), tmp_path / "records")
    _, out, _ = call(capsys, "--out", str(tmp_path), "history", "show", "--format", "json")
    (line,) = json.loads(out)["definitions"]
    assert line["run"] == f"{definition().row}/definition/20260302T030000Z-a1a1a1a1a1a1"


def test_it_is_no_build_of_the_image(tmp_path: Path) -> None:
    """It started later, and neither a night nor the page takes it for the newest build of the row."""
    later = definition(row="one", key=built().key)
    path = filled(tmp_path, built(row="one"), later, unbuilt_definition(row="two"))
    image = builds.id_of(built(row="one"))
    with builds.opened(path) as db:
        assert {row: build.id for row, build in builds.newest_complete(db).items()} == {"one": image}
        found = builds.complete(db, "one", built().key)
        assert found and found.id == image
        assert builds.last_phase(db, "one", built().key) == "probe sif"
        assert set(builds.newest_records(db)) == {
            built(row="one"), later, unbuilt_definition(row="two"),
        }  # fmt: skip


def test_the_last_build_of_a_key_says_whether_the_definition_file_fails(tmp_path: Path) -> None:
    bad = failed_definition(row="one")
    path = filled(tmp_path, bad)
    with builds.opened(path) as db:
        assert builds.failed_definition(db, "one", bad.key) == "checks failed: 1"
        assert builds.failed_definition(db, "one", "0" * 64) == ""
    filled(tmp_path, replace(definition(row="one"), started="2026-03-09T03:00:00Z"))
    with builds.opened(path) as db:
        assert builds.failed_definition(db, "one", bad.key) == ""


def test_files_of_earlier_releases_are_taken_as_well(tmp_path: Path) -> None:
    old = ROOT / "docs" / "results" / "2026-11-22" / "definition" / "cuda12-torch.json"
    folder = tmp_path / "records" / "cuda12-torch" / "definition"
    folder.mkdir(parents=True)
    (folder / "20261122T015551Z-00a862c0a269.json").write_bytes(old.read_bytes())
    (line,) = show.lines(filled(tmp_path), (), 7)
    assert (line.state, line.sif, line.seconds) == ("def complete", 3427135488, 787.7)
