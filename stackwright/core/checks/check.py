"""What a check is made of, and the small things that most of them need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stackwright.core.model.row import Stack, Tier, World

DOCKER = frozenset({World.DOCKER})
SIF = frozenset({World.SIF})
EVERYWHERE = frozenset(World)

Facts = Mapping[str, Any]


class MissingFact(Exception):
    """A fact that a check needs is absent: the check fails, because nothing was shown."""


class NotAsked(Exception):
    """There is nothing to judge, for a reason that another check fails for: the check is not run.

    Other checks do not wait for it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one judgement: ``problems`` is empty when the image is right."""

    problems: tuple[str, ...] = ()
    seen: str = ""


Judge = Callable[[Stack, Facts], Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One check. ``why`` is one plain sentence: what goes wrong for a user without it.

    ``needs`` are checks whose failure would make this one fail as well, and say nothing new: where one of
    them failed, this one is not asked. ``applies`` selects its rows: others have no such thing.
    """

    id: str
    tier: Tier
    why: str
    judge: Judge
    worlds: frozenset[World] = EVERYWHERE
    applies: Callable[[Stack], bool] = lambda stack: True
    needs: tuple[str, ...] = ()


def finding(problems: Iterable[str], seen: str = "") -> Finding:
    return Finding(problems=tuple(problems), seen=seen)


def take(facts: Facts, *path: str) -> Any:
    """The fact at a path. MissingFact if it is not there, or if the probe left an error instead."""
    value: Any = facts
    for depth, key in enumerate(path, start=1):
        if not isinstance(value, Mapping) or key not in value:
            error = value.get("error") if isinstance(value, Mapping) else None
            place = "/".join(path[:depth])
            raise MissingFact(f"the probe left no {place}" + (f": {error}" if error else ""))
        value = value[key]
    return value


LOUD = re.compile(
    r"(?i)\b(error|cannot|can't|could not|unable|denied|failed|no such|not found|undefined|refused|killed)\b"
)
"""What a line says that tells a cause."""
EXCEPTION = re.compile(r"\s*(?:\w+\.)*\w*(?:Error|Exception|Exit)\b: \S.*")
"""The last line of a traceback."""


def cause(output: str) -> str:
    """The line of a program's output that says why it failed; launchers frame it with rows of dashes."""
    lines = [line.strip() for line in output.splitlines() if re.search(r"\w", line)]
    raised = [line for line in lines if EXCEPTION.fullmatch(line)]
    loud = [line for line in lines if LOUD.search(line)]
    return next(iter((*raised[-1:], *loud[:1], *lines[-1:])), "it said nothing")


def same_release(declared: str, seen: str) -> bool:
    """Whether the version seen is the declared one, or a more exact form of it: 13 and 13.3.0."""
    wanted, found = numbers(declared), numbers(seen)
    return bool(wanted) and found[: len(wanted)] == wanted


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: 2.6.0+cu124 is (2, 6, 0)."""
    match = re.match(r"\d+(\.\d+)*", version.strip())
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def same(what: str, wanted: str, seen: str | None) -> Finding:
    """One field of the row against what the image shows."""
    if seen is not None and same_release(wanted, seen):
        return finding((), f"{what} {seen}")
    return finding([f"the row declares {what} {wanted}, the image has {seen or 'none'}"])


def listed(items: Iterable[str], limit: int = 5) -> str:
    """Items as a sentence shows them: not more than a few, and how many more there are."""
    every = list(items)
    rest = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + rest
