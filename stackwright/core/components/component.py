"""What a component of an image is: a value that says all that the rest of Stackwright knows of it.

Adding one is a file of this folder, a line of ``table.py`` and a program in ``probes/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from packaging.specifiers import SpecifierSet

from stackwright.core.checks.check import Rule as Check
from stackwright.core.components.shared.vulnerability import Vulnerability
from stackwright.core.facts.gpu_code import Table
from stackwright.core.facts.provenance import Provenance
from stackwright.core.facts.wheels import Wheels
from stackwright.core.launch.recipe import Line, Site, Target
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell, Stack, Tier
from stackwright.core.render.sources import Sources
from stackwright.core.rules.rule import CellRule, ExtraRule, LockRule

Launcher = Callable[[Target, Site, tuple[str, ...]], Line]


class Kind(StrEnum):
    """FRAMEWORK: trains on a GPU. COMMUNICATION: moves gradients between ranks. EXTENSION: sits on a
    framework. TOOL: a server for a browser."""

    FRAMEWORK = "framework"
    COMMUNICATION = "communication"
    EXTENSION = "extension"
    TOOL = "tool"


class Place(IntEnum):
    """Where the rules of a component are asked: the first that refuses is the cause.

    INDEX: what no index has. COMPILED: what no compiler takes. RELEASE: what this release cannot build.
    RELEASED: what is in no table of releases.
    """

    INDEX = 100
    GPU_CODE = 200
    COMPILED = 300
    RELEASE = 400
    RELEASED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A rule and its number among all; equal numbers keep the order of the table of components."""

    at: int
    rule: CellRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """``releases`` of the component do not work with ``package`` from ``below`` on; ``why`` says how."""

    package: str
    releases: str
    below: str
    why: str
    source: str

    def holds(self, version: str) -> bool:
        return SpecifierSet(self.releases).contains(version, prereleases=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A table of docs/rules.md: of ``file`` below facts/data, which ``cells`` reads, or of ``rows``."""

    headings: tuple[str, ...]
    title: str = ""
    file: str = ""
    cells: Callable[[Any], tuple[object, ...]] = lambda value: (value,)
    rows: tuple[tuple[object, ...], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a row that fits must do, or know. ``when`` is empty where it always holds."""

    when: tuple[tuple[str, str], ...]
    then: str
    fact: Provenance

    @property
    def source(self) -> str:
        return self.fact.source

    def applies(self, values: Mapping[str, str]) -> bool:
        return all(name in values and SpecifierSet(spec).contains(values[name]) for name, spec in self.when)


def columns(*names: str) -> Callable[[Mapping[str, Any]], tuple[object, ...]]:
    """Return what reads some columns of an entry."""
    return lambda value: tuple({True: "yes", False: ""}.get(value[name], value[name]) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """From ``since`` on the component's headers are C++``standard``."""

    since: str
    standard: int
    fact: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The component's field in a row.

    ``pep440``: its versions may have suffixes, as in 2.6.0+cu124. ``prefix`` is how an id of the axes shows
    it. ``cost`` is that of changing it in the search for the nearest row; higher is changed last.
    ``releases`` are what that search proposes. ``versioned``: without it the component is a part of its
    package and has no release of its own, so that a row says true.
    """

    description: str
    example: str
    prefix: str
    cost: float
    pep440: bool = True
    releases: tuple[str, ...] = ()
    versioned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """How a component is built for an image.

    ``folder`` is its own in the context. ``stage`` and ``install`` are templates of a Dockerfile: a stage of
    its own, or empty, and instructions of the last stage. ``steps`` is a template with the macros ``compile``
    and ``install``: the same as plain lines, for a definition file. ``files`` are paths of the project that
    it needs, ``templates`` those that are no files. ``context`` are files of the context; ``values`` what the
    templates may name. ``makes`` is what the stage leaves, in a folder of that name. ``tools`` are
    packages of the distribution that it needs besides those that compile everything.
    """

    folder: str
    install: str
    steps: str
    context: Callable[[Stack, Sources], dict[str, bytes]]
    values: Callable[[Stack, Sources], dict[str, Any]] = lambda stack, sources: {}
    stage: str = ""
    makes: str = "wheel"
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    templates: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """How a tool is served: ``port`` where a row names no other, ``title`` of its page.

    ``folder`` is what it shows where a person names none, ``uses_gpu`` whether what it starts computes.
    """

    port: int
    title: str
    folder: str
    uses_gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component:
    """``name`` is the field of a row and the Python module, ``title`` how people write it.

    ``package`` is its name on the package index and in a lock, ``companions`` large packages that are of its
    releases and share its layer of an image, ``aliases`` other names that
    people have for the field, with a release as an example. ``indexed`` is every package that has releases of
    it, with the first one that the tables speak of. ``license`` is an SPDX identifier, from the
    metadata of its wheel. ``source`` is where the source is of what is compiled for an image.
    ``called`` is its name by communication layer, for those that compile an extension for it.
    ``requires`` are requirement lines of a row, ``leaves_cuda`` the releases whose wheels need CUDA's
    libraries and require none. ``oldest_gcc``: from which release its headers accept which gcc, the source.
    ``compiles`` names what compiles at run time with the image's gcc. ``hands_on_cuda`` is the head of the
    name of a library that hands calls of the CUDA runtime on. ``locked``: the lock has its package.
    ``imports`` are modules that a communication layer brings, ``words`` what probes/run.py is asked to do,
    by tier and for a number of GPUs, ``runs`` those of the collective probe, as in "torch/mpi". ``joins`` is
    the module by which a layer takes part in the probe of all layers in one process, ``examples`` what of
    examples/ trains with it. ``trains``: its runs train a model as well. ``measures`` is a line that
    measures MPI by it.
    ``loads_cuda``: its probe ``built`` says which CUDA, cuDNN and NCCL it loads.
    ``compiled`` is what of a row with the component is compiled from source as its field ``compile`` is, and
    ``added`` what is resolved and installed as its field ``pip`` is. ``server``: it is one, for a browser.
    ``build`` is how it is built for an image otherwise; ``patched``: patches/NAME changes its source.
    ``launchers`` are programs of it that start ranks, by their names: by SSH, but for those in
    ``on_each_node``, which a person starts on every node.
    ``tested`` says with which libraries its wheels were tested.
    ``everywhere`` are rules about this release that hold with another base or package as well. ``facts`` are
    those of its tables that no rule names.
    """

    name: str
    title: str
    kind: Kind
    package: str
    license: str
    field: Field
    source: str = ""
    companions: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    indexed: tuple[tuple[str, str], ...] = ()
    called: tuple[tuple[str, str], ...] = ()
    requires: Callable[[Cell], tuple[str, ...]] = lambda cell: ()
    leaves_cuda: str | None = None
    limits: tuple[Limit, ...] = ()
    wheels: Wheels | None = None
    gpu_code: Table | None = None
    headers: tuple[Headers, ...] = ()
    oldest_gcc: tuple[tuple[str, int, Provenance], ...] = ()
    compiles: str = ""
    hands_on_cuda: str = ""
    locked: bool = True
    imports: Callable[[Stack], tuple[str, ...]] = lambda stack: ()
    words: Callable[[Stack, int], Mapping[Tier, tuple[str, ...]]] = lambda stack, gpus: {}
    runs: Callable[[Stack], tuple[str, ...]] = lambda stack: ()
    joins: Callable[[Stack], str] = lambda stack: ""
    trains: bool = True
    measures: str = ""
    loads_cuda: bool = True
    examples: Callable[[Stack], tuple[str, ...]] = lambda stack: ()
    checks: tuple[Check, ...] = ()
    compiled: Callable[[Cell], tuple[Addition, ...]] = lambda cell: ()
    added: Callable[[Cell], tuple[Addition, ...]] = lambda cell: ()
    server: Server | None = None
    build: Build | None = None
    patched: bool = False
    launchers: tuple[tuple[str, Launcher], ...] = ()
    on_each_node: frozenset[str] = frozenset()
    vulnerabilities: tuple[Vulnerability, ...] = ()
    rules: tuple[Placed, ...] = ()
    lock_rules: tuple[LockRule, ...] = ()
    host_rules: tuple[ExtraRule, ...] = ()
    everywhere: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    documents: tuple[Document, ...] = ()
    tested: tuple[Provenance, ...] = ()
    facts: tuple[Provenance, ...] = ()
