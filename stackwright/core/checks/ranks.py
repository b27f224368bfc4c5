"""What ranks gave, received and trained, compared: pure, for every layer that has ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

RANKS = 2
TOLERANCE = 1e-5
"""Relative: float32 over a few additions, in whichever order the ranks add."""
FALL = 0.5
"""The last loss over the first: the model reaches 0.02 in 30 steps; one that does not learn stays at 1."""

Rank = Mapping[str, Any]


def close(left: Any, right: Any) -> bool:
    """Whether numbers, or nested lists of them, are equal within float32; NaN is equal to nothing."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(close(one, two) for one, two in zip(left, right, strict=True))
    if isinstance(left, list) or isinstance(right, list):
        return False
    return bool(abs(left - right) <= TOLERANCE * max(1.0, abs(left), abs(right)))


def errors(ranks: Sequence[Rank]) -> list[str]:
    return [f"rank {rank['rank']}: {rank['error']}" for rank in ranks if rank.get("error")]


def allreduce(ranks: Sequence[Rank]) -> Iterator[str]:
    columns = list(zip(*(rank["given"] for rank in ranks), strict=True))
    total = [sum(column) for column in columns]
    mean = [value / len(ranks) for value in total]
    if len(ranks) > 1 and any(len(set(column)) == 1 for column in columns):
        yield "the ranks gave equal values, so that their sum shows nothing"
    for rank in ranks:
        for name, wanted in (("sum", total), ("average", mean)):
            if not close(rank[name], wanted):
                yield f"rank {rank['rank']} has the {name} {rank[name]}, and {wanted} is right"


def broadcast(ranks: Sequence[Rank]) -> Iterator[str]:
    values = {rank["rank"]: rank["given"] for rank in ranks}
    for rank in ranks:
        wanted = values.get(rank["root"])
        if wanted is None or not close(rank["broadcast"], wanted):
            yield f"rank {rank['rank']} received {rank['broadcast']}, rank {rank['root']} sent {wanted}"


def allgather(ranks: Sequence[Rank]) -> Iterator[str]:
    wanted = [row for rank in ranks for row in rank["rows"]]
    for rank in ranks:
        if not close(rank["allgather"], wanted):
            yield f"rank {rank['rank']} gathered {rank['allgather']}, and {wanted} is right"


def agrees(ranks: Sequence[Rank]) -> Iterator[str]:
    """Equal weights say something only if weights and data were different before."""
    first = ranks[0]
    for rank in ranks[1:]:
        pair = f"ranks {first['rank']} and {rank['rank']}"
        if rank["data"] == first["data"] or rank["training"]["before"] == first["training"]["before"]:
            yield f"{pair} began with the same data or weights, so that equal weights show nothing"
        if not close(rank["training"]["after"], first["training"]["after"]):
            yield f"{pair} ended with different weights"
    if first["training"]["before"] == first["training"]["after"]:
        yield "the weights did not change"
    if len(ranks) < RANKS:
        yield "there is no second rank to agree with"


def learns(ranks: Sequence[Rank]) -> Iterator[str]:
    for rank in ranks:
        losses = rank["training"]["losses"]
        if len(losses) < 2 or not losses[-1] < FALL * losses[0]:
            shown = f"from {losses[0]:.3g} to {losses[-1]:.3g}" if losses else "nowhere"
            yield f"rank {rank['rank']}: the loss went {shown}"
