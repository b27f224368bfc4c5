"""Rules on what a row adds by ``pip`` or compiles: nothing of it is a second one of what the row has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile

from stackwright.core.components.component import Kind
from stackwright.core.components.table import COMPONENTS, asking, by_pip, compiled
from stackwright.core.config.additions import accepts, conditional, name
from stackwright.core.config.own import versions
from stackwright.core.facts.provenance import Provenance, documented, read
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell, Lock
from stackwright.core.rules.derived import cuda_majors, cuda_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, LockRule, Ruling

MATRIX = read("matrix.yaml", "2026-11-22")
LOCKED = read("matrix.yaml and the lock", "2026-11-22")

NAMES = documented("names of packages on the index: cupy-cuda13x, nvidia-dali-cuda120", "2026-11-22")

INDEXES = documented(
    "docs.astral.sh/uv, indexes: the first index that has a name answers for it; pip asks all", "2026-11-22"
)

FIELDS = ("nccl", "cudnn")
"""Libraries of NVIDIA's that are fields of a row."""
OF_NVIDIA = re.compile(r"nvidia-(?P<library>[a-z0-9-]+?)(-cu(?P<cuda>\d+))?")
FOR_CUDA = re.compile(r"[a-z0-9-]+?-?(cu|cuda-?)(?P<cuda>1[0-9])(\d|x)?(-[a-z0-9-]+)?")
"""A package whose name says for which CUDA it is: cupy-cuda13x, jax-cuda13-plugin, nvidia-dali-cuda120."""
LIBRARIES = ("nccl", "cudnn", "cuda-runtime")
"""Of which an image has one."""

OWN = {
    package: component.name
    for component in COMPONENTS
    if component.field.versioned and component.kind is not Kind.TOOL
    for package in (
        component.name,
        component.package,
        *(name for name, _ in (*component.aliases, *component.indexed)),
    )
}
"""The field of each package that has one. A layer may add a tool, and then nothing serves it."""
ADDED = ("pip", "compile")
"""Fields with requirements of the row's own."""
BUILDS = re.compile(r"(?P<package>.+?)(-(cpu|gpu|rocm|nightly|cu\d+))?")
"""Some builds of a framework have a package of their own, with the same files."""


def _field(package: str) -> str:
    """Return the field of a row that says which release of a package it has; empty where none does."""
    library, build = OF_NVIDIA.fullmatch(package), BUILDS.fullmatch(package)
    if library and library["library"] in FIELDS:
        return library["library"]
    return OWN.get(package) or (OWN.get(build["package"], "") if build else "")


def _named(cell: Cell) -> tuple[tuple[str, Addition], ...]:
    """Return what a person wrote, with the field that has it."""
    return tuple((field, addition) for field in ADDED for addition in cell.value(field))


def _own_fields(cell: Cell) -> Answer:
    """Refuse a framework, NCCL or cuDNN, which have fields that the rules read."""
    for where, addition in _named(cell):
        package = name(addition)
        field = _field(package)
        if field:
            value = cell.value(field)
            now = f"the row has {field} {value}" if value else f"the row has the {field} of its frameworks"
            reason = f"{package} is the field {field} of a row, and {now}: write it there, and not in {where}"
            return Clash(values=((where, addition.requirement), (field, value or "left out")), reason=reason)
    return Ruling.FITS if _named(cell) else Ruling.SILENT


def _one_cuda(cell: Cell) -> Answer:
    """Refuse another CUDA by the names of packages, before a lock is made."""
    cuda = cuda_of(cell)
    if not _named(cell) or cuda is None:
        return Ruling.SILENT
    for where, addition in _named(cell):
        found = FOR_CUDA.fullmatch(name(addition))
        if found and found["cuda"] != cuda.split(".")[0]:
            return Clash(
                values=((where, addition.requirement), ("cuda", cuda)),
                reason=f"{name(addition)} is made for CUDA {found['cuda']}, which is not the row's",
            )
    return Ruling.FITS


def _second(cell: Cell, lock: Lock) -> Clash | None:
    """Refuse a second CUDA, NCCL or cuDNN that something brings along, and say what requires it."""
    of_row = {major for major, names in cuda_majors(_without(lock)).items() if names}
    for package in lock.added:
        library, made_for = _library(package.name), FOR_CUDA.fullmatch(package.name)
        other = made_for["cuda"] if made_for and of_row and made_for["cuda"] not in of_row else ""
        if not library and not other:
            continue
        what = f"a second {library}" if library else f"CUDA {other} next to CUDA {', '.join(sorted(of_row))}"
        chain = required_by(package.name, dict(lock.asked_by))
        field = "compile" if chain and chain[0] in {name(addition) for addition in compiled(cell)} else "pip"
        chained = " → ".join((*chain, package.name))
        return Clash(
            values=((field, chain[0] if chain else package.name), (package.name, package.version)),
            reason=f"the image would have {what}: {chained}",
        )
    return None


def _without(lock: Lock) -> Lock:
    """Return the lock without what only the additions need."""
    added = {package.name for package in lock.added}
    return replace(lock, packages=tuple(package for package in lock.packages if package.name not in added))


def _library(package: str) -> str:
    """Return which library that an image has once a package is; empty where it is none."""
    found = OF_NVIDIA.fullmatch(package)
    return found["library"] if found and found["library"] in LIBRARIES else ""


def required_by(package: str, asked_by: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return a chain of packages, from one that the row names to one that requires the package."""
    chain = tuple(_up(package, asked_by))
    return tuple(reversed(chain))


def _up(package: str, asked_by: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    seen = {package}
    while askers := [asker for asker in asked_by.get(package, ()) if asker not in seen]:
        package = askers[0]
        seen.add(package)
        yield package


def _moved(cell: Cell, lock: Lock) -> Clash | None:
    """Refuse another version of a framework, or of a library that it loads, than the row alone would have."""
    return next(_each_moved(lock, tuple(asking(cell)) or ADDED[:1]), None)


def _each_moved(lock: Lock, fields: tuple[str, ...]) -> Iterator[Clash]:
    for package, before, now in lock.moved:
        reason = f"without the row's {' and '.join(fields)}, {package} would be {before}"
        if _field(package) or OF_NVIDIA.fullmatch(package):
            yield Clash(values=((package, now), *((field, "of the row") for field in fields)), reason=reason)


def _as_named(cell: Cell, lock: Lock) -> Clash | None:
    """Refuse what an override changed: the row's own NCCL replaces whatever is required, by additions too."""
    locked = {package.name: package.version for package in lock.packages}
    for addition in by_pip(cell):
        version = locked.get(name(addition))
        if version is None and not conditional(addition):
            return Clash(values=(("pip", addition.requirement),), reason="the lock has no such package")
        if version is not None and not conditional(addition) and not accepts(addition, version):
            values = (("pip", addition.requirement), (name(addition), version))
            return Clash(values=values, reason="the lock has another version than the row names")
    return None


def _own_wheels(cell: Cell, lock: Lock) -> Clash | None:
    """Refuse a wheel of the row's folder that the frameworks bring too, or that the lock has otherwise."""
    added = {package.name for package in lock.added}
    locked = {package.name: package.version for package in lock.packages}
    for which, version in versions(cell.wheels).items():
        if which in locked and which not in added:
            values = (("wheels", f"{which} {version}"), (which, locked[which]))
            return Clash(values=values, reason=f"the row's frameworks bring {which}, and a folder does not")
        if which in added and not _of_folder(cell, lock, which):
            values = (("wheels", f"{which} {version}"), (which, locked[which]))
            return Clash(values=values, reason=f"the lock has a {which} that is not in the row's folder")
    return None


def _of_folder(cell: Cell, lock: Lock, which: str) -> bool:
    files = cell.wheels.files if cell.wheels else ()
    block = lock.text.partition(f"\n{which}==")[2].split("\n")
    digests = {hashlib.sha256(content).hexdigest() for _, content in files}
    hashes = list(takewhile(lambda line: line.startswith("    --hash"), block[1:]))
    return bool(hashes) and all(line.split(":")[1][:64] in digests for line in hashes)


def _shared(cell: Cell, lock: Lock) -> Clash | None:
    """Warn of other versions of what the row has anyway: its layer is another one than that of other rows."""
    moved = [package for package in lock.moved if not (_field(package[0]) or OF_NVIDIA.fullmatch(package[0]))]
    if not moved:
        return None
    fields = " and ".join(asking(cell)) or ADDED[0]
    what = ", ".join(f"{package} is {now} instead of {before}" for package, before, now in moved)
    return Clash(
        values=tuple((package, now) for package, _, now in moved),
        reason=f"the row's {fields} moves what its frameworks share with it: {what}",
        said=Ruling.WARNS,
    )


def _from_index(cell: Cell, lock: Lock) -> Clash | None:
    """Refuse a package of another index than the row says: a name is taken by who uploads it first."""
    wanted = {name(package): package for package in cell.pip if package.extra}
    locked = {package.name: package.version for package in lock.packages}
    for which, addition in wanted.items():
        if which in locked and which not in lock.extra:
            values = (("pip", str(addition)), (which, locked[which]))
            reason = f"no extra index of the site has {which}, and a public one does: it may be a stranger's"
            return Clash(values=values, reason=reason)
    for package in lock.added:
        if package.name in lock.extra and package.name not in wanted:
            asked = required_by(package.name, dict(lock.asked_by))
            values = (("pip", asked[0] if asked else package.name), (package.name, package.version))
            reason = (
                f"an extra index of the site answers for {package.name}, before the public one, and the row "
                f"does not say so: write {{name: {package.name}, index: extra}} in pip"
            )
            return Clash(values=values, reason=reason)
    return None


RULES = (
    CellRule(
        name="pip-fields",
        about=About.STACK,
        fields=("pip", "compile"),
        says="what is a field of a row (a framework, its NCCL or cuDNN) is not added by pip or compiled",
        fact=MATRIX,
        ask=_own_fields,
    ),
    CellRule(
        name="pip-cuda",
        about=About.STACK,
        fields=("pip", "compile", "provider", "os", "cuda"),
        says="what is added by pip or compiled is made for the row's CUDA, as far as its name says",
        fact=NAMES,
        ask=_one_cuda,
    ),
)


def lock_rules(one_cuda: Provenance) -> tuple[LockRule, ...]:
    """Return the rules on what the index answered. ``one_cuda`` is why an image has one CUDA."""
    return (
        LockRule(
            name="pip-second",
            says="nothing that is added by pip brings a second CUDA, NCCL, cuDNN or CUDA runtime",
            fact=one_cuda,
            ask=_second,
        ),
        LockRule(
            name="pip-moves",
            says="what is added by pip changes no framework and no library of NVIDIA's",
            fact=LOCKED,
            ask=_moved,
        ),
        LockRule(
            name="pip-index",
            says="what is added by pip comes from the index that the row says: a public one, or an extra one",
            fact=INDEXES,
            ask=_from_index,
        ),
        LockRule(
            name="pip-wheels",
            says="a wheel of the row's folder is that very file, and none that the frameworks bring",
            fact=LOCKED,
            ask=_own_wheels,
        ),
        LockRule(
            name="pip-shared",
            says="what is added by pip moves a package that the frameworks share with it: a notice",
            fact=LOCKED,
            ask=_shared,
        ),
        LockRule(
            name="pip-named",
            says="the lock has what is added by pip, in a version that the row allows",
            fact=LOCKED,
            ask=_as_named,
        ),
    )
