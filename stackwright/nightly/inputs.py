"""What the key of a row is made of, by name, and which of it changed. Pure."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

from jinja2 import meta

from stackwright.core.components.table import PATCHED
from stackwright.core.config.expand import OWN
from stackwright.core.model.night import ORDER, Change, Input, Kind
from stackwright.core.model.record import flatten
from stackwright.core.model.row import Cell, Lock
from stackwright.core.render.dockerfile import builds, declared, environment, values
from stackwright.core.render.sources import Sources
from stackwright.core.resolve import lockfile
from stackwright.host.project import Planned

PATCHES = f"{PATCHED.name}/patches/"
NOT_IN_THE_KEY = frozenset(("id", "line", "test_on_gpu", "components"))


def inputs(cell: Cell, planned: Planned, sources: Sources) -> tuple[Input, ...]:
    """Everything that the row's key depends on."""
    stack, recipe = planned.stack, planned.recipe
    files = {name: hashlib.sha256(content).hexdigest() for name, content in recipe.files}
    pairs = (
        *((Kind.VALUE, name, text) for name, text in written(cell)),
        *((Kind.DECLARED, name, text) for name, text in flatten(declared(stack))),
        *_of_lock(stack.lock),
        *((Kind.PATCH, name[3:], files[f"{PATCHES}{name}"]) for name in _patches(files)),
        *(
            (Kind.SOURCE, f"{name} {version}", sources.series.sha256)
            for name, version in stack.communication
            if name == PATCHED.name
        ),
        *((Kind.TEMPLATE, name, digest) for name, digest in _templates(planned, sources)),
        *(
            (Kind.SCRIPT, name, files[name])
            for name in files
            if name.endswith(".sh") or name.startswith("image/")
        ),
        *((Kind.CONTEXT, name, digest) for name, digest in files.items()),
    )
    return _sorted(pairs)


def of_lock(found: Lock) -> tuple[Input, ...]:
    """Return the part that index and mirror answered."""
    return _sorted(_of_lock(found))


def _sorted(pairs: Iterable[tuple[Kind, str, str]]) -> tuple[Input, ...]:
    return tuple(sorted(Input(kind=kind, name=name, value=value) for kind, name, value in pairs))


def declared_only(pairs: Iterable[tuple[str, str]]) -> tuple[Input, ...]:
    """Return the inputs that a record alone can name."""
    return tuple(Input(kind=Kind.DECLARED, name=name, value=value) for name, value in pairs)


def written(cell: Cell) -> Iterator[tuple[str, str]]:
    """Yield the row as a person wrote it, where it reaches the image."""
    own = {name: tuple(map(str, cell.value(name))) or None for name in OWN}
    own |= {"wheels": (str(cell.wheels),) if cell.wheels else None}
    fields = {**asdict(replace(cell, files=(), wheels=None)), **own, **dict(cell.components)}
    yield from flatten({name: value for name, value in fields.items() if name not in NOT_IN_THE_KEY})


def changes(old: Iterable[Input], new: Iterable[Input]) -> tuple[Change, ...]:
    """By kind and name, of the kinds of which something was known before.

    What only follows from another change is left out: hashes from versions, a context from all the rest.
    """
    before = {(entry.kind, entry.name): entry.value for entry in old}
    after = {(entry.kind, entry.name): entry.value for entry in new}
    known = {kind for kind, _ in before}
    if Kind.VALUE in known:
        known.discard(Kind.DECLARED)
    found = tuple(
        Change(kind=kind, name=name, old=before.get((kind, name), ""), new=after.get((kind, name), ""))
        for kind, name in sorted(before.keys() | after.keys(), key=lambda pair: (ORDER[pair[0]], pair[1]))
        if kind in known and before.get((kind, name)) != after.get((kind, name))
    )
    follows = _following({change.kind for change in found})
    return tuple(change for change in found if change.kind not in follows)


def _following(changed: set[Kind]) -> set[Kind]:
    versions = changed & {Kind.PACKAGE, Kind.COMPILER}
    return ({Kind.FILES} if versions else set()) | ({Kind.CONTEXT} if changed - {Kind.CONTEXT} else set())


def _of_lock(found: Lock) -> Iterator[tuple[Kind, str, str]]:
    base = found.base
    yield Kind.BASE, base.os, " ".join((base.release, base.date, base.digest[:12])).strip()
    for name, digest in base.images:
        yield Kind.BASE, name, digest
    for package in base.packages:
        yield Kind.DISTRIBUTION, package.name, package.version
    for package in found.packages:
        yield Kind.PACKAGE, package.name, package.version
    for package in (*found.builders, *found.toolchain):
        yield Kind.COMPILER, package.name, package.version
    lists = (
        lockfile.pins, lockfile.added_pins, lockfile.compiled_pins, lockfile.builder_pins,
        lockfile.toolchain_pins,
    )  # fmt: skip
    pins = "".join(of(found) for of in lists)
    yield Kind.FILES, "hashes", hashlib.sha256(pins.encode()).hexdigest()


def _patches(files: Iterable[str]) -> list[str]:
    return [name.rpartition("/")[2] for name in files if name.startswith(PATCHES)]


def _templates(planned: Planned, sources: Sources) -> Iterator[tuple[str, str]]:
    """Those that the Dockerfile is made of: a template of another base says nothing of this row."""
    base = str(values(planned.stack, sources)["base_template"])
    built = (part for build in builds(planned.stack) for part in (build.stage, build.install) if part)
    texts = dict(sources.templates)
    for name in sorted(_used("Dockerfile.j2", (base, *built), sources)):
        yield name, hashlib.sha256(texts[name].encode()).hexdigest()


@functools.lru_cache(maxsize=32)
def _used(name: str, of_row: tuple[str, ...], sources: Sources) -> frozenset[str]:
    """``of_row`` are those whose names are variables of an include: the base, and what components bring."""
    text = dict(sources.templates)[name]
    named = meta.find_referenced_templates(environment(sources).parse(text))
    found = {part for template in named for part in ((template,) if template else of_row)} - {name}
    return frozenset((name,)).union(*(_used(template, of_row, sources) for template in found))
