"""What the key of a row is made of, by name, and which of it changed. Pure."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from jinja2 import meta

from stackwright.core.model.night import ORDER, Change, Input, Kind
from stackwright.core.model.record import flatten
from stackwright.core.model.row import Cell, Lock
from stackwright.core.render.dockerfile import Sources, declared, environment, values
from stackwright.core.resolve import lockfile
from stackwright.host.project import Planned

NOT_IN_THE_KEY = frozenset(("id", "line", "test_on_gpu"))


def inputs(cell: Cell, planned: Planned, sources: Sources) -> tuple[Input, ...]:
    """Everything that the row's key depends on."""
    stack, recipe = planned.stack, planned.recipe
    files = {name: hashlib.sha256(content).hexdigest() for name, content in recipe.files}
    pairs = (
        *((Kind.VALUE, name, text) for name, text in written(cell)),
        *((Kind.DECLARED, name, text) for name, text in flatten(declared(stack))),
        *_of_lock(stack.lock),
        *((Kind.PATCH, name[3:], files[f"horovod/patches/{name}"]) for name in _patches(files)),
        (Kind.SOURCE, f"horovod {stack.horovod}", sources.series.sha256),
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
    """The part that index and mirror answered."""
    return _sorted(_of_lock(found))


def _sorted(pairs: Iterable[tuple[Kind, str, str]]) -> tuple[Input, ...]:
    return tuple(sorted(Input(kind=kind, name=name, value=value) for kind, name, value in pairs))


def declared_only(pairs: Iterable[tuple[str, str]]) -> tuple[Input, ...]:
    """What a record alone still says of the inputs of its key."""
    return tuple(Input(kind=Kind.DECLARED, name=name, value=value) for name, value in pairs)


def written(cell: Cell) -> Iterator[tuple[str, str]]:
    """The row as a person wrote it, where it reaches the image."""
    fields = {name: value for name, value in asdict(cell).items() if name not in NOT_IN_THE_KEY}
    yield from flatten(fields)


def changes(old: Iterable[Input], new: Iterable[Input]) -> tuple[Change, ...]:
    """By kind and name, of the kinds of which something was known before.

    What only follows from another change is left out: hashes from versions, a context from all the rest.
    """
    before = {(one.kind, one.name): one.value for one in old}
    after = {(one.kind, one.name): one.value for one in new}
    known = {kind for kind, _ in before}
    if Kind.VALUE in known:
        known.discard(Kind.DECLARED)
    found = tuple(
        Change(kind=kind, name=name, old=before.get((kind, name), ""), new=after.get((kind, name), ""))
        for kind, name in sorted(before.keys() | after.keys(), key=lambda one: (ORDER[one[0]], one[1]))
        if kind in known and before.get((kind, name)) != after.get((kind, name))
    )
    follows = _following({one.kind for one in found})
    return tuple(one for one in found if one.kind not in follows)


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
    for package in found.toolchain:
        yield Kind.COMPILER, package.name, package.version
    pins = lockfile.pins(found) + lockfile.toolchain_pins(found)
    yield Kind.FILES, "hashes", hashlib.sha256(pins.encode()).hexdigest()


def _patches(files: Iterable[str]) -> list[str]:
    return [name.rpartition("/")[2] for name in files if name.startswith("horovod/patches/")]


def _templates(planned: Planned, sources: Sources) -> Iterator[tuple[str, str]]:
    """Those that the Dockerfile is made of: a template of another base says nothing of this row."""
    base = str(values(planned.stack, sources)["base_template"])
    texts = dict(sources.templates)
    for name in sorted(_used("Dockerfile.j2", base, sources)):
        yield name, hashlib.sha256(texts[name].encode()).hexdigest()


@functools.lru_cache(maxsize=32)
def _used(name: str, base: str, sources: Sources) -> frozenset[str]:
    """``base`` stands for the one include whose name is a variable."""
    text = dict(sources.templates)[name]
    named = meta.find_referenced_templates(environment(sources).parse(text))
    found = {one or base for one in named}
    return frozenset((name,)).union(*(_used(one, base, sources) for one in found))
