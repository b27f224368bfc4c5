"""What a reader of facts is given: the index, the mirrors, and a folder for what was read of a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from stackwright.audit.facts.index import Wheel
from stackwright.audit.facts.index import wheels as listed
from stackwright.core.errors import StackwrightError
from stackwright.core.model.target import AMD64, Platform
from stackwright.host.files import replace_file
from stackwright.host.runner import Runner

AT_ONCE = 4
"""Requests to the index at a time: it is a public server."""

FORMAT = 1
"""Of what is kept of a file; another one makes every file be read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a source for one entry of a table. ``why`` it cannot be asked: then there is no value."""

    table: str
    key: str
    value: Any = None
    source: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """``index`` is the address of the package index, ``mirror`` gives that of an os, or None.

    ``kept`` is a folder: what was read of a file is found again there by the file's hash. ``archives`` is the
    site's folder of sources.
    """

    index: str
    mirror: Callable[[str], str | None]
    kept: Path
    runner: Runner
    archives: Path | None = None

    def wheels(self, project: str, platform: Platform = AMD64) -> tuple[Wheel, ...]:
        return _wheels(self.index, project, platform)

    def once(self, sha256: str, question: str, read: Callable[[], Any]) -> Any:
        """Return the result of ``read`` for the file with this hash: read once, and cached."""
        name = hashlib.sha256(f"{FORMAT} {question} {sha256}".encode()).hexdigest()[:32]
        path = self.kept / f"{name}.json"
        if path.is_file():
            return json.loads(path.read_bytes())
        value = read()
        replace_file(path, json.dumps(value).encode())
        return value


@lru_cache(maxsize=256)
def _wheels(address: str, project: str, platform: Platform) -> tuple[Wheel, ...]:
    return listed(address, project, platform)


def ask(table: str, key: str, read: Callable[[], tuple[Any, str]]) -> Answer:
    """``read`` gives the value and its source. A source that cannot be reached is an answer too."""
    try:
        value, source = read()
    except StackwrightError as error:
        return Answer(table=table, key=key, why=error.cause)
    return Answer(table=table, key=key, value=value, source=source)


Question = tuple[str, str, Callable[[], tuple[Any, str]]]


def ask_all(questions: Iterable[Question]) -> Iterator[Answer]:
    """Several at a time, in their order."""
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        yield from pool.map(lambda question: ask(*question), questions)
