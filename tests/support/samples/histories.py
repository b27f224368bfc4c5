"""Histories of made-up records and nights."""

from __future__ import annotations

from pathlib import Path

from stackwright.core.model.night import Margins, Morning, RowNight
from stackwright.core.model.record import Record
from stackwright.records import files as record
from stackwright.records.history import builds, nights
from stackwright.records.history.nights import Run


def filled(folder: Path, *records: Record) -> Path:
    """A history of these records."""
    for known in records:
        record.write(known, folder / "records")
    path = folder / "history.sqlite"
    with builds.opened(path) as db:
        builds.take_records(db, folder / "records")
    return path


def a_night(path: Path, run: str, row: RowNight, *, started: str, ended: bool = True) -> None:
    margins = Margins()
    with builds.opened(path) as db:
        begun = Run(id=run, started=started, matrix="matrix.yaml", locked=False, margins=margins)
        nights.begin(db, begun, {row.row: row.baseline})
        if ended:
            morning = Morning(
                run=run, started=started, finished=f"{started[:-1]}9Z", matrix="matrix.yaml", locked=False,
                margins=margins, rows=(row,),
            )  # fmt: skip
            nights.finish(db, morning)
