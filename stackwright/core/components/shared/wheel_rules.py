"""Rules that every framework with wheels on the package index has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from packaging.version import Version

from stackwright.core.components.component import Place, Placed
from stackwright.core.facts import wheels
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.gpu_code import Code, Runs, Table
from stackwright.core.facts.provenance import Provenance
from stackwright.core.facts.releases import RELEASES_READ, released
from stackwright.core.facts.wheels import Wheel, Wheels
from stackwright.core.model.row import Cell
from stackwright.core.rules.derived import cuda_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Ruling


def rule(
    name: str,
    fields: tuple[str, ...],
    fact: Provenance,
    ask: Callable[[Cell], Answer],
    says: str,
    *,
    about: About = About.STACK,
) -> CellRule:
    return CellRule(name=name, about=about, fields=fields, fact=fact, ask=ask, says=says)


def named(cell: Cell, table: Wheels) -> tuple[str, Wheel] | None:
    """The version that the row names and its entry in the table; None where either is missing."""
    version = cell.value(table.name)
    entry = table.on(cell.platform).of(version) if version else None
    return (version, entry) if entry else None


def built_for(cell: Cell, table: Wheels) -> str | None:
    """The CUDA release that the framework's wheel was built for: its suffix, or what the tables say."""
    found = named(cell, table)
    if found is None:
        return None
    return wheels.build(found[0]) or found[1].cuda or None


def same_cuda(one: str, other: str) -> bool:
    """Whether code of both releases runs on one runtime: by major release since 11, before by minor."""
    first, second = as_numbers(one)[:2], as_numbers(other)[:2]
    return first[0] == second[0] and (first[0] >= 11 or first == second)


def python(table: Wheels) -> Callable[[Cell], Answer]:
    def ask(cell: Cell) -> Answer:
        found = named(cell, table)
        if found is None:
            return Ruling.SILENT
        version, entry = found
        first, last = entry.python
        if as_numbers(first) <= as_numbers(cell.python) <= as_numbers(last):
            return Ruling.FITS
        reason = f"{table.name} {version} has wheels for Python {first} to {last}"
        return Clash(values=((table.name, version), ("python", cell.python)), reason=reason, fact=entry.fact)

    return ask


def compiler(table: Wheels) -> Callable[[Cell], Answer]:
    """A communication layer compiles kernels for the framework."""
    name = table.name

    def ask(cell: Cell) -> Answer:
        built, cuda = built_for(cell, table), cuda_of(cell)
        if built is None or cuda is None:
            return Ruling.SILENT
        if same_cuda(built, cuda):
            return Ruling.FITS
        version = str(cell.value(name))
        entry = table.on(cell.platform).of(version)
        others = f", others for {' and '.join(entry.builds)}" if entry and entry.builds else ""
        if wheels.build(version):
            others = ""
        reason = (
            f"the wheel of {name} {version} was built for CUDA {built}{others}; "
            "Horovod's kernels must be compiled by the release that the framework loads"
        )
        return Clash(values=((name, version), ("cuda", cuda)), reason=reason)

    return ask


# -- code for GPUs ----------------------------------------------------------------------------------


def gpu_code(table: Table) -> Placed:
    name = table.wheels.name

    def ask(cell: Cell) -> Answer:
        version = cell.value(name)
        code = table.code(version, cell.platform) if version else None
        if version is None or code is None or not cell.gpu_arch:
            return Ruling.SILENT
        return on_gpus(name, version, table.entries(version, cell.platform) or "", code, cell.gpu_arch)

    says = "the framework's wheel holds code for the row's GPUs"
    return Placed(
        at=Place.GPU_CODE, rule=rule(f"{name}-arch", ("platform", name, "gpu_arch"), table.fact, ask, says)
    )


def on_gpus(name: str, version: str, entries: str, code: Code, arches: tuple[str, ...]) -> Answer:
    """``entries`` are what the wheel names, and ``code`` is what they mean."""
    clashes = list(_clashes(name, version, entries, code, arches))
    return min(clashes, key=lambda clash: clash.said is not Ruling.REFUSES) if clashes else Ruling.FITS


def _clashes(name: str, version: str, entries: str, code: Code, arches: tuple[str, ...]) -> Iterator[Clash]:
    for arch in arches:
        runs = code.runs(arch)
        if runs is Runs.AS_IS:
            continue
        reason = f"the wheel of {name} {version} holds {entries}: no code that runs on a GPU of {arch}"
        if runs is Runs.FROM_PTX:
            newest = ".".join(map(str, max(code.ptx)))
            reason = (
                f"the wheel of {name} {version} holds {entries}: on {arch} it runs from PTX for {newest}, "
                "which the driver compiles when it is first used (minutes; kept in ~/.nv/ComputeCache)"
            )
        said = Ruling.WARNS if runs is Runs.FROM_PTX else Ruling.REFUSES
        yield Clash(values=((name, version), ("gpu_arch", arch)), reason=reason, said=said)


# -- releases ---------------------------------------------------------------------------------------

Elsewhere = Callable[[str], str]
"""Where a build with a suffix is, as a reason."""


def release(
    at: int,
    name: str,
    packages: tuple[str, ...],
    *,
    fields: tuple[str, ...] = (),
    for_cuda: Mapping[int, tuple[str, ...]] | None = None,
    elsewhere: Elsewhere | None = None,
) -> Placed:
    """``packages`` have the releases, or those that ``for_cuda`` has from a major release of CUDA on."""
    known = released(packages)
    later = {major: released(names) for major, names in (for_cuda or {}).items()}

    def ask(cell: Cell) -> Answer:
        written = cell.value(name)
        if written is None:
            return Ruling.SILENT
        cuda = as_numbers(cuda_of(cell) or "0")[0] if later else 0
        every = next((found for major, found in later.items() if cuda >= major), known)
        version = Version(written)
        return Ruling.FITS if version in every else _absent(name, written, version, every, elsewhere)

    says = "the package index has the release"
    made = rule(f"{name}-release", (*fields, name), RELEASES_READ, ask, says, about=About.RELEASE)
    return Placed(at=at, rule=made)


def _absent(
    name: str, written: str, version: Version, known: frozenset[Version], elsewhere: Elsewhere | None
) -> Clash:
    """Why the package index does not have a release, and where it is."""
    newest, suffix = max(known), version.local or ""
    if suffix.startswith(("rocm", "cpu", "xpu")):
        reason = f"the build +{suffix} has no code for NVIDIA's GPUs; the images are for these alone"
        return Clash(values=((name, written),), reason=reason)
    if version.is_prerelease:
        reason = (
            f"{name} {written} is a nightly or a test build: its index keeps it for some weeks, so that no "
            f"lock of it lasts; the last release is {newest}"
        )
    elif suffix and elsewhere and Version(version.public) in known:
        reason = elsewhere(written)
    else:
        when = RELEASES_READ.when
        reason = f"the package index had no {name} {written} on {when}; its newest is {newest}"
    return Clash(values=((name, written),), reason=reason, said=Ruling.UNKNOWN)
