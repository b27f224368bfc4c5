"""Asks index, mirror and registry afresh for many rows: each question once, for all rows that share it.

Nothing of the project is written, and nothing of yesterday stands in for an answer that did not come.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from stackwright.core.errors import SiteError, StackwrightError
from stackwright.core.model.row import Base, Cell, Lock
from stackwright.core.model.site import Site
from stackwright.core.resolve import lockfile, resolve
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.core.resolve.requirements import asked, distribution_packages, question
from stackwright.host.defects import internal_error
from stackwright.host.runner import Completed, Runner
from stackwright.host.site import settings
from stackwright.host.site.settings import index_address
from stackwright.host.upstream.locks import compile_pins, extra_indexes, make, mirror, state
from stackwright.host.upstream.sources import read_sources

AT_ONCE = 4
"""Questions to the index, and as many to mirror and registry, which are others' servers: uv asks for many
pages at once, and questions that wait find the pages of those that did not."""

SAME_NIGHT = 30
"""Seconds for which a page of the index is not asked for again: rows that ask a little later share it."""

Question: TypeAlias = tuple[object, ...]
T = TypeVar("T")
Q = TypeVar("Q", bound=Hashable)
A = TypeVar("A")
Answer: TypeAlias = T | StackwrightError
Answers: TypeAlias = Mapping[str, Answer[Lock]]
"""By row: its lock as of now, or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """``kept`` is a folder for what index and mirror said and say again; ``same_night`` is in seconds.

    ``digest`` asks the registry what NAME:TAG leads to.
    """

    site: Site
    runner: Runner
    kept: Path
    digest: Callable[[str], str]
    same_night: int = SAME_NIGHT


def fresh_locks(upstream: Upstream, cells: Sequence[Cell]) -> Answers:
    """Of the rows that no rule refuses before a lock is made."""
    possible = [cell for cell in cells if resolve.check(cell) is None]
    with tempfile.TemporaryDirectory(prefix="stackwright-") as private:
        try:
            asker = _asker(upstream, Path(private))
        except SiteError as error:
            return {cell.id: error for cell in possible}
        with (
            ThreadPoolExecutor(max_workers=AT_ONCE) as pool,
            ThreadPoolExecutor(max_workers=AT_ONCE) as index,
        ):
            bases = {_state_question(cell): cell for cell in possible}
            tags = {name: name for cell in possible for name in _tagged(upstream.site, cell)}
            pins = {question(cell, wanted): (cell, wanted) for cell in possible for wanted in asked(cell)}
            asked_bases = _each(pool, bases, partial(_state, upstream))
            asked_pins = _each(index, pins, lambda pair: compile_pins(*pair, **asker))
            asked_digests = _each(pool, tags, upstream.digest)
            found = asked_bases(), asked_digests(), asked_pins()
            questions = Questions(asker=asker, bases=found[0], digests=found[1], pins=found[2])
            return {cell.id: _answered(partial(_lock, upstream.site, cell, questions)) for cell in possible}


def _state_question(cell: Cell) -> Question:
    return cell.provider, cell.os, cell.cuda, distribution_packages(cell)


def _state(upstream: Upstream, cell: Cell) -> Base:
    return state(cell, mirror(upstream.site, cell, upstream.kept / "mirror"))


def _tagged(site: Site, cell: Cell) -> tuple[str, ...]:
    """None where images are handed in: what the engine has is what they are."""
    return PROVIDERS[cell.provider].tagged(cell) if site.images else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Answers by question. ``asker`` is how uv is asked: what a source needs is a question of one row."""

    asker: Mapping[str, Any]
    bases: Mapping[Question, Answer[Base]]
    digests: Mapping[str, Answer[str]]
    pins: Mapping[Question, Answer[Completed]]

    def ask(self, cell: Cell, wanted: tuple[str, ...]) -> Completed:
        known = self.pins.get(question(cell, wanted))
        return compile_pins(cell, wanted, **self.asker) if known is None else _got(known, cell)


def _lock(site: Site, cell: Cell, found: Questions) -> Lock:
    images = tuple((name, _got(found.digests[name], cell)) for name in _tagged(site, cell))
    text = make(
        cell,
        state=lambda cell: replace(_got(found.bases[_state_question(cell)], cell), images=images),
        ask=found.ask,
        read=partial(read_sources, addresses=dict(site.uv).values(), **found.asker),
        extra=extra_indexes(site),
    )
    return lockfile.parse(text, cell.id)


def _got(answer: Answer[T], cell: Cell) -> T:
    if isinstance(answer, StackwrightError):  # another row may have asked: the place is that of this one
        raise type(answer)(answer.cause, place=cell.id, hint=answer.hint, details=answer.details)
    return answer


def _each(
    pool: ThreadPoolExecutor, questions: Mapping[Q, A], ask: Callable[[A], T]
) -> Callable[[], dict[Q, Answer[T]]]:
    """Ask all at once; the function returned waits for the answers."""
    futures = {
        question: pool.submit(_answered, partial(ask, argument)) for question, argument in questions.items()
    }
    return lambda: {question: future.result() for question, future in futures.items()}


def _answered(ask: Callable[[], T]) -> Answer[T]:
    """Return an error as an answer, so that it does not stop the other questions."""
    try:
        return ask()
    except StackwrightError as error:
        return error
    except Exception as defect:
        return internal_error(defect)


# -- uv --------------------------------------------------------------------------------------------


def _asker(upstream: Upstream, private: Path) -> dict[str, Any]:
    """uv with its own cache, told how long what it holds is good: an index need not say so itself."""
    environment = dict(upstream.site.uv)
    config = private / "uv.toml"
    descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # an address may hold a login
    with os.fdopen(descriptor, "w") as file:
        file.write(_config(index_address(upstream.runner, upstream.site), upstream.same_night))
    environment |= {"UV_DEFAULT_INDEX": "", "UV_INDEX_URL": ""}  # they would go before the file's
    return {
        "uv": settings.UV,
        "runner": upstream.runner,
        "environment": environment,
        "options": ("--config-file", config, "--cache-dir", upstream.kept / "uv"),
    }


def _config(index: str, seconds: int) -> str:
    """A file of an index never changes under its name: its hash is in the lock. A page does."""
    control = f'{{ api = "max-age={seconds}", files = "max-age=365000000, immutable" }}'
    return f"[[index]]\nurl = {json.dumps(index)}\ndefault = true\ncache-control = {control}\n"
