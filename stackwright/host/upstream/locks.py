"""``build.py lock``: ask for every row, then write; a row that fails does not undo the others."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from stackwright.core.compiled.source import Source
from stackwright.core.components.table import asking, compiled
from stackwright.core.errors import RejectedError, SiteError, StackwrightError
from stackwright.core.model.added.image import Folder
from stackwright.core.model.row import Base, Cell, Lock
from stackwright.core.model.site import Mirror, Site
from stackwright.core.model.target import platform_of
from stackwright.core.resolve import lockfile, resolve
from stackwright.core.resolve.additions import (
    Answers,
    apart,
    no_builder,
    of_folder,
    refusal,
    with_builders,
    without_remarks,
)
from stackwright.core.resolve.lockfile import Found, of_platform, write, write_found
from stackwright.core.resolve.requirements import (
    constraints,
    distribution_packages,
    of_wheels,
    overrides,
    platform,
    request,
    requirements,
    toolchain,
    with_additions,
)
from stackwright.host.files import replace_file
from stackwright.host.project import Project
from stackwright.host.runner import Completed, Runner
from stackwright.host.site import settings
from stackwright.host.upstream.sources import read_sources
from stackwright.host.upstream.states import STATE


def lock_rows(
    project: Project, wanted: Sequence[Cell], *, site: Site, runner: Runner, say: Callable[[str], None]
) -> None:
    """Write locks/<row>.txt for every wanted row. Raises the first error after the last row."""
    uv: dict[str, Any] = {"uv": settings.UV, "runner": runner, "environment": dict(site.uv)}
    ask = partial(compile_pins, **uv)
    errors: list[StackwrightError] = []
    for cell in wanted:
        rejection = resolve.check(cell)
        if rejection:
            say(f"{cell.id}: not locked, because {rejection.reason}; nearest: {rejection.nearest}")
            errors.append(RejectedError(f"{cell.id} cannot work: {rejection.reason}"))
            continue
        sources = tuple(addition.requirement for addition in compiled(cell))
        say(f"{cell.id}: asking for {', '.join((*(with_additions(cell) or requirements(cell)), *sources))}")
        try:
            now = partial(state, mirror=mirror(site, cell))
            read = partial(read_sources, addresses=dict(site.uv).values(), **uv)
            text = make(cell, state=now, ask=ask, read=read, extra=extra_indexes(site))
            found = lockfile.parse(text, cell.id)
            path = replace_file(project.lock_path(cell), text.encode())
            _refuse_unresolved(project, cell, found)
            _refuse_other_values(cell, found)
        except StackwrightError as error:
            errors.append(error)
            say(f"{cell.id}: {error}")
        else:
            say(f"{cell.id}: written to locks/{path.name}")
    if errors:
        raise errors[0]


def _refuse_unresolved(project: Project, cell: Cell, found: Lock) -> None:
    """Raise RejectedError where uv found no versions. The lock is kept, so that plan says why."""
    if found.refused:
        raise RejectedError(
            f"the package index has no versions that satisfy the row: {found.refused}",
            place=f"{cell.id} ({project.matrix.name}:{cell.line})",
            hint=f"change the row; ./build.py plan {cell.id} names the nearest one that works",
        )


def _refuse_other_values(cell: Cell, found: Lock) -> None:
    """Raise RejectedError where the lock has other values than the row. It is kept, so that plan says why."""
    clash = resolve.lock_clash(cell, found)
    if clash:
        rule, why = clash
        values = " with ".join(f"{name} {value}" for name, value in why.values)
        raise RejectedError(f"{cell.id} cannot work: {values}: {why.reason} (rule {rule.name})")


def mirror(site: Site, cell: Cell, kept: Path | None = None) -> Mirror | None:
    """That of the row's distribution, if the site knows one."""
    address = site.mirror_of(cell.os)
    return Mirror(address=address, kept=kept) if address else None


def document(project: Project, wanted: Sequence[Cell]) -> dict[str, Any]:
    """``lock --format json``: the locks of the wanted rows as they are now on the disk."""
    paths = {cell.id: project.lock_path(cell) for cell in wanted}
    found = {row: (path, lockfile.read(path)) for row, path in paths.items() if path.exists()}
    locks = [
        {
            "id": row,
            "path": str(path),
            "sha256": lock.sha256,
            "refused": lock.refused,
            "base": asdict(lock.base),
        }
        for row, (path, lock) in found.items()
    ]
    return {"version": 1, "locks": locks}


def extra_indexes(site: Site) -> tuple[str, ...]:
    """Return the addresses of the site's extra indexes, which uv asks before its default one."""
    return tuple(dict(site.uv).get("UV_INDEX", "").split())


Ask = Callable[..., Completed]
"""Of the index, about a row and requirement lines: as ``compile_pins`` does."""
Read = Callable[[Cell], tuple[Source, ...] | str]
"""Of what a row compiles: as ``read_sources`` does."""


def make(
    cell: Cell,
    *,
    state: Callable[[Cell], Base],
    ask: Ask,
    read: Read = lambda cell: (),
    extra: tuple[str, ...] = (),
) -> str:
    """Return the text of the lock. What uv refuses becomes part of it.

    ``state`` asks the mirror for the distribution's state, ``ask`` the index. ``read`` fetches what the row
    compiles from source, and reads what that needs. ``extra`` are the addresses of the site's extra indexes.
    """
    base, target = state(cell), platform_of(cell.platform)
    asked = [ask(cell, wanted) if wanted else None for wanted in (requirements(cell), toolchain(cell))]
    for answer in asked:
        if answer and not answer.ok:
            return write(
                cell.id,
                request(cell),
                base,
                refused=" ".join(answer.stderr.split()),
                more=of_platform(target),
            )
    alone, compiles = (answer.stdout if answer else "" for answer in asked)
    if not asking(cell):
        plain = Found(pins=without_remarks(alone), toolchain=without_remarks(compiles))
        return write_found(cell.id, request(cell), base, plain, target)
    answers = _with_additions(cell, ask, read)
    if isinstance(answers, str):
        return write(cell.id, request(cell), base, refused=answers, more=of_platform(target))
    given, sources = answers
    given = replace(given, alone=alone, toolchain=without_remarks(compiles), extra=extra)
    return write_found(cell.id, request(cell), base, apart(given, sources), target)


def _with_additions(cell: Cell, ask: Ask, read: Read) -> tuple[Answers, tuple[Source, ...]] | str:
    """Return uv's answers about a row with additions, and its sources; why there are none, as text."""
    sources = read(cell) if compiled(cell) else ()
    if isinstance(sources, str):
        return sources
    both = ask(cell, with_additions(cell, sources))
    if not both.ok:
        return refusal(both.stderr, cell)
    building = ask(cell, with_builders(both.stdout, sources)) if sources else None
    if building and not building.ok:
        return no_builder(building.stderr, sources)
    together = of_folder(both.stdout, cell.wheels) if cell.wheels else both.stdout
    return Answers(both=together, building=building.stdout if building else ""), sources


def state(cell: Cell, mirror: Mirror | None) -> Base:
    """Return the distribution as its mirror has it now."""
    return STATE[cell.provider](cell, distribution_packages(cell), mirror)


def compile_pins(
    cell: Cell,
    wanted: tuple[str, ...],
    *,
    uv: Path,
    runner: Runner,
    environment: Mapping[str, str],
    options: tuple[str | Path, ...] = ("--no-config",),
) -> Completed:
    """uv's answer, or its refusal. SiteError when the index did not answer."""
    own = wanted not in (requirements(cell), toolchain(cell))
    annotate = ["--emit-index-annotation" if asking(cell) else "--no-annotate"]
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        files = [
            *_file(folder, "overrides", overrides(cell)),
            *_file(folder, "constraints", (*constraints(cell), *(of_wheels(cell) if own else ()))),
            *_wheels(Path(folder), cell.wheels if own else None),
        ]
        answer = runner(
            [
                uv, "pip", "compile", "-", "--quiet", "--python-version", cell.python,
                "--python-platform", platform(cell.os, cell.platform),
                "--generate-hashes", "--only-binary", ":all:",
                "--no-header", "--no-emit-index-url", *annotate,
                # else uv fetches a Python of the row's version, which nothing here would run
                "--no-python-downloads", "--python", sys.executable,
                *options,
                *files,
            ],
            stdin="\n".join(wanted) + "\n",
            env=environment,
            timeout=600,
        )  # fmt: skip
    if not answer.ok and "No solution found" not in answer.stderr:
        first, *more = answer.stderr.strip()[-600:].splitlines() or ["it printed nothing"]
        details = tuple(line.strip() for line in more)
        raise SiteError(f"uv could not ask the package index: {first}", place=cell.id, details=details)
    return answer


def _wheels(folder: Path, wheels: Folder | None) -> list[str]:
    """Write a row's own wheels, and return the option of uv that names their folder."""
    if wheels is None:
        return []
    place = folder / "wheels"
    place.mkdir()
    for path, content in wheels.files:
        (place / path).write_bytes(content)
    return ["--find-links", str(place)]


def _file(folder: str, option: str, lines: tuple[str, ...]) -> list[str]:
    """Return the option of uv that names a file with these lines; nothing without lines."""
    if not lines:
        return []
    path = Path(folder) / f"{option}.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return [f"--{option}", str(path)]
