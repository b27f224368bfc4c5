"""Whether several builders signed the same image: each key is asked for alone, and counts once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stackwright.core.errors import AttestError, UsageError
from stackwright.publish.attest.keys import PublicKey
from stackwright.publish.attest.layers import chain
from stackwright.publish.attest.layers.chain import Chained
from stackwright.records.files import utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What holds of the image by the statements of one key."""

    key: PublicKey
    done: Chained


@dataclass(frozen=True, slots=True, kw_only=True)
class Signers:
    """``refused`` are keys by whose statements the image does not hold, each with the reason."""

    signed: tuple[Signed, ...]
    refused: tuple[tuple[PublicKey, AttestError], ...]
    threshold: int


def distinct(keys: Sequence[PublicKey], threshold: int | None) -> tuple[tuple[PublicKey, ...], int]:
    """Return the keys, each once, and how many of them have to hold: all, where nothing else is asked for.

    A bare key and a certificate over it are one signer; the certificate counts, because it has an end.
    """
    ordered = sorted(keys, key=lambda key: key.until is None)
    found = {key.id: key for key in reversed(ordered)}
    different = tuple({key.id: found[key.id] for key in keys}.values())
    needed = len(different) if threshold is None else threshold
    if needed > len(different):
        raise UsageError(
            f"--threshold {needed} asks for {needed} signers, and {len(different)} different keys are given",
            hint="name each signer's key: --key A.crt --key B.crt",
        )
    return different, needed


def verify(keys: Sequence[PublicKey], threshold: int, ask: Callable[[PublicKey], Chained]) -> Signers:
    """Check the image by each key alone. AttestError where fewer than ``threshold`` of them hold."""
    signed: list[Signed] = []
    refused: list[tuple[PublicKey, AttestError]] = []
    for key in keys:
        try:
            signed.append(Signed(key=key, done=ask(key)))
        except AttestError as error:
            if len(keys) == 1:
                raise
            refused.append((key, error))
    if len(signed) < threshold:
        raise AttestError(
            f"{len(signed)} of the {len(keys)} keys signed it, and {threshold} are asked for",
            hint="do not use the image; ask those who should have signed it",
            details=tuple(f"{key.place}: {error.headline}" for key, error in refused),
        )
    return Signers(signed=tuple(signed), refused=tuple(refused), threshold=threshold)


def document(found: Signers) -> dict[str, Any]:
    """``--format json``: as for one key, by the first that holds, and with more than one key all of them."""
    first = found.signed[0]
    whole = chain.document(first.done, first.key)
    if len(found.signed) + len(found.refused) == 1:
        return whole
    signers = [
        {
            "key": signer.key.id,
            "valid_until": utc(signer.key.until) if signer.key.until else None,
            "record": signer.done.row.record.started,
        }
        for signer in found.signed
    ]
    refused = [{"key": key.id, "cause": error.whole_cause} for key, error in found.refused]
    return {**whole, "threshold": found.threshold, "signers": signers, "refused": refused}


def lines(found: Signers) -> list[str]:
    """Return what a person reads: the image once, and who signed it."""
    first = found.signed[0]
    told = list(chain.lines(first.done, first.key))
    if len(found.signed) + len(found.refused) > 1:
        told += [
            f"  signer      {signer.key.id[:16]}…, whose record began on {signer.done.row.record.started}"
            for signer in found.signed
        ]
        told += [f"  no signer   {key.id[:16]}…: {error.first_line}" for key, error in found.refused]
        told.append(f"  signers     {len(found.signed)}, and {found.threshold} are asked for")
    return told
