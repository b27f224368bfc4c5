"""Read CUDA's compilers: ptxas lists its architectures, host_config.h the newest gcc.

Each wheel and package is fetched whole, compared with the hash that the index names, and its ptxas run.
"""

from __future__ import annotations

import platform
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from stackwright.audit.facts import deb
from stackwright.audit.facts.index import Wheel
from stackwright.audit.facts.sources import Answer, Sources, ask
from stackwright.core.errors import SiteError
from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import Distribution
from stackwright.core.model.row import ProviderName
from stackwright.core.model.target import AMD64, PLATFORMS, Platform
from stackwright.core.resolve.requirements import NVCC
from stackwright.host.runner import Runner
from stackwright.host.upstream import web

PROJECTS = ("nvidia-cuda-nvcc-cu11", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc")
HEADERS = "nvidia-cuda-crt"
"""Where the header of a compiler from CUDA 13 on is; before, it is in the compiler's own wheel."""

PTXAS = re.compile(r"(\./)?usr/(lib/nvidia-cuda-toolkit/)?bin/ptxas")
HOST_CONFIG = re.compile(r"(\./)?usr/include/crt/host_config\.h")

NEWEST_GCC = re.compile(r"^#if __GNUC__ > (\d{1,3})\s*$", re.MULTILINE)
MULTIVERSE = {"ubuntu-18.04": "9.1", "ubuntu-20.04": "10.1"}
"""Releases of CUDA that no wheel has, in a component that no row installs from. Ubuntu 22.04 has 11.5, in
packages that are compressed with zstd, which Python reads from 3.14 on."""
LISTED = re.compile(r"'sm_(\d{2,4})'")


def architectures(help_text: str) -> tuple[str, ...]:
    """Compute capabilities that ``ptxas --help`` lists for --gpu-name, as in 8.0; variants left out."""
    _, _, rest = help_text.partition("--gpu-name")
    listed = rest.partition("Allowed values")[2].partition("Default value")[0]
    numbers = sorted({int(number) for number in LISTED.findall(listed)})
    return tuple(f"{number // 10}.{number % 10}" for number in numbers)


def newest_gcc(header: str) -> int | None:
    """Return the highest major release that crt/host_config.h lets pass; None if it says nothing of gcc."""
    found = NEWEST_GCC.findall(header)
    return int(found[0]) if found else None


def read(sources: Sources) -> Iterator[Answer]:
    """Of each release, from the newest wheel of its compiler and from a distribution's package."""
    for project in PROJECTS:
        yield from _of_project(sources, project)
    for known in distributions.DISTRIBUTIONS:
        release = known.cuda if known.provider is ProviderName.DEBIAN else MULTIVERSE.get(known.id)
        if release:
            yield ask("cuda-arch", release, partial(_packaged_architectures, sources, known, release))
            yield ask("cuda-gcc", release, partial(_packaged_gcc, sources, known, release))
    for target in PLATFORMS.values():
        key = f"releases{target.suffix}"
        yield ask("nvcc-wheels", key, partial(_whole, sources, target))


def _of_project(sources: Sources, project: str) -> Iterator[Answer]:
    try:
        wheels = sources.wheels(project)
    except SiteError as error:
        yield from (Answer(table=table, key=project, why=error.cause) for table in ("cuda-arch", "cuda-gcc"))
        return
    newest = {f"{wheel.version.major}.{wheel.version.minor}": wheel for wheel in wheels}
    for release, wheel in newest.items():
        yield ask("cuda-arch", release, partial(_architectures, sources, project, wheel))
        yield ask("cuda-gcc", release, partial(_gcc, sources, project, wheel))


def _architectures(sources: Sources, project: str, wheel: Wheel) -> tuple[Any, str]:
    value = sources.once(wheel.sha256, "ptxas", partial(_examined, sources.runner, wheel))["architectures"]
    return value, f"{project} {wheel.version}: ptxas --help"


def _gcc(sources: Sources, project: str, wheel: Wheel) -> tuple[Any, str]:
    inside = sources.once(wheel.sha256, "ptxas", partial(_examined, sources.runner, wheel))["gcc"]
    if inside:
        return inside, f"{project} {wheel.version}: crt/host_config.h"
    release = (wheel.version.major, wheel.version.minor)
    headers = [
        file for file in sources.wheels(HEADERS) if (file.version.major, file.version.minor) == release
    ]
    if not headers:
        raise SiteError(f"{HEADERS} has no release {wheel.version.major}.{wheel.version.minor}")
    value = sources.once(headers[-1].sha256, "host_config.h", partial(header, headers[-1]))
    if not value:
        raise SiteError("crt/host_config.h names no newest gcc")
    return value, f"{HEADERS} {headers[-1].version}: crt/host_config.h"


def _examined(runner: Runner, wheel: Wheel) -> dict[str, Any]:
    """Return what a compiler's wheel says: its architectures, and the newest gcc if the header is in it."""
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        path = Path(folder) / "wheel.zip"
        web.download(wheel.url, wheel.sha256, path)
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            program = Path(folder) / "ptxas"
            program.write_bytes(web.member(archive, _ending(names, "/bin/ptxas")))
            header = next((name for name in names if name.endswith("crt/host_config.h")), "")
            text = web.member(archive, header).decode("utf-8", "replace") if header else ""
        path.unlink()
        return {"architectures": listed(runner, program), "gcc": newest_gcc(text)}


def header(wheel: Wheel) -> int | None:
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        path = Path(folder) / "wheel.zip"
        web.download(wheel.url, wheel.sha256, path)
        with zipfile.ZipFile(path) as archive:
            name = _ending(archive.namelist(), "crt/host_config.h")
            return newest_gcc(web.member(archive, name).decode("utf-8", "replace"))


def _ending(names: Iterable[str], end: str) -> str:
    found = next((name for name in names if name.endswith(end)), None)
    if found is None:
        raise SiteError(f"no {end.lstrip('/')} in it")
    return found


def listed(runner: Runner, program: Path) -> tuple[str, ...]:
    """Return what a ptxas itself lists; SiteError where it does not run here."""
    if platform.machine() != AMD64.machine:
        raise SiteError(f"a ptxas for {AMD64.machine} does not run on {platform.machine()}")
    program.chmod(0o700)
    done = runner([program, "--help"], timeout=60)
    found = architectures(done.stdout)
    if not done.ok or not found:
        raise SiteError(f"ptxas lists no architectures: {(done.stderr or done.stdout).strip()[:200]!r}")
    return found


def packaged(sources: Sources, known: Distribution, name: str, release: str) -> deb.Package:
    """Return a distribution's package of this release of CUDA; SiteError where it has another one."""
    package = deb.package(sources, known, name, more=("multiverse",) if known.id in MULTIVERSE else ())
    if not package.version.startswith(f"{release}."):
        raise SiteError(f"{name} of {known.id} is {package.version}, not CUDA {release}")
    return package


def _packaged_architectures(sources: Sources, known: Distribution, release: str) -> tuple[Any, str]:
    package = packaged(sources, known, "nvidia-cuda-toolkit", release)

    def examined() -> tuple[str, ...]:
        with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
            path, program = Path(folder) / "package.deb", Path(folder) / "ptxas"
            web.download(package.url, package.sha256, path)
            with path.open("rb") as file:
                program.write_bytes(deb.member(file, PTXAS))
            return listed(sources.runner, program)

    value = sources.once(package.sha256, "ptxas", examined)
    return value, f"{known.id}, nvidia-cuda-toolkit {package.version}: ptxas --help"


def _packaged_gcc(sources: Sources, known: Distribution, release: str) -> tuple[Any, str]:
    package = packaged(sources, known, "nvidia-cuda-dev", release)

    def examined() -> int | None:
        with web.opened(package.url, {}) as answer:  # a large package; the header comes early in it
            return newest_gcc(deb.member(answer, HOST_CONFIG).decode("utf-8", "replace"))

    value = sources.once(package.sha256, "host_config.h", examined)
    if not value:
        raise SiteError("crt/host_config.h names no newest gcc")
    return value, f"{known.id}, nvidia-cuda-dev {package.version}: crt/host_config.h"


def _whole(sources: Sources, of: Platform) -> tuple[Any, str]:
    """Return the releases of CUDA of which every part of a compiler is on the index for the platform."""
    wheels = (sources.wheels(name, of) for name in NVCC)
    have = [{(wheel.version.major, wheel.version.minor) for wheel in found} for found in wheels]
    both = sorted(set.intersection(*have))
    return [f"{major}.{minor}" for major, minor in both], f"the package index: {', '.join(NVCC)}"
