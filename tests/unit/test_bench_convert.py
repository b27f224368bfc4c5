"""The arithmetic of bench/convert.py, what it promises, and the results that are committed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter
from rows import ROOT

from bench import convert
from bench.convert import APPTAINERS, GB, Measured, Run, lines
from stackwright.engines.sif.squashfs import Way

RESULTS = sorted((ROOT / "docs" / "results").glob("*/convert/*.json"))
OWN = Run(way=APPTAINERS, compression="gzip:9", seconds=240.0, bytes=1000 * 10**6, peak=5 * GB, start=8.0)
OURS = Run(
    way=Way.MOUNTED, compression="zstd:3", seconds=12.0, bytes=1010 * 10**6, peak=1010 * 10**6, start=4.0
)


def test_a_way_is_its_medians_beside_apptainers() -> None:
    runs = [replace(OWN, seconds=seconds) for seconds in (100.0, 240.0, 1000.0)]
    runs += [replace(OURS, seconds=seconds, peak=peak) for seconds, peak in ((30.0, 5), (10.0, 9), (12.0, 7))]
    own, ours = lines(runs)
    assert (own.seconds, own.times, own.larger, own.holds) == (240.0, 1.0, 1.0, {})
    assert (ours.runs, ours.seconds, ours.times, ours.larger, ours.peak) == (3, 12.0, 20.0, 1.01, 9)


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, set[str]()),
        ({"seconds": 20.1}, {"12 times as fast"}),
        ({"bytes": 1021 * 10**6}, {"at most 2 % larger"}),
        ({"peak": 2011 * 10**6}, {"at most 1 GB of disk more than the file"}),
        ({"way": Way.STREAM, "seconds": 60.0}, set[str]()),
        ({"way": Way.STREAM, "seconds": 60.1}, {"4 times as fast"}),
    ],
)
def test_what_does_not_hold_is_said(change: dict[str, Any], broken: set[str]) -> None:
    changed = replace(OURS, **change)
    assert {name for name, holds in lines([OWN, changed])[1].holds.items() if not holds} == broken
    said = measured(runs=(OWN, changed))
    assert convert.holds(said) is not bool(broken)
    assert sum("DOES NOT HOLD" in line for line in convert.verdict(said)) == len(broken)


def test_a_difference_of_contents_is_said() -> None:
    found = {"first": [{"path": "etc/x", "what": "mode"}], "kinds": {"mode": 1}}
    said = measured(differing={Way.MOUNTED: found})
    assert not convert.holds(said)
    assert any("the same 7 paths: DOES NOT HOLD" in line for line in convert.verdict(said))
    assert convert.holds(measured(differing={Way.MOUNTED: {"first": [], "kinds": {"time": 3}}}))


def test_without_apptainers_own_way_nothing_can_be_said() -> None:
    with pytest.raises(ValueError, match="nothing to compare with"):
        lines([OURS])


def test_the_page_has_every_way_and_every_choice() -> None:
    text = convert.page(measured(compressions=(replace(OURS, compression="lz4", start=None),)))
    assert f"| {Way.MOUNTED} | zstd:3 | 12.0 (of 1) | 20.0 | 1.010 | +1.0% | 1.01 | 4.0 |" in text
    assert "| lz4 | 12.0 | 1.010 | 0.51 | – |" in text


def measured(**changes: Any) -> Measured:
    whole = Measured(
        image="x:1", image_bytes=2 * GB, files=7, day="2026-01-01", host="2 cores", remark="cold",
        started="true", runs=(OWN, OURS), compressions=(), differing={},
    )  # fmt: skip
    return replace(whole, **changes)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_a_committed_result_says_what_its_runs_say(path: Any) -> None:
    document = json.loads(path.read_text())
    medians = document.pop("medians")
    assert document.pop("version") == 1
    said = TypeAdapter(Measured).validate_python(document)
    assert path.with_suffix(".md").read_text() == convert.page(said)
    assert [line["seconds"] for line in medians] == [line.seconds for line in lines(said.runs)]
    assert convert.holds(said)
