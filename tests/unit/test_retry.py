"""Which failures are worth a retry, alike for all who ask a server, and the one loop that retries."""

from __future__ import annotations

import pytest
import requests

from stackwright.host.retry import TRANSIENT_MESSAGE, Again, Patience, retried, transient_status
from stackwright.publish.registry import failures


@pytest.mark.parametrize(
    ("code", "transient"),
    [
        (400, False), (401, False), (403, False), (404, False), (408, True), (413, False), (425, True),
        (429, True), (500, True), (501, False), (502, True), (503, True), (504, True), (505, False),
        (507, False), (511, False), (520, True), (599, True),
    ],
)  # fmt: skip
def test_signing_and_publishing_retry_the_same_answers(code: int, transient: bool) -> None:
    response = requests.Response()
    response.status_code, response._content = code, b""
    final = failures.final(requests.HTTPError(response=response), "registry.example", "hpc", login=True)
    said_by_oras = f"Error: response status code {code}: no"
    assert transient_status(code) is transient
    assert (final is None) is transient
    assert bool(TRANSIENT_MESSAGE.search(said_by_oras)) is transient


AWAY = Again(why="it is away")


class Server:
    """Fails so many times, then answers."""

    def __init__(self, failures: int) -> None:
        self.left, self.asked, self.waits = failures, 0, list[float]()

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.left:
            raise OSError(f"failure {self.asked}")
        return "answer"

    def ask(self, patience: Patience, again: Again | None = AWAY) -> str:
        return retried(self, lambda error: again, patience, sleep=self.waits.append)


def test_pauses_grow_up_to_the_longest() -> None:
    server = Server(failures=7)
    assert server.ask(Patience()) == "answer"
    for wait, most in zip(server.waits, (1, 2, 4, 8, 16, 30, 30), strict=True):
        assert 0.75 * most <= wait <= most


def test_the_last_error_is_raised_when_patience_ends() -> None:
    server = Server(failures=9)
    with pytest.raises(OSError, match="failure 3"):
        server.ask(Patience(most=3))
    assert len(server.waits) == 2
    with pytest.raises(OSError, match="failure 4"):  # of the next call: the first pause is already too long
        server.ask(Patience(seconds=0.5))
    server = Server(failures=9)
    with pytest.raises(OSError, match="failure 4"):
        server.ask(Patience(seconds=0.5, fewest=4))


def test_a_wait_that_is_asked_for_is_kept() -> None:
    server = Server(failures=1)
    assert server.ask(Patience(), Again(wait=60.0)) == "answer"
    assert server.waits == [60.0]


def test_a_final_error_is_raised_at_once() -> None:
    server = Server(failures=1)
    with pytest.raises(OSError, match="failure 1"):
        server.ask(Patience(), None)
    assert server.waits == []
