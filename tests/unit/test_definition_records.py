"""What became of a SIF of a definition file is kept, and shown beside the image, not as it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from page_elements import Elements
from report_samples import (
    NOON,
    UNEXPLAINED,
    built,
    definition,
    failed_definition,
    unbuilt_definition,
    verdict,
)
from rich.console import Console
from rows import ROOT

from stackwright.build import rows as session
from stackwright.build.rows import Session
from stackwright.build.sif.definition import problem
from stackwright.core.checks.compare import Difference
from stackwright.core.errors import BuildError, RecordError
from stackwright.core.model.record import Definition, Phase, Record, Status
from stackwright.core.model.row import Tier
from stackwright.records import files as record
from stackwright.records.report import definitions
from stackwright.records.report.page import page
from stackwright.records.report.table import table

FAILED, UNBUILT = failed_definition(), unbuilt_definition()
RESULTS = sorted((ROOT / "docs" / "results").glob("*/definition/*.json"))


def shown(*files: Record, images: bool = True) -> str:
    out = io.StringIO()
    records = [built()] if images else []
    Console(file=out, width=200).print(table(records, [], files, plain=True))
    return out.getvalue()


def line(text: str, world: str) -> str:
    return next(found for found in text.splitlines() if f"|{world} " in found)


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [definition(), FAILED, UNBUILT], ids=["good", "failed", "unbuilt"])
def test_what_is_written_is_what_is_read_and_never_taken_for_an_image(known: Record, tmp_path: Path) -> None:
    path = record.write(known, tmp_path)
    assert path.relative_to(tmp_path).parts[:2] == (known.row, "definition")
    assert record.latest(tmp_path, known.row, known.key, definition=True) == known
    assert record.load_all(tmp_path, definition=True).records == (known,)
    assert record.latest(tmp_path, known.row, known.key) is None
    assert record.load_all(tmp_path) == record.Loaded(records=(), warnings=())


def test_a_record_in_the_folder_of_the_other_kind_is_named(tmp_path: Path) -> None:
    image, file = record.write(built(), tmp_path), record.write(definition(), tmp_path)
    file.with_name("20260305T000000Z-a1a1a1a1a1a1.json").write_bytes(image.read_bytes())
    image.with_name("20260305T000000Z-a1a1a1a1a1a1.json").write_bytes(file.read_bytes())
    for kind, whole in ((False, built()), (True, definition())):
        loaded = record.load_all(tmp_path, definition=kind)
        assert loaded.records == (whole,)
        assert [str(tmp_path) in warning for warning in loaded.warnings] == [True]
        assert record.latest(tmp_path, whole.row, whole.key, definition=kind) == whole


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    good = record.write(definition(), tmp_path)
    bad = good.with_name("20260304T000000Z-0.json")
    bad.write_text("{")
    (warning,) = record.load_all(tmp_path, definition=True).warnings
    assert warning.startswith(f"{bad}: ")


def test_a_path_that_leaves_the_project_is_not_written(tmp_path: Path) -> None:
    sif = definition().sif
    assert sif
    with pytest.raises(RecordError, match="is not valid"):
        record.write(definition(sif=replace(sif, path="../x.sif")), tmp_path)


# -- files of earlier releases ----------------------------------------------------------------------


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_a_file_in_the_earlier_format_loses_nothing(path: Path, tmp_path: Path) -> None:
    """Its JSON is what the command's answer has of the record of today."""
    old = json.loads(path.read_text())
    assert isinstance(old["definition"], str), "a file of the earlier format"
    known = record.load(path)
    assert known.definition and known.definition.key == old["definition"]
    assert definitions.as_json(known) == {"cause": "", **old}
    assert (known.status, known.lock) == (Status.COMPLETE, "")
    record.write(known, tmp_path)
    assert record.latest(tmp_path, known.row, known.key, definition=True) == known


def earlier(**changes: object) -> dict[str, object]:
    old = json.loads(RESULTS[0].read_text())
    return {**old, **changes}


def test_one_that_was_not_built_or_failed_says_so_in_todays_words(tmp_path: Path) -> None:
    ends = {"reason": "disk full", "sif": None, "verdict": None, "build_seconds": None, "differences": None}
    unbuilt, failed = tmp_path / "unbuilt.json", tmp_path / "failed.json"
    unbuilt.write_text(json.dumps(earlier(**ends, probe_seconds=None, cause="disk-full")))
    failed.write_text(json.dumps(earlier(reason="checks failed: 1")))
    found = record.load(unbuilt)
    assert (found.status, found.phase, found.reason) == (Status.FAILED, Phase.DEFINITION, "disk full")
    assert (found.cause, found.timings, found.verdicts) == ("disk-full", (), ())
    assert definitions.summary(found).endswith("no SIF was built from its definition file: disk full")
    found = record.load(failed)
    assert (found.status, found.phase) == (Status.FAILED, Phase.COMPARE_DEFINITION)
    assert definitions.trouble(found) == "checks failed: 1"


@pytest.mark.parametrize("change", [{"key": "0"}, {"verdict": []}, {"definition": "x"}, {"host": None}])
def test_what_neither_format_allows_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(earlier(**change)))
    with pytest.raises(RecordError, match="not a record"):
        record.load(path)


# -- its result ---------------------------------------------------------------------------------------


def test_a_failed_check_and_an_unexplained_difference_are_errors() -> None:
    assert problem(definition()) is None
    for bad, said in ((FAILED, "no libmpi"), (definition(UNEXPLAINED), "13.3.0")):
        found = problem(bad)
        assert found
        assert found.exit_code == 8
        assert said in found.whole_cause
        assert f"{bad.row}.def.failed.sif" in found.hint


def test_the_answer_says_tiers_differences_and_errors() -> None:
    text = definitions.summary(definition())
    assert "3.40 GB" in text
    assert "link passed, built passed, collective passed, gpu not run; " in text
    assert text.endswith("; differences from the image: 1, all explained")
    assert "no SIF was built" in definitions.summary(UNBUILT)
    done = Session(records=(), failed=(("r", BuildError("no", place="r")),), definitions=(definition(),))
    document = session.document(done)
    assert document["definitions"][0]["sif"]["bytes"] == 3_400_000_000
    assert document["definitions"][0]["build_seconds"] == 1260.0
    assert document["definitions"][0]["verdict"]["world"] == "sif"
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
    text = shown(definition(), images=False)
    assert line(text, "def").startswith(f"|{definition().row} ")
    assert "differences from the image: 1, all explained" in text


def test_nothing_is_passed_where_nothing_was_built() -> None:
    assert {cell.outcome.value for cell in definitions.cells(UNBUILT)} == {"not run"}
    assert {cell.reason for cell in definitions.cells(UNBUILT)} == {"no SIF was built: E: no such package"}
    assert line(shown(UNBUILT), "def").count("not run") == len(Tier)


def test_one_that_was_killed_is_not_shown_as_good() -> None:
    killed = definition(status=Status.INTERRUPTED, phase=Phase.PROBE_DEFINITION, finished=None, verdicts=())
    assert "def: interrupted" in shown(killed)
    assert {cell.outcome.value for cell in definitions.cells(killed)} == {"not run"}
    assert definitions.as_json(killed)["reason"] == "interrupted"
    assert 'id="attention"' in page([built()], [], NOON, [killed])


def test_one_that_was_not_compared_or_is_of_another_key_says_so() -> None:
    alone = definition(definition=Definition(key="d5" * 32))
    assert "not compared: the image's facts are not there" in shown(alone)
    text = shown(definition(key="f" * 64))
    assert f"of the key ffffffffffff, and the image is of {built().key[:12]}" in text


def test_the_page_shows_it_and_one_that_failed_first_of_all() -> None:
    text = page([built()], [], NOON, [definition()])
    assert Elements(text).seen
    for part in ("SIFs of definition files", "built/torch/compiled_by/cmake", "a day", "21 min 00 s"):
        assert part in text, part
    assert 'id="attention"' not in text
    bad = definition(UNEXPLAINED, status=Status.FAILED, reason="1 unexplained")
    text = page([built()], [], NOON, [bad])
    attention = text[text.index('id="attention"') : text.index('id="glance"')]
    assert "1 unexplained" in attention
    assert f"<h1>The definition file of {bad.row} needs attention</h1>" in text
    assert "SIFs of definition files" not in page([built()], [], NOON)


def test_hostile_text_stays_text() -> None:
    evil = "<script>alert(1)</script>"
    bad = definition(
        Difference(path=evil, one=evil, other=evil, why=evil), reason=evil, status=Status.FAILED,
        verdicts=(verdict("def", link__import=evil),),
    )  # fmt: skip
    assert "<script" not in page([], [], NOON, [bad])
