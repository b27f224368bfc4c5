"""The values that pass between the stages: frozen, comparable, without behaviour that has effects.

Versions are strings in the notation of their own project ("12.4", "9.1.0.70", "5.0.7").
GPU architectures are compute capabilities ("8.0").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from stackwright.core.model.added.distributions import Added, Addition, Compiled
from stackwright.core.model.added.image import Folder, Variable
from stackwright.core.model.added.tools import Tool
from stackwright.core.model.target import AMD64, Platform


class Tier(StrEnum):
    """Groups of checks, from cheap to dear. A tier that could not run is NOT_RUN, never passed."""

    STATIC = "static"
    LINK = "link"
    BUILT = "built"
    COLLECTIVE = "collective"
    GPU = "gpu"


class World(StrEnum):
    """The forms of a row: its image in an engine, the SIF of that image, the SIF of its definition file."""

    DOCKER = "docker"
    SIF = "sif"
    DEFINITION = "def"


IMAGE_WORLDS = (World.DOCKER, World.SIF)
"""The image, and the SIF that is made of it. The checks of SIF judge the SIF of a definition file as well."""


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


class Refused(StrEnum):
    """Why a row is not planned: a rule refuses it, no table knows a value, or it has no lock of today."""

    BY_RULE = "refused"
    UNKNOWN = "not known"
    UNLOCKED = "not locked"


class MpiFlavour(StrEnum):
    OPENMPI = "openmpi"
    MPICH = "mpich"

    @property
    def package(self) -> str:
        """Return the package of Debian's and Ubuntu's that has its mpirun."""
        return "openmpi-bin" if self is MpiFlavour.OPENMPI else "mpich"


class ProviderName(StrEnum):
    """Where the base image comes from: a mirror of the distribution, or a registry with nvidia/cuda."""

    DEBIAN = "debian"
    NVIDIA = "nvidia"


class Flavour(StrEnum):
    """Whether an image keeps the CUDA toolkit."""

    RUNTIME = "runtime"
    DEVEL = "devel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    flavour: MpiFlavour
    version: str

    @classmethod
    def of(cls, flavour: str, version: str) -> Mpi:
        """Raise ValueError where the flavour is none."""
        return cls(flavour=MpiFlavour(flavour), version=version)


VERBS = ("verbs",)
"""The fabrics of a row that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the matrix as a person wrote it. None means: what the lock finds.

    ``components`` are those that it names with their versions, by name, in alphabetical order. ``fabric`` are
    "verbs", and "ofi" or "ofi=VERSION" of NCCL's plugin for libfabric. ``benchmarks``: "nccl-tests=VERSION".
    ``allow`` names rules whose refusal by a documented fact does not count, as --allow says.
    """

    id: str
    provider: ProviderName
    os: str
    python: str
    mpi: Mpi
    components: tuple[tuple[str, str], ...] = ()
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    gcc: str | None = None
    gpu_arch: tuple[str, ...] = ()
    flavour: Flavour = Flavour.RUNTIME
    fabric: tuple[str, ...] = VERBS
    benchmarks: tuple[str, ...] = ()
    test_on_gpu: bool = False
    pip: tuple[Addition, ...] = ()
    compile: tuple[Addition, ...] = ()
    apt: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    files: tuple[Folder, ...] = ()
    ports: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    wheels: Folder | None = None
    user: str | None = None
    build_env: tuple[Variable, ...] = ()
    platform: str | None = None
    allow: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Cell:
        """Return a row by its fields and components; a component without a version is left out."""
        return cls(**_apart(values, ()))

    def changed(self, values: Mapping[str, Any]) -> Cell:
        """Return the row with other values of some fields and components."""
        return replace(self, **_apart(values, self.components))

    def value(self, name: str) -> Any:
        """Return the value of a field; the version of a component, or None where the row has none of it."""
        if name in OWN_FIELDS:
            return getattr(self, _attribute(name))
        return next((version for component, version in self.components if component == name), None)

    def values(self) -> dict[str, Any]:
        """Return every field and every component."""
        own = {name: getattr(self, _attribute(name)) for name in OWN_FIELDS if name != "components"}
        return {**own, **dict(self.components)}


OWN_FIELDS = tuple(name.replace("build_", "build-") for name in Cell.__dataclass_fields__)
"""As a matrix writes them."""
CLOSED: Mapping[str, Callable[[Any], Any]] = {"provider": ProviderName, "flavour": Flavour}
"""Fields with a closed set of values; a matrix has them as strings."""


def _attribute(name: str) -> str:
    return name.replace("-", "_")


def _as_it_is(value: Any) -> Any:
    return value


def _apart(values: Mapping[str, Any], components: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Fields of Cell; all other names are components, of which some are there or not, and have no version."""
    own = {
        _attribute(name): CLOSED.get(name, _as_it_is)(value)
        for name, value in values.items()
        if name in OWN_FIELDS
    }
    if len(own) < len(values):
        others = {name: value for name, value in values.items() if name not in OWN_FIELDS}
        named = {**dict(components), **others}
        there = {name: "true" if version is True else version for name, version in named.items() if version}
        own["components"] = tuple(sorted(there.items()))
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What the operating system is, as it was when the row was locked.

    ``date`` is that of the suite's Release file (debian) or empty; ``digest`` is the sha256 of that
    file. ``packages`` are the distribution's packages that a row value depends on, with the distribution's
    versions. ``images`` are those that the build starts from, by name and digest (sha256:…), where a registry
    was asked what their tags lead to.
    """

    os: str
    suite: str
    release: str
    date: str
    digest: str
    packages: tuple[Package, ...]
    images: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One file of ``locks/``. ``text`` is the whole file, ``refused`` what uv said if it found no way.

    ``packages`` are shipped; ``toolchain`` are those that hold the CUDA compiler, which is not, and empty
    where it comes with the base. ``added`` are those of ``packages`` that only the row's own additions need:
    ``asked_by`` has the packages that require each. ``moved`` are others that the additions changed, with the
    version that the row would have without them, and the one that it has. ``extra`` are packages that one of
    the site's extra indexes answered.
    ``compiled`` are those of ``packages`` that are compiled from source, with the SHA-256 of each in
    ``sources``, and with what each names to be compiled and to run in ``needs``; ``builders`` are packages
    that only their compiling needs, which are not shipped. ``platform`` is what the wheels are for.
    """

    row: str
    request: str
    base: Base
    packages: tuple[Package, ...]
    text: str
    sha256: str
    refused: str = ""
    toolchain: tuple[Package, ...] = ()
    added: tuple[Package, ...] = ()
    asked_by: tuple[tuple[str, tuple[str, ...]], ...] = ()
    moved: tuple[tuple[str, str, str], ...] = ()
    extra: tuple[str, ...] = ()
    compiled: tuple[Package, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    builders: tuple[Package, ...] = ()
    platform: Platform = AMD64

    def version(self, name: str) -> str | None:
        """Return the locked version of a Python package, or None."""
        return next((p.version for p in self.packages if p.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A row with every version known: what is rendered, and what the image must turn out to be.

    ``cuda`` is the compiler's release ("12.4"), ``cuda_runtime`` that of the libcudart which the
    frameworks load ("12.4.127"). ``nccl_code`` is NCCL_VERSION_CODE, as in 22105 for 2.21.5.
    ``frameworks`` maps a module to its version, ``communication`` a layer that moves gradients between ranks,
    in the order of the table of components. ``allowed`` are the rules that would refuse the row and were
    allowed. ``plugin`` and ``nccl_tests`` are releases of NCCL's plugin for libfabric and of its tests, or
    empty. ``pip`` are the distributions that the row adds by name, ``compiled`` those that are compiled for
    it from source, ``apt`` the distribution's packages. ``ports`` are those of its own programs.
    """

    id: str
    provider: ProviderName
    os: str
    base: Base
    python: str
    cuda: str
    cuda_runtime: str
    cudnn: str
    nccl: str
    nccl_code: int
    gcc: str
    mpi: Mpi
    communication: tuple[tuple[str, str], ...]
    frameworks: tuple[tuple[str, str], ...]
    gpu_arch: tuple[str, ...]
    flavour: Flavour
    test_on_gpu: bool
    patches: tuple[str, ...]
    lock: Lock
    allowed: tuple[str, ...] = ()
    pip: tuple[Added, ...] = ()
    apt: tuple[Package, ...] = ()
    env: tuple[Variable, ...] = ()
    files: tuple[Folder, ...] = ()
    ports: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    wheels: Folder | None = None
    user: str | None = None
    compiled: tuple[Compiled, ...] = ()
    build_env: tuple[Variable, ...] = ()
    tools: tuple[Tool, ...] = ()
    platform: Platform = AMD64
    plugin: str = ""
    nccl_tests: str = ""

    @property
    def fabric(self) -> tuple[str, ...]:
        return (*VERBS, "ofi") if self.plugin else VERBS

    @property
    def exposed(self) -> tuple[str, ...]:
        """Return every port that the image names: the row's, and those of its tools."""
        return tuple(dict.fromkeys((*self.ports, *(tool.exposed for tool in self.tools))))

    @property
    def added(self) -> tuple[Added, ...]:
        """Return all distributions that the row names, wheels of an index or compiled."""
        return (*self.pip, *self.compiled)

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.frameworks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A rule that speaks against a row and does not refuse it: ``said`` is "warns" or "is allowed"."""

    rule: str
    said: str
    clash: tuple[tuple[str, str], ...]
    reason: str
    source: str
    how: str
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why a row cannot work, or is not known to. A value, not an exception: ``plan`` prints it with the
    rows that can.

    ``how`` and ``when`` are those of the fact that the rule rests on, as in rules/provenance.py.
    ``settings`` are what ``--set`` takes to make the nearest row of this one.
    """

    id: str
    rule: str
    clash: tuple[tuple[str, str], ...]
    reason: str
    source: str
    nearest: str
    line: int = 0
    how: str = "read"
    when: str = ""
    settings: tuple[str, ...] = ()
    verdict: Refused = Refused.BY_RULE


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that goes into one ``docker build``: paths relative to the context, and their bytes."""

    id: str
    key: str
    files: tuple[tuple[str, bytes], ...]

    def text(self, path: str) -> str:
        return dict(self.files)[path].decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of one check. ``why`` says what the check is for, ``detail`` what was seen."""

    id: str
    tier: Tier
    why: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All checks of one image in one world."""

    world: World
    checks: tuple[Check, ...]

    def tier(self, tier: Tier) -> Outcome:
        """FAILED if any check failed, NOT_RUN if any could not run or none was asked, else PASSED."""
        outcomes = {check.outcome for check in self.checks if check.tier is tier}
        if Outcome.FAILED in outcomes:
            return Outcome.FAILED
        if Outcome.NOT_RUN in outcomes or not outcomes:
            return Outcome.NOT_RUN
        return Outcome.PASSED

    def emulated(self, how: str) -> Verdict:
        """Return it with each check that started programs saying how, where no CPU of the host ran them."""
        if not how:
            return self
        checks = (
            replace(check, detail="; ".join(filter(None, (check.detail, f"emulated {how}"))))
            if check.tier is not Tier.STATIC and check.outcome is not Outcome.NOT_RUN
            else check
            for check in self.checks
        )
        return replace(self, checks=tuple(checks))

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome is Outcome.FAILED)
