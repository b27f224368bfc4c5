"""Rows to shards: those that share stages stay together, and shards take about the same time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stackwright.nightly.ci.estimates import Work

MOST_JOBS = 256
"""Of all matrices of a run: docs.github.com, "Actions limits", job matrix."""

OTHER_JOBS = 6
"""Most jobs that a workflow has besides its shards."""

ROOMIER = 1.25
"""How much more time a shard gets in each round that ends with too many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """``minutes`` is what it takes with nothing in the cache, each shared step counted once."""

    rows: tuple[str, ...]
    minutes: int


def shards(works: Sequence[Work], *, minutes: float, most: int = MOST_JOBS - OTHER_JOBS) -> tuple[Shard, ...]:
    """Shards of at most ``minutes``, or of as few more as make at most ``most`` of them.

    Rows are parted only where they take longer together, and then along what is cheapest to do twice. A row
    that takes longer alone is a shard by itself. The same rows give the same shards, in whatever order.
    """
    ordered = tuple(sorted(works, key=lambda work: work.row))
    limit = minutes * 60
    while len(found := _packed(_groups(ordered, limit), limit)) > most:
        limit *= ROOMIER
    told = (Shard(rows=_names(group), minutes=round(seconds(group) / 60)) for group in found)
    return tuple(sorted(told, key=lambda shard: shard.rows))


def seconds(works: Iterable[Work]) -> float:
    """Of these rows on one machine: what they share is done once."""
    works = tuple(works)
    steps = {identity: took for work in works for identity, took in work.shared.items()}
    return sum(steps.values()) + sum(work.own for work in works)


Group = tuple[Work, ...]


def _groups(works: Group, limit: float) -> list[Group]:
    """Parted by the step that saves most by being shared by some, until each takes at most ``limit``."""
    if len(works) < 2 or seconds(works) <= limit:
        return [works] if works else []
    costs = {identity: took for work in works for identity, took in work.shared.items()}
    counts = Counter(identity for work in works for identity in work.shared)
    saved = {identity: (count - 1) * costs[identity] for identity, count in counts.items()}
    partly = [identity for identity, count in counts.items() if 1 < count < len(works)]
    if partly:
        best = max(partly, key=lambda identity: (saved[identity], identity))
        having = tuple(work for work in works if best in work.shared)
        others = tuple(work for work in works if best not in work.shared)
    else:
        having, others = works[: len(works) // 2], works[len(works) // 2 :]
    return _groups(having, limit) + _groups(others, limit)


def _packed(groups: Sequence[Group], limit: float) -> list[Group]:
    """Small groups into one job, each where it adds least: the longest first, as in best-fit decreasing."""
    bins: list[_Bin] = []
    for group in sorted(groups, key=lambda group: (-seconds(group), _names(group))):
        more = [(shard.adds(group), index) for index, shard in enumerate(bins)]
        fitting = [(extra, index) for extra, index in more if bins[index].seconds + extra <= limit]
        if fitting:
            bins[min(fitting)[1]].add(group)
        else:
            bins.append(_Bin(group))
    return [shard.group for shard in bins]


class _Bin:
    def __init__(self, group: Group) -> None:
        self.group: Group = ()
        self.seconds = 0.0
        self._steps: set[str] = set()
        self.add(group)

    def add(self, group: Group) -> None:
        self.seconds += self.adds(group)
        self.group += group
        self._steps.update(*(work.shared for work in group))

    def adds(self, group: Group) -> float:
        new = {name: took for work in group for name, took in work.shared.items() if name not in self._steps}
        return sum(new.values()) + sum(work.own for work in group)


def _names(group: Group) -> tuple[str, ...]:
    return tuple(sorted(work.row for work in group))
