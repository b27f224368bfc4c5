"""What the page shows besides the records: files that are there, history, two side by side, the name."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from page_elements import Elements
from page_sample import NIGHTS, nights, other, whole_page
from report_samples import NOON, all_passed, broken, built, rejected, unbuilt_definition

from stackwright.core.model.record import Record, Status
from stackwright.core.model.row import Outcome, Tier
from stackwright.host.shipped import called
from stackwright.records import files
from stackwright.records.history import builds, runs
from stackwright.records.report import comparing, trend
from stackwright.records.report.links import Link, links
from stackwright.records.report.page import Around, page
from stackwright.records.report.table import table
from stackwright.records.report.wording import State

# -- files ---


def made(out: Path, record: Record, *names: str) -> None:
    for name in names:
        path = out / name.format(row=record.row, key=record.key[:12])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)


def test_only_files_that_are_there_are_linked(tmp_path: Path) -> None:
    record = built()
    assert links(record, tmp_path) == ()
    made(tmp_path, record, "{row}/{key}/build.log", "{row}/{key}/context/Dockerfile")
    document = files.begin(record, tmp_path / "records")
    junit = files.path_of(document, tmp_path / "records").with_suffix(".sif.xml")
    junit.write_text("")
    found = {link.what: link.to for link in links(record, tmp_path)}
    assert list(found) == ["Build log", "Dockerfile", "JUnit, sif", "Record"]
    page_folder = tmp_path / "report"
    page_folder.mkdir()
    assert all((page_folder / to).resolve().is_file() for to in found.values())


def test_links_still_lead_there_when_the_folder_is_moved(tmp_path: Path) -> None:
    old, new = tmp_path / "out", tmp_path / "elsewhere"
    made(old, built(), "{row}/{key}/build.log")
    (old / "report").mkdir()
    (link,) = links(built(), old)
    old.rename(new)
    assert (new / "report" / link.to).resolve().read_text() == "build.log"


def test_a_definition_file_that_was_rendered_for_another_image_is_not_linked(tmp_path: Path) -> None:
    made(
        tmp_path,
        built(),
        "{row}/{key}/context/row.json",
        "rendered/{row}/row.json",
        "rendered/{row}/{row}.def",
    )
    assert [link.what for link in links(built(), tmp_path)] == ["Definition file"]
    (tmp_path / "rendered" / built().row / "row.json").write_text("another")
    assert links(built(), tmp_path) == ()


def test_a_link_is_quoted(tmp_path: Path) -> None:
    record = built(row='a+b=c,d~e@f"#')
    made(tmp_path, record, "{row}/{key}/build.log")
    (link,) = links(record, tmp_path)
    assert re.fullmatch(r"[\w./%~-]+", link.to) and "%23" in link.to


def test_the_page_leads_to_the_files_of_each_row() -> None:
    around = Around(links=lambda record: (Link("Build log", "../a/build.log"),))
    seen = Elements(page((built(),), [], NOON, (), around)).seen
    assert ("a", {"href": "../a/build.log"}) in seen


def test_text_from_outside_is_escaped_in_the_files_the_history_and_the_comparison() -> None:
    evil = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"
    old, new = (replace(night, found=(("numpy", evil + night.started),)) for night in nights(2))
    around = Around(
        links=lambda record: (Link(evil, "../a"),), known=(replace(trend.of_record(old), key=evil),),
        problem=evil,
    )  # fmt: skip
    text = page((old, new, built(row=f"row{evil}")), [], NOON, (), around)
    assert text.count("&lt;script&gt;") > 6 and "<script" not in text and "<img" not in text
    for tag, attributes in Elements(text).seen:
        assert tag != "script" and not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#")[:1] in "#." or attributes.get("href") == "data:,"


# -- history ---


def test_there_is_no_chart_of_one_run() -> None:
    assert trend.trend([trend.of_record(built())]) is None
    assert "Runs so far" not in page((built(),), [], NOON)


def test_a_chart_begins_at_zero_and_says_in_words_what_it_shows() -> None:
    points = [replace(trend.of_record(night), image=10**9 * size) for size, night in enumerate(nights(4), 1)]
    found = trend.trend(points)
    assert found
    bars = found.charts[0]
    assert [column.height for column in bars.columns] == [trend.HEIGHT * part / 4 for part in (1, 2, 3, 4)]
    assert bars.text == (
        "Image size in 4 runs from 2026-02-27 02:00 to 2026-03-02 02:00: "
        "between 1.0 GB and 4.0 GB, last 4.0 GB"
    )


def test_a_tier_of_a_night_is_as_bad_as_the_worse_of_its_worlds() -> None:
    point = trend.of_record(broken())
    assert dict(point.tiers)[Tier.LINK] is Outcome.FAILED
    assert dict(point.tiers)[Tier.STATIC] is Outcome.NOT_RUN, "no SIF was made, so nothing is known of it"
    assert point.passed == 0


@pytest.mark.parametrize("record", [built(), broken(), all_passed(), built(status=Status.INTERRUPTED)])
def test_the_history_says_of_a_run_what_its_record_says(tmp_path: Path, record: Record) -> None:
    begun = files.begin(record, tmp_path / "records")
    path = tmp_path / "history.sqlite"
    assert runs.points(path) == ()
    with builds.opened(path) as db:
        builds.take_records(db, tmp_path / "records")
    (point,) = runs.points(path)
    assert replace(point, seconds=None) == replace(trend.of_record(begun), seconds=None)
    assert point.seconds == pytest.approx(trend.of_record(begun).seconds)


def test_a_run_is_shown_once_though_record_and_history_know_it() -> None:
    known = [trend.of_record(night) for night in nights(4)]
    found = trend.runs(nights(2), known)
    assert [point.started for point in found[built().row]] == [point.started for point in known]


def test_a_history_that_cannot_be_read_is_said_and_the_rest_is_shown() -> None:
    text = page((built(),), [], NOON, (), Around(problem="a database, but not a <history>"))
    assert "a database, but not a &lt;history&gt;" in text and built().row in text


def test_states_of_the_history_are_those_of_records() -> None:
    passed = tuple((tier, Outcome.PASSED) for tier in Tier)
    assert trend.state_of(Status.COMPLETE, passed) is State.PROVEN
    assert trend.state_of(Status.FAILED, passed) is State.FAILED
    assert trend.state_of(Status.INTERRUPTED, passed) is State.INTERRUPTED
    assert trend.state_of(Status.COMPLETE, ()) is State.UNPROVEN


# -- side by side ---


def test_two_rows_differ_in_what_their_records_say() -> None:
    found = comparing.rows([built(), broken()])
    assert found
    same = {field.label: field.same for field in found.fields}
    assert same["CUDA"] == ((1, 2),) and same["NCCL"] == () and same["State"] == ()


def test_runs_are_compared_by_what_is_not_the_same_in_all_of_them() -> None:
    found = comparing.nights(tuple(reversed(nights(NIGHTS))))
    assert found and found.left_out == NIGHTS - comparing.MOST_RUNS
    assert {"Run time", "numpy"} <= {field.label for field in found.fields}
    assert "CUDA" not in {field.label for field in found.fields} and found.same > 5


def test_one_row_is_compared_with_none() -> None:
    assert comparing.rows([built()]) is None
    assert "Compare two" not in page((built(),), [], NOON)


def test_each_pair_has_its_rule_and_each_value_its_place() -> None:
    text = whole_page()
    for one, two in ((1, 2), (2, 1), (2, 3)):
        assert f".a > :nth-child({one}):checked):has(.b > :nth-child({two}):checked)" in text
    cells = re.findall(r'<td class="va">(.*?)</td>', text)
    assert {cell.count("<span>") for cell in cells} == {3, comparing.MOST_RUNS}


# -- what a node pulls ---


def test_shared_layers_are_pulled_once() -> None:
    last, before = nights(1)[0], nights(2)[0]
    found = comparing.pulls([(last, [before]), (other("another"), [])])
    assert found
    first, second = found.rows
    assert (first.whole, first.after) == ("5.9 GB", "5.1 GB") and second.after == "no run before"
    assert found.whole == "5.9 GB", "the other row brings one layer of 1 kB"
    assert found.after == "5.1 GB"


def test_what_is_pulled_is_not_told_where_the_run_before_has_no_digests() -> None:
    found = comparing.pulls([(nights(1)[0], [built()])])
    assert found and found.rows[0].after == "not known" and found.after == "at most 5.9 GB"


def test_nothing_is_said_of_images_whose_layers_have_no_digest() -> None:
    assert comparing.pulls([(built(), [])]) is None
    assert comparing.lacked(built(), [nights(1)[0]]) == ""


# -- the program's name ---

NEXT = "no space left on device; next: free some: ./build.py clean shows what can go"


@pytest.mark.parametrize(
    ("program", "there"), [("stackwright", "stackwright clean"), ("./build.py", "./build.py clean")]
)
def test_the_page_names_the_program_as_it_is_called_here(program: str, there: str) -> None:
    record = built(status=Status.FAILED, reason=NEXT)
    refused = replace(rejected(), nearest="run ./build.py lock a-row")
    text = unescape(page((record,), [refused], NOON, (), Around(program=program)))
    assert f"free some: {there} shows" in text and f"run {program} lock a-row" in text
    assert ("./build.py" in text) == (program == "./build.py")


def test_a_record_and_the_table_name_the_program_as_it_is_called_here() -> None:
    closed = files.closed(built(), Status.FAILED, at=NOON, reason=NEXT)
    assert closed.reason == called(NEXT)
    assert called(NEXT, "stackwright").endswith("free some: stackwright clean shows what can go")
    assert (
        called("python path/build.py plan, build.py", "stackwright") == "python path/build.py plan, build.py"
    )
    assert table([built()], [], [unbuilt_definition()], plain=True).caption
