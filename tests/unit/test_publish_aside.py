"""A row that cannot be pushed, and the others of its night."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
import rows as samples

from stackwright.core.errors import AttestError, PublishError, StackwrightError
from stackwright.core.model.night import Pushed
from stackwright.core.render import dockerfile
from stackwright.host.project import Planned
from stackwright.nightly import publishing
from stackwright.publish import Published, Publisher
from stackwright.publish import rows as publishes
from stackwright.publish.registry.client import Access

UNSIGNED = AttestError("nothing is signed: the facts are of another probing")
GIVEN_UP = PublishError("given up after 300 s")
GIVEN_UP.away = True


def row(id: str) -> Planned:
    stack = samples.stack(id=id)
    return Planned(stack=stack, recipe=dockerfile.render(stack, samples.SOURCES))


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rows whose tags moved; one that is called "unsigned" or "away" cannot be pushed."""
    seen: list[str] = []

    def pushed(by: Publisher, planned: Planned) -> Iterator[Published]:
        if error := {"unsigned": UNSIGNED, "away": GIVEN_UP}.get(planned.stack.id):
            raise error
        yield Published(
            row=planned.stack.id, reference="host/x@sha256:1", digest="sha256:1", tags=(), sent_bytes=0,
            present_bytes=0,
        )  # fmt: skip

    def move(by: Publisher, published: tuple[Published, ...]) -> None:
        seen.extend(image.row for image in published)

    doubles: dict[str, Any] = {
        "_pushed": pushed, "_move": move, "_set_fixed": lambda by, image: None,
        "alone": lambda by: nullcontext(), "foretell": lambda by, rows: (),
    }  # fmt: skip
    for name, double in doubles.items():
        monkeypatch.setattr(publishes, name, double)
    monkeypatch.setattr("stackwright.publish.moving.finish", lambda folder, proxies, say: None)
    monkeypatch.setattr("stackwright.publish.refusals", lambda by, row: ())
    return seen


class Nowhere:
    folder = say = None
    registry = SimpleNamespace(access=Access(host="registry.example"))


def night(*ids: str) -> dict[str, Pushed | StackwrightError]:
    by = cast("Publisher", Nowhere())
    return publishing.publisher("host", "x", lambda: by).pushed([row(id) for id in ids])


def test_one_that_cannot_be_signed_keeps_no_other_from_its_tags(moved: list[str]) -> None:
    found = night("one", "unsigned", "two")
    assert moved == ["one", "two"]
    assert found["unsigned"] is UNSIGNED
    assert isinstance(found["one"], Pushed) and isinstance(found["two"], Pushed)


def test_where_none_can_be_pushed_no_tag_moves(moved: list[str]) -> None:
    assert night("unsigned") == {"unsigned": UNSIGNED}
    assert moved == []


def test_a_registry_that_is_away_is_waited_for_once(moved: list[str]) -> None:
    assert night("one", "away", "unsigned") == dict.fromkeys(("one", "away", "unsigned"), GIVEN_UP)
    assert moved == []


def test_a_command_publishes_all_of_its_rows_or_none(moved: list[str]) -> None:
    with pytest.raises(AttestError):
        publishes.publish_rows(cast("Publisher", Nowhere()), [row("one"), row("unsigned")])
    assert moved == []
