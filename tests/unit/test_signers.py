"""How many signers: each key counts once, and fewer than asked for is an error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from stackwright.core.errors import AttestError, UsageError
from stackwright.publish.attest.keys import PublicKey
from stackwright.publish.attest.layers.chain import Chained
from stackwright.publish.signers import distinct, verify

DONE = cast("Chained", cast("Any", object()))
END = datetime(2030, 1, 1, tzinfo=UTC)


def key(name: str, place: str = "", until: datetime | None = None) -> PublicKey:
    pem = f"-----BEGIN PUBLIC KEY-----\n{name}\n-----END PUBLIC KEY-----\n".encode()
    return PublicKey(pem=pem, place=place or name, until=until)


FIRST, SECOND = key("AAAA"), key("BBBB")
CERTIFICATE = key("AAAA", "first.crt", END)


def holds(*signers: PublicKey) -> Any:
    def ask(asked: PublicKey) -> Chained:
        if asked.id not in {signer.id for signer in signers}:
            raise AttestError("nothing of it is signed by this key")
        return DONE

    return ask


@pytest.mark.parametrize(
    ("given", "threshold", "different", "needed"),
    [
        ((FIRST,), None, (FIRST,), 1),
        ((FIRST, SECOND), None, (FIRST, SECOND), 2),
        ((FIRST, SECOND), 1, (FIRST, SECOND), 1),
        ((FIRST, FIRST, SECOND), 2, (FIRST, SECOND), 2),
        ((FIRST, CERTIFICATE), None, (CERTIFICATE,), 1),
    ],
)
def test_a_key_that_is_given_twice_counts_once(
    given: tuple[PublicKey, ...],
    threshold: int | None,
    different: tuple[PublicKey, ...],
    needed: int,
) -> None:
    assert distinct(given, threshold) == (different, needed)


@pytest.mark.parametrize("given", [(FIRST,), (FIRST, FIRST), (FIRST, CERTIFICATE)])
def test_a_threshold_above_the_number_of_different_keys(given: tuple[PublicKey, ...]) -> None:
    with pytest.raises(UsageError, match="asks for 2 signers, and 1 different keys are given"):
        distinct(given, 2)


def test_both_signed_it() -> None:
    found = verify((FIRST, SECOND), 2, holds(FIRST, SECOND))
    assert [signer.key for signer in found.signed] == [FIRST, SECOND]
    assert found.refused == ()


def test_one_of_two_signed_it() -> None:
    with pytest.raises(AttestError, match="1 of the 2 keys signed it, and 2 are asked for") as error:
        verify((FIRST, SECOND), 2, holds(FIRST))
    assert error.value.details == ("BBBB: nothing of it is signed by this key",)
    found = verify((FIRST, SECOND), 1, holds(SECOND))
    assert [signer.key for signer in found.signed] == [SECOND]
    assert [refused for refused, _ in found.refused] == [FIRST]


def test_with_one_key_the_reason_is_said_as_it_is() -> None:
    with pytest.raises(AttestError, match="nothing of it is signed"):
        verify((FIRST,), 1, holds())
