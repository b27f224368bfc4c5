"""What became of a SIF of a definition file is kept, and shown beside the image, not as it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from page_elements import Elements
from report_samples import NOON, built, native, verdict
from rich.console import Console

from stackwright.build.sif import definition_rows
from stackwright.core.checks.compare import Difference
from stackwright.core.errors import BuildError, RecordError
from stackwright.core.model.row import Tier
from stackwright.records.definition_builds import Loaded, Native, newest, shortened, write
from stackwright.records.report.page import page
from stackwright.records.report.table import table
from stackwright.records.report.wording import native_cells

UNEXPLAINED = Difference(path="system/gcc", one="13.3.0", other="14.2.0")
FAILED = native(verdict=verdict("sif", link__import="no libmpi"), reason="checks failed: 1")
UNBUILT = native(verdict=None, sif=None, build_seconds=None, differences=None, reason="E: no such package")


def shown(*natives: Native, images: bool = True) -> str:
    out = io.StringIO()
    records = [built()] if images else []
    Console(file=out, width=200).print(table(records, [], natives, plain=True))
    return out.getvalue()


def line(text: str, world: str) -> str:
    return next(found for found in text.splitlines() if f"|{world} " in found)


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [native(), FAILED, UNBUILT], ids=["good", "failed", "unbuilt"])
def test_what_is_written_is_what_is_read(one: Native, tmp_path: Path) -> None:
    path = write(one, tmp_path)
    assert path.relative_to(tmp_path).parts[:2] == (one.row, "definition")
    assert newest(tmp_path) == Loaded(natives=(one,), warnings=())


def test_the_newest_of_a_row_counts_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    newer = replace(FAILED, started="2026-03-03T03:00:00Z")
    for one in (newer, native(), native(row="other")):
        write(one, tmp_path)
    bad = tmp_path / "other" / "definition" / "20260304T000000Z-0.json"
    bad.write_text("{")
    found = newest(tmp_path)
    assert {one.row: one for one in found.natives} == {newer.row: newer, "other": native(row="other")}
    (warning,) = found.warnings
    assert warning.startswith(f"{bad}: ")


def test_a_path_that_leaves_the_project_is_not_written(tmp_path: Path) -> None:
    sif = native().sif
    assert sif
    with pytest.raises(RecordError, match="is not valid"):
        write(native(sif=replace(sif, path="../x.sif")), tmp_path)


def test_values_of_any_size_can_be_read() -> None:
    found = shortened(Difference(path="a", one=["symbol"] * 1000, other="short"))
    assert len(found.one) == 201
    assert found.one.startswith('["symbol", ')
    assert found.other == "short"


# -- what it comes to --------------------------------------------------------------------------------


def test_a_failed_check_and_an_unexplained_difference_are_errors() -> None:
    assert definition_rows.problem(native()) is None
    for bad, said in ((FAILED, "no libmpi"), (native(differences=(UNEXPLAINED,)), "13.3.0")):
        found = definition_rows.problem(bad)
        assert found
        assert found.exit_code == 8
        assert said in found.whole_cause
        assert f"{bad.row}.def.failed.sif" in found.hint


def test_the_answer_says_tiers_differences_and_errors() -> None:
    text = definition_rows.summary(native())
    assert "3.40 GB" in text
    assert "link passed, built passed, collective passed, gpu not run; " in text
    assert text.endswith("; differences from the image: 1, all explained")
    assert "no SIF was built" in definition_rows.summary(UNBUILT)
    document = definition_rows.document([native()], [BuildError("no", place="r")])
    assert document["definitions"][0]["sif"]["bytes"] == 3_400_000_000
    assert document["errors"] == [{"exit_code": 7, "place": "r", "cause": "no"}]


# -- what a person sees ------------------------------------------------------------------------------


def test_it_has_a_line_of_its_own_with_its_own_marks() -> None:
    text = shown(FAILED)
    words = [cell.strip() for cell in line(text, "def").split("|")[3:-1]]
    assert words == ["passed", "failed", "passed", "passed", "not run", "3.4 GB", "21 min 00 s"]
    assert "failed" not in line(text, "sif")
    assert "def: checks failed: 1" in text
    assert "def: failed: link link.import: no libmpi" in text
    assert "def: not run: gpu: " in text


def test_a_row_without_an_image_is_seen_too() -> None:
    text = shown(native(), images=False)
    assert line(text, "def").startswith(f"|{native().row} ")
    assert "differences from the image: 1, all explained" in text


def test_nothing_is_passed_where_nothing_was_built() -> None:
    assert {cell.outcome.value for cell in native_cells(UNBUILT)} == {"not run"}
    assert {cell.reason for cell in native_cells(UNBUILT)} == {"no SIF was built: E: no such package"}
    assert line(shown(UNBUILT), "def").count("not run") == len(Tier)


def test_one_that_was_not_compared_or_is_of_another_key_says_so() -> None:
    assert "not compared: the image's facts are not there" in shown(native(differences=None))
    assert f"of the key ffffffffffff, and the image is of {built().key[:12]}" in shown(native(key="f" * 64))


def test_the_page_shows_it_and_one_that_failed_first_of_all() -> None:
    text = page([built()], [], NOON, [native()])
    assert Elements(text).seen
    for part in ("SIFs of definition files", "built/torch/compiled_by/cmake", "a day", "21 min 00 s"):
        assert part in text, part
    assert 'id="attention"' not in text
    text = page([built()], [], NOON, [native(differences=(UNEXPLAINED,), reason="1 unexplained")])
    attention = text[text.index('id="attention"') : text.index('id="glance"')]
    assert "1 unexplained" in attention
    assert f"<h1>The definition file of {native().row} needs attention</h1>" in text
    assert "SIFs of definition files" not in page([built()], [], NOON)


def test_hostile_text_stays_text() -> None:
    evil = "<script>alert(1)</script>"
    bad = native(reason=evil, differences=(Difference(path=evil, one=evil, other=evil, why=evil),))
    assert "<script" not in page([], [], NOON, [bad])
