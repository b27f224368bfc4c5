"""A row as an image's own label has it: what is known of an image whose row is in no matrix here. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from stackwright.core.archive import Release
from stackwright.core.benchmarks import nccl_tests
from stackwright.core.compiled import rules as of_sources
from stackwright.core.compiled.needs import build_needs
from stackwright.core.components.table import COMMUNICATION, MODULES, TOOLS, compiled, of
from stackwright.core.config import additions
from stackwright.core.config import own as own_notation
from stackwright.core.model.added.distributions import Added, Addition, Compiled
from stackwright.core.model.added.image import Folder, Variable
from stackwright.core.model.added.tools import Tool
from stackwright.core.model.labels import ROW, STACK
from stackwright.core.model.row import Base, Cell, Flavour, Lock, Mpi, Package, ProviderName, Stack
from stackwright.core.model.target import AMD64, PLATFORMS, Platform
from stackwright.core.ofi import plugin
from stackwright.core.render.configuration import USER
from stackwright.core.render.dockerfile import declared
from stackwright.core.resolve.resolve import nccl_code
from stackwright.core.rules import own
from stackwright.core.rules.rule import Clash, Ruling, weigh

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@,~-]{0,199}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
PACKAGE_VERSION = r"[0-9][0-9A-Za-z.+:~-]{0,99}"
"""Of the distribution, with an epoch and a revision (Debian's policy manual, 5.6.12)."""


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
    return said if isinstance(said, str) and re.fullmatch(own_notation.USER, said, re.ASCII) else USER


def copies(labels: Mapping[str, str]) -> bool:
    """Tell whether the row copied folders in: the label has a digest of each, and no names of files."""
    return bool(_document(labels).get("files"))


def stack_of(labels: Mapping[str, str], lock: Lock, files: Mapping[str, str] = MappingProxyType({})) -> Stack:
    """Return the row. ValueError where the label is not as this release would write it for that row.

    ``files`` has the SHA-256 of each file of the image: what is in a folder that the row copied in.
    """
    said = _document(labels)
    found = _stack(said, lock, files)
    _refuse(found)
    written = declared(found)
    for name in sorted(said.keys() | written.keys()):
        if said.get(name) != written.get(name):
            raise ValueError(f"this release cannot read {name[:60]!r} in it")
    return found


def _refuse(found: Stack) -> None:
    """Raise ValueError for what no row may add: everyone can write a label."""
    cell = _cell(found)
    for rule in (*own.RULES, *of_sources.RULES):
        answer = rule.ask(cell)
        if isinstance(answer, Clash) and weigh(rule, answer, cell.allow) is Ruling.REFUSES:
            raise ValueError(f"it says what no row has: {answer.reason}")


def _cell(found: Stack) -> Cell:
    """Return the row as a person may have written it, as far as rules on what it adds read it."""
    wanted = tuple(
        Addition(requirement=f"{package.name}=={package.version}", environment=_apart(package, found))
        for package in found.compiled
        if package.name not in [layer.package for layer in of(found.communication)]
    )
    return Cell(
        id=found.id, provider=found.provider, os=found.os, python=found.python, mpi=found.mpi,
        components=tuple(sorted((*found.frameworks, *found.communication))), compile=wanted,
        build_env=found.build_env, apt=tuple(package.name for package in found.apt), env=found.env,
        allow=found.allowed, platform=found.platform.named,
    )  # fmt: skip


def _apart(package: Compiled, found: Stack) -> tuple[tuple[str, str], ...]:
    shared = [variable.name for variable in found.build_env]
    return tuple(pair for pair in package.environment if pair[0] not in shared)


def _stack(said: Mapping[str, Any], lock: Lock, files: Mapping[str, str]) -> Stack:
    nccl, mpi = _word(said, "nccl"), _mapping(said, "mpi")
    return Stack(
        id=_word(said, "id"), provider=ProviderName(_word(said, "provider")), os=_word(said, "os"),
        base=lock.base, python=_word(said, "python"), cuda=_word(said, "cuda"),
        cuda_runtime=_empty(said, "cuda_runtime"),
        cudnn=_empty(said, "cudnn"), nccl=nccl, nccl_code=nccl_code(nccl), gcc=_word(said, "gcc"),
        mpi=Mpi.of(_word(mpi, "flavour"), _word(mpi, "version")),
        communication=_versions(
            {layer.name: said[layer.name] for layer in COMMUNICATION if layer.name in said}
        ),
        frameworks=_versions(_known(_mapping(said, "frameworks"))), gpu_arch=_words(said, "gpu_arch"),
        flavour=Flavour(_word(said, "flavour")), test_on_gpu=False, patches=_words(said, "patches"),
        lock=lock, allowed=_words(said, "allowed"), **_added(said, lock), **_of_image(said, files),
        tools=tuple(_tools(said)), platform=_platform(said),
        nccl_tests=_archived(said, nccl_tests.NAME, nccl_tests.BY_VERSION),
        plugin=_archived(said, plugin.NAME, plugin.BY_VERSION),
    )  # fmt: skip


def _archived(said: Mapping[str, Any], name: str, table: Mapping[str, Release]) -> str:
    """Return the row's release of what is compiled from an archive: one of the table."""
    release = said.get(name, "")
    if release and release not in table:
        raise ValueError(f"no release of {name} is called {str(release)[:60]!r}")
    return str(release)


def _added(said: Mapping[str, Any], lock: Lock) -> dict[str, Any]:
    """Return the distributions that it adds, and those that are compiled for it."""
    named = _optional(said, "import")
    modules = {name: _listed(named, name, additions.MODULES) for name in named}
    return {
        "pip": tuple(
            Added(name=name, version=version, modules=modules.get(name, ()))
            for name, version in _versions(_optional(said, "pip"))
        ),
        "compiled": tuple(_compiled(said, lock, modules)),
        "build_env": _variables(said, "build-env", additions.VARIABLE, own_notation.SETTING),
    }


def _of_image(said: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """Return what else it adds to its image."""
    apt = _pairs(said, "apt", own_notation.PACKAGE, PACKAGE_VERSION)
    wheels = _pairs(said, "wheels", WORD.pattern, DIGEST.pattern)
    user = said.get("user")
    return {
        "apt": tuple(Package(name=name, version=version) for name, version in apt),
        "env": _variables(said, "env", own_notation.VARIABLE, own_notation.VALUE),
        "files": tuple(_folders(_pairs(said, "files", own_notation.PLACE, DIGEST.pattern), files)),
        "ports": _listed(said, "ports", own_notation.OWN_PORT),
        "entrypoint": _listed(said, "entrypoint", own_notation.WORD),
        "user": None if user is None else _match("user", user, own_notation.USER),
        "wheels": Folder(source="", place="", hashes=wheels) if wheels else None,
    }


def _folders(digests: Iterable[tuple[str, str]], files: Mapping[str, str]) -> Iterator[Folder]:
    """Yield each folder; a file is of the innermost one that it is below."""
    wanted = dict(digests)
    found: dict[str, dict[str, str]] = {place: {} for place in wanted}
    for path, sha256 in files.items():
        above = [place for place in wanted if path.startswith(f"{place}/")]
        if above:
            found[max(above, key=len)][path] = sha256
    yield from (_folder(place, sha256, found[place]) for place, sha256 in wanted.items())


def _folder(place: str, sha256: str, files: Mapping[str, str]) -> Folder:
    """Return a folder with those files of the image, where they are the ones that the label means."""
    below = ((path.removeprefix(f"{place}/"), digest) for path, digest in files.items())
    ordered = sorted(below, key=lambda item: item[0].split("/"))
    found = Folder(source="", place=place, hashes=tuple(ordered))
    return found if ordered and found.sha256 == sha256 else Folder(source="", place=place, digest=sha256)


def _variables(said: Mapping[str, Any], field: str, name: str, value: str) -> tuple[Variable, ...]:
    return tuple(Variable(name=key, value=found) for key, found in sorted(_pairs(said, field, name, value)))


def _pairs(said: Mapping[str, Any], field: str, name: str, value: str) -> tuple[tuple[str, str], ...]:
    found = _optional(said, field)
    return tuple((_match(field, key, name), _match(field, found[key], value)) for key in found)


def _optional(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _mapping(said, name) if name in said else {}


def _platform(said: Mapping[str, Any]) -> Platform:
    named = said.get("platform", AMD64.name)
    if named not in PLATFORMS:
        raise ValueError(f"this release does not know the platform {str(named)[:60]!r}")
    return PLATFORMS[named]


def _tools(said: Mapping[str, Any]) -> Iterator[Tool]:
    every = _optional(said, "tools")
    for tool in TOOLS:
        if tool.name in every:
            described = _mapping(every, tool.name)
            port = int(_match("port", described.get("port"), own_notation.NUMBER))
            yield Tool(name=tool.name, version=_word(described, "version"), port=port)


def _compiled(
    said: Mapping[str, Any], lock: Lock, modules: Mapping[str, tuple[str, ...]]
) -> Iterator[Compiled]:
    """Yield what was compiled from source; what it was compiled with is the lock's to say."""
    every, of_layers = _optional(said, "compile"), _modules_of_layers(said)
    for name in every:
        described = _mapping(every, name)
        yield Compiled(
            name=_match("compile", name), version=_word(described, "version"),
            sha256=_match("compile", described.get("sha256"), DIGEST.pattern), needs=build_needs(name, lock),
            environment=_pairs(described, "environment", additions.VARIABLE, own_notation.SETTING),
            modules=modules.get(name, of_layers.get(name, ())),
        )  # fmt: skip


def _modules_of_layers(said: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return what is imported of the layers that are compiled from source, by the layer's distribution."""
    layers = {layer.name: _word(said, layer.name) for layer in COMMUNICATION if layer.name in said}
    cell = Cell(
        id="", provider=ProviderName.DEBIAN, os="", python="", mpi=Mpi.of("openmpi", "0"),
        components=tuple(layers.items()),
    )  # fmt: skip
    return {additions.name(addition): addition.modules for addition in compiled(cell)}


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
    return _listed(said, name, WORD.pattern)


def _listed(said: Mapping[str, Any], name: str, pattern: str) -> tuple[str, ...]:
    found = said.get(name, [])
    if not isinstance(found, list):
        raise ValueError(f"{name} is no list in it")
    return tuple(_match(name, entry, pattern) for entry in found)


def _empty(said: Mapping[str, Any], name: str) -> str:
    return "" if said.get(name) == "" else _word(said, name)


def _word(said: Mapping[str, Any], name: str) -> str:
    return _match(name, said.get(name))


def _match(name: str, value: Any, pattern: str = WORD.pattern) -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
        raise ValueError(f"{name[:60]} is {str(value)[:60]!r} in it")
    return value
