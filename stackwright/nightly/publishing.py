"""Publish the rows of a night: a row that may not be published does not block the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stackwright import publish
from stackwright.core.errors import GateError, StackwrightError
from stackwright.core.model.night import Pushed
from stackwright.host.project import Planned
from stackwright.nightly.night import Publisher
from stackwright.publish.gate import DOCS


def publisher(host: str, base: str, make: Callable[[], publish.Publisher]) -> Publisher:
    """``make`` is called when there is something to publish: it may look for an engine."""
    return Publisher(place=f"{host}/{base}", push=lambda rows: push(make(), rows))


def push(by: publish.Publisher, rows: Sequence[Planned]) -> Mapping[str, Pushed | StackwrightError]:
    """Return the result of each row. The tags of rows that pass the gate move together, or none does.

    One whose image is gone from the engine, or that cannot be signed, would keep all others back each night.
    """
    found: dict[str, Pushed | StackwrightError] = {}
    for row in rows:
        if reasons := publish.refusals(by, row):
            hint = f"if that is meant: ./build.py publish {row.stack.id} --allow-less {row.stack.id}"
            found[row.stack.id] = GateError("; ".join(reasons), place=row.stack.id, hint=hint, details=DOCS)
    passed = [row for row in rows if row.stack.id not in found]
    for image in publish.publish_rows(by, passed, found.__setitem__) if passed else ():
        if not image.sif:
            found[image.row] = Pushed(
                reference=image.reference, digest=image.digest, tags=image.tags, sent_bytes=image.sent_bytes,
                present_bytes=image.present_bytes, pull_bytes=image.pull_bytes,
            )  # fmt: skip
    return found
