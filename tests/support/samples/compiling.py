"""Rows that compile a distribution from source, and their locks."""

from __future__ import annotations

from rows import LOCK, SERIES, cell

from stackwright.core.compiled.source import Source
from stackwright.core.config import additions
from stackwright.core.model.row import Cell, Lock, Stack
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.additions import Answers, apart
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.resolve import resolve

SHA = "ab" * 32
ALONE = lockfile.pins(LOCK)


def compiling(*requirements: str, **env: str) -> Cell:
    given = [(requirement, (), tuple(env.items()), ()) for requirement in requirements]
    return cell(compile=additions.together(given))


def pin(name: str, version: str, *askers: str) -> str:
    remark = "".join(f"    #   {asker}\n" for asker in askers)
    return f"{name}=={version} \\\n    --hash=sha256:{'12' * 32}\n    # via\n{remark}"


SOURCE = Source(name="fast-op", version="1.2", sha256=SHA, requires=("einops", "torch"), needs=("cython>=3",))
EINOPS = pin("einops", "0.8.2")
CYTHON = pin("cython", "3.1")


def locked(row: Cell, *, both: str = ALONE + EINOPS, more: str = CYTHON) -> Lock:
    answers = Answers(alone=ALONE, both=both, building=both + more)
    text = lockfile.write_found(row.id, request(row), LOCK.base, apart(answers, (SOURCE,)))
    return lockfile.parse(text, "x")


def resolved(row: Cell, lock: Lock) -> Stack:
    found = resolve(row, lock, SERIES)
    assert isinstance(found, Stack), found
    return found
