"""A row as an image's own label has it: what is known of an image whose row is in no matrix here. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.compiled.needs import build_needs
from stackwright.core.components.table import COMMUNICATION, MODULES
from stackwright.core.config import own
from stackwright.core.model.added.distributions import Added, Compiled
from stackwright.core.model.labels import ROW, STACK
from stackwright.core.model.row import Base, Flavour, Lock, Mpi, ProviderName, Stack
from stackwright.core.render.configuration import USER
from stackwright.core.render.dockerfile import declared
from stackwright.core.resolve.resolve import nccl_code

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@,~-]{0,199}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def lock_of(labels: Mapping[str, str]) -> str:
    """Return the sha256 of the lock that the image was built by. ValueError where the label says none."""
    found = _document(labels).get("lock")
    if not isinstance(found, str) or not DIGEST.fullmatch(found):
        raise ValueError("it names no lock")
    return found


def base_of(labels: Mapping[str, str], suite: str) -> Base:
    """Return as much of the base as the label says: its packages are in no label."""
    return Base(os=_word(_document(labels), "os"), suite=suite, release="", date="", digest="", packages=())


def user_of(labels: Mapping[str, str]) -> str:
    """Return the row's user; the one of all other rows where the label says none that can be read."""
    try:
        said = _document(labels).get("user")
    except ValueError:
        said = None
    return said if isinstance(said, str) and re.fullmatch(own.USER, said, re.ASCII) else USER


def stack_of(labels: Mapping[str, str], lock: Lock) -> Stack:
    """Return the row. ValueError where the label is not as this release would write it for that row."""
    said = _document(labels)
    found = _stack(said, lock)
    written = declared(found)
    for name in sorted(said.keys() | written.keys()):
        if said.get(name) != written.get(name):
            raise ValueError(f"this release cannot read {name[:60]!r} in it")
    return found


def _stack(said: Mapping[str, Any], lock: Lock) -> Stack:
    nccl, mpi = _word(said, "nccl"), _mapping(said, "mpi")
    return Stack(
        id=_word(said, "id"), provider=ProviderName(_word(said, "provider")), os=_word(said, "os"),
        base=lock.base, python=_word(said, "python"), cuda=_word(said, "cuda"),
        cuda_runtime=_empty(said, "cuda_runtime"),
        cudnn=_empty(said, "cudnn"), nccl=nccl, nccl_code=nccl_code(nccl), gcc=_word(said, "gcc"),
        mpi=Mpi.of(_word(mpi, "flavour"), _word(mpi, "version")),
        communication=_versions({one.name: said[one.name] for one in COMMUNICATION if one.name in said}),
        frameworks=_versions(_known(_mapping(said, "frameworks"))), gpu_arch=_words(said, "gpu_arch"),
        flavour=Flavour(_word(said, "flavour")), test_on_gpu=False, patches=_words(said, "patches"),
        lock=lock, allowed=_words(said, "allowed"),
        pip=tuple(
            Added(name=name, version=version)
            for name, version in _versions(_mapping(said, "pip") if "pip" in said else {})
        ),
        compiled=tuple(_compiled(said, lock)) if "compile" in said else (),
    )  # fmt: skip


def _compiled(said: Mapping[str, Any], lock: Lock) -> Iterator[Compiled]:
    """Yield what was compiled from source; what it was compiled with is the lock's to say."""
    every = _mapping(said, "compile")
    for name in every:
        one = _mapping(every, name)
        yield Compiled(
            name=_match("compile", name), version=_word(one, "version"), sha256=_word(one, "sha256"),
            environment=_versions(_mapping(one, "environment")), needs=build_needs(name, lock),
        )  # fmt: skip


def _document(labels: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        found = json.loads(labels.get(STACK, ""))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the label {STACK} is no JSON") from error
    if not isinstance(found, dict) or found.get("id") != labels.get(ROW):
        raise ValueError(f"the labels {STACK} and {ROW} are not of one row")
    return found


def _mapping(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no object in it")
    return found


def _known(frameworks: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return them in the table's order. ValueError for one that this release does not know."""
    names = [module.name for module in MODULES]
    if unknown := sorted(set(frameworks) - set(names)):
        raise ValueError(f"this release does not know {unknown[0][:60]!r}")
    return {name: frameworks[name] for name in names if name in frameworks}


def _versions(named: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((_match(name, name), _word(named, name)) for name in named)


def _words(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = said.get(name, [])
    if not isinstance(found, list):
        raise ValueError(f"{name} is no list in it")
    return tuple(_match(name, one) for one in found)


def _empty(said: Mapping[str, Any], name: str) -> str:
    return "" if said.get(name) == "" else _word(said, name)


def _word(said: Mapping[str, Any], name: str) -> str:
    return _match(name, said.get(name))


def _match(name: str, value: Any) -> str:
    if not isinstance(value, str) or not WORD.fullmatch(value):
        raise ValueError(f"{name[:60]} is {str(value)[:60]!r} in it")
    return value
