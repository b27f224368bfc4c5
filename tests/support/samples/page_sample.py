"""One page with every part that a page can have: sixteen nights of one row, a failure, a refusal, files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from report_samples import NOON, all_passed, broken, built, definition, failed_definition, image_of, rejected

from stackwright.core.model.record import Layer, Record, Status, Timing
from stackwright.core.model.row import Outcome
from stackwright.records.files import utc
from stackwright.records.report.links import Link
from stackwright.records.report.page import Around, page

NIGHTS = 16
FILES = (
    Link("Build log", "../row/a1a1a1a1a1a1/build.log"),
    Link("Dockerfile", "../row/a1a1a1a1a1a1/context/Dockerfile"),
    Link("Definition file", "../rendered/row/row.def"),
    Link("Lock, as pip reads it", "../row/a1a1a1a1a1a1/context/requirements.txt"),
    Link("JUnit, docker", "../records/row/20260302T020000Z-a1a1a1a1a1a1.docker.xml"),
    Link("Record", "../records/row/20260302T020000Z-a1a1a1a1a1a1.json"),
)


def nights(count: int = NIGHTS) -> tuple[Record, ...]:
    """Return runs of one row, the last of them today's. One night failed, and the image grew once."""
    return tuple(_night(back, count) for back in reversed(range(count)))


def _night(back: int, count: int) -> Record:
    record, started = built(), datetime.fromisoformat(built().started) - timedelta(days=back)
    grown = 0 if back > count // 2 else 240_000_000
    image = replace(image_of(record), bytes=image_of(record).bytes - 240_000_000 + grown)
    timings = tuple(
        Timing(phase=timing.phase, seconds=timing.seconds * (1 + back % 5 / 9)) for timing in record.timings
    )
    found = tuple((name, "2.2.2" if name == "numpy" and back > 2 else value) for name, value in record.found)
    layers = tuple(replace(layer, digest=_digest(number, back)) for number, layer in enumerate(record.layers))
    night = replace(
        record, started=utc(started), finished=utc(started + timedelta(minutes=21)), image=image,
        timings=timings, found=found, layers=layers,
    )  # fmt: skip
    return _failed(night) if back == count // 3 else night


def _digest(number: int, back: int) -> str:
    """Return what is below stays; what is above changes every few nights."""
    return f"sha256:{number}-{-(-back // (9 - 2 * number)) if number > 1 else 0}"


def _failed(record: Record) -> Record:
    docker = record.verdicts[0]
    checks = tuple(
        replace(check, outcome=Outcome.FAILED, detail="world size 1, not 2")
        if check.id == "collective.mpi"
        else check
        for check in docker.checks
    )
    return replace(record, status=Status.FAILED, verdicts=(replace(docker, checks=checks),), sif=None)


def other(row: str, **changes: object) -> Record:
    """Return another row that shares its lower layers."""
    mine = Layer(what="row", created_by="COPY row.json", bytes=1_310, digest=f"sha256:of-{row}")
    layers = (*nights(1)[0].layers[:4], mine)
    return replace(all_passed(), row=row, layers=layers, **changes)  # type: ignore[arg-type]


def whole_page() -> str:
    """Return the text of the page."""
    records = (*nights(), broken(), other("debian13-py3.13-cuda12.4-mpich4.2.1-torch2.6.0"))
    definitions = (definition(), failed_definition(row="debian12-py3.11-cuda11.8-ompi4.1.4-torch2.0.1"))
    around = Around(links=lambda record: FILES if record.row == built().row else ())
    return page(records, [rejected()], NOON, definitions, around)
