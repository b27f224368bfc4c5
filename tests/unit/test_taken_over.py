"""A run that only judges an image again takes over how it was made, and says of none of it that it did it."""

from dataclasses import replace
from pathlib import Path

import rows
from report_samples import LAYERS, NOON, STEPS, built, verdict

from stackwright.build.row import taken_over
from stackwright.build.sif.convert import SIGNED_BY
from stackwright.core.model.record import Phase, Record, SifFile, Status, Timing
from stackwright.core.render import dockerfile
from stackwright.publish.attest.statements.provenance import provenance
from stackwright.records import files as record
from stackwright.records.history import builds
from stackwright.records.report import comparing, trend
from stackwright.records.report.page import NOTHING, page

MADE = {"docker": "27.0", "buildx": "0.20", "bundle": "5" * 64, "gpu while building": "cdi: one"}
FORMER = built(
    tools=(*MADE.items(), (SIGNED_BY, "f" * 16), ("checks", "0" * 12)),
    sif=SifFile(path="out/one.sif", bytes=3, sha256="d" * 64),
    verdicts=(verdict("docker", link__import="no module"), verdict("sif")),
)
LATER = "2026-03-09T02:00:00Z"
OF_TODAY = (("docker", "29.0"), ("buildx", "0.30"), ("checks", "1" * 12))


def fresh(started: str = LATER) -> Record:
    return Record(
        row=FORMER.row, key=FORMER.key, lock=FORMER.lock, started=started, host=FORMER.host, tools=OF_TODAY
    )


def judged_again(*, sif: bool = True) -> Record:
    """The run has probed the image, which took it 40 s."""
    begun = taken_over(fresh(), FORMER, sif=sif)
    proven = record.judged(record.timed(begun, Phase.PROBE_DOCKER, 40), verdict("docker"))
    return replace(proven, status=Status.COMPLETE, finished="2026-03-09T02:01:00Z")


def test_what_is_said_of_the_image_is_taken_over_and_no_verdict() -> None:
    new = taken_over(fresh(), FORMER, sif=True)
    assert (new.image, new.layers, new.steps, new.sif) == (FORMER.image, LAYERS, STEPS, FORMER.sif)
    assert (new.verdicts, new.found, new.components) == ((), (), ())
    assert (new.started, new.status, new.finished) == (LATER, Status.INTERRUPTED, None)
    assert dict(new.tools) == {**MADE, SIGNED_BY: "f" * 16, "checks": "1" * 12}
    made = {timing.phase: (timing.seconds, timing.run) for timing in new.timings}
    assert made == {
        phase: (FORMER.seconds(phase), FORMER.started) for phase in (Phase.BASE, Phase.BUILD, Phase.SIF)
    }


def test_without_its_sif_nothing_is_said_of_it() -> None:
    new = taken_over(fresh(), FORMER, sif=False)
    assert new.sif is None and SIGNED_BY not in dict(new.tools)
    assert new.seconds(Phase.SIF) is None and new.seconds(Phase.BUILD) == FORMER.seconds(Phase.BUILD)


def test_taken_over_twice_it_is_still_of_the_run_that_built_it() -> None:
    again = taken_over(fresh("2026-03-16T02:00:00Z"), judged_again(), sif=True)
    assert {timing.run for timing in again.timings} == {FORMER.started}
    assert again.steps == STEPS


def test_a_phase_that_is_done_again_is_of_this_run() -> None:
    again = record.timed(judged_again(), Phase.SIF, 20)
    assert Timing(phase=Phase.SIF, seconds=20) in again.timings
    assert again.run_of(Phase.SIF) == LATER and again.run_of(Phase.BUILD) == FORMER.started


def test_the_time_of_the_run_is_its_own() -> None:
    new = judged_again()
    assert new.own_seconds == 40 and taken_over(fresh(), FORMER, sif=True).own_seconds is None
    assert trend.of_record(new).seconds == 40
    compared = comparing.nights((new, FORMER))
    assert compared
    times = next(field.values for field in compared.fields if field.label == "Run time")
    assert "40 s" in times
    told = page((new,), (), NOON, (), NOTHING)
    assert "build, in the run of 2026-03-02 02:00 UTC" in told and "probe docker" in told


def test_the_history_says_what_each_run_did(tmp_path: Path) -> None:
    for known in (FORMER, judged_again()):
        record.write(known, tmp_path / "records")
    with builds.opened(tmp_path / "history.db") as db:
        builds.take_records(db, tmp_path / "records")
        old, new = (builds.build(db, builds.id_of(known)) for known in (FORMER, judged_again()))
    assert old and new
    assert len(old.steps) == len(STEPS) and new.steps == ()
    assert new.seconds == (("probe docker", 40.0),)


def test_the_signed_provenance_names_the_run_that_built_it() -> None:
    stack = rows.stack()
    files = dict(dockerfile.render(stack, rows.SOURCES).files)
    made = provenance(judged_again(), stack, files)["runDetails"]
    assert made["metadata"] == {
        "invocationId": f"{FORMER.row}/{FORMER.started}",
        "startedOn": FORMER.started,
    }
    assert made["builder"]["version"]["docker"] == MADE["docker"]
    assert provenance(FORMER, stack, files)["runDetails"]["metadata"]["finishedOn"] == FORMER.finished
