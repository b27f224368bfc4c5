"""Read the wheels of the frameworks: names of files, requirements, and how they were built.

Of a wheel only its list of files, its METADATA and its own note on the build are fetched.
"""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.parser import BytesHeaderParser
from functools import partial
from typing import Any
from zipfile import ZipFile

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from stackwright.audit.facts import index
from stackwright.audit.facts.index import Wheel
from stackwright.audit.facts.sources import Answer, Question, Sources, ask_all
from stackwright.core.components import mxnet
from stackwright.core.components.table import COMPONENTS
from stackwright.core.components.tensorflow import SOURCE_ONLY
from stackwright.core.errors import SiteError
from stackwright.core.facts.releases import LIBRARIES
from stackwright.core.model.target import AMD64, ARM64, Platform
from stackwright.host.upstream import web

Entry = dict[str, Any]
Describe = Callable[[ZipFile, Platform], Entry]

PACKAGES = (
    *(pair for component in COMPONENTS for pair in component.indexed),
    *((package, "0") for _, package in LIBRARIES),
)
"""A package, and the first release that the tables speak of."""

CODE = re.compile(rb"(?:sm|compute)_\d{2,3}(?: (?:sm|compute)_\d{2,3})+")
"""As torch.cuda.get_arch_list() has it: of a flag that the build left in the library since 1.7."""

PLUGINS_OF_JAX = ("12", "13")
"""Major releases of CUDA that JAX has a plugin for."""
FATBIN = struct.pack("<I", 0xBA55ED50)
KINDS = {1: "compute", 2: "sm"}

OWN_CUDA = re.compile(r"torch/lib/lib(cudart|nccl)[^/]*\.so[^/]*")
MXNET_PROJECTS = ("mxnet-cu80", "mxnet-cu90", "mxnet-cu91", "mxnet-cu92", "mxnet-cu100", "mxnet-cu101",
                  "mxnet-cu102", "mxnet-cu110", "mxnet-cu112")  # fmt: skip
"""All that apache/mxnet, tools/pip/setup.py, made wheels of."""


def read(sources: Sources) -> Iterator[Answer]:
    yield from _project(sources, "torch", "torch", torch_wheel, since="1.0")
    yield from _project(sources, "tensorflow", "tensorflow-gpu", tensorflow_wheel, since="1.12", before="2.1")
    yield from _project(sources, "tensorflow", "tensorflow", tensorflow_wheel, since="2.1")
    yield from _mxnet(sources)
    yield from ask_all(
        ("releases", package, partial(_released, sources, package, since)) for package, since in PACKAGES
    )
    required = dict.fromkeys(requirement for _, requirement in SOURCE_ONLY)
    yield from ask_all(
        ("requirements", requirement, partial(_installable, sources, requirement)) for requirement in required
    )


def on_arm(sources: Sources) -> Iterator[Answer]:
    """The same of wheels for 64-bit Arm, from the first release that has one on."""
    of_arm = ARM64.suffix
    yield from _project(sources, f"torch{of_arm}", "torch", torch_wheel, since="1.8", platform=ARM64)
    yield from _project(
        sources, f"tensorflow{of_arm}", "tensorflow", tensorflow_wheel, since="2.10", platform=ARM64
    )
    yield from plugins(sources, ARM64)


def _project(
    sources: Sources,
    table: str,
    project: str,
    describe: Describe,
    *,
    since: str,
    before: str = "999",
    platform: Platform = AMD64,
) -> Iterator[Answer]:
    """Yield an answer for each release that has wheels, in the order of the releases."""
    try:
        found = index.by_version(sources.wheels(project, platform))
    except SiteError as error:
        yield Answer(table=table, key=project, why=error.cause)
        return
    questions: list[Question] = [
        (table, str(version), partial(_described, sources, project, files, describe, platform))
        for version, files in found.items()
        if Version(since) <= version < Version(before) and index.pythons(files)
    ]
    yield from ask_all(questions)


def _described(
    sources: Sources, project: str, files: tuple[Wheel, ...], describe: Describe, platform: Platform
) -> tuple[Entry, str]:
    """The tags are of all wheels of a release, everything else of the one for its newest Python."""
    pythons = index.pythons(files)
    named = [file for file in files if pythons[-1] in index.pythons([file])]
    wheel = named[-1]
    value = sources.once(
        wheel.sha256, f"_{describe.__name__}", lambda: describe(web.archive(wheel.url, wheel.size), platform)
    )
    entry = {"python": f"{pythons[0]}-{pythons[-1]}", "glibc": index.glibc(files)}
    return entry | value, f"the package index: {project} {wheel.version}"


# -- PyTorch and TensorFlow ---------------------------------------------------------------------------


def torch_wheel(wheel: ZipFile, platform: Platform = AMD64) -> Entry:
    """A wheel for the CPU alone has no CUDA, and names no architectures of GPUs."""
    needs, names = _requirements(wheel, platform), wheel.namelist()
    noted = _assigned(web.member(wheel, "torch/version.py").decode(), "cuda")
    flags = CODE.findall(web.member(wheel, "torch/lib/libtorch_python.so")) if noted else []
    if len(set(flags)) > 1:
        raise SiteError("libtorch_python.so names more than one list of architectures")
    return {
        "cuda": _minor(noted) if isinstance(noted, str) else "",
        "cudnn": _pinned(needs, "nvidia-cudnn"),
        "nccl": _pinned(needs, "nvidia-nccl"),
        "own_cuda": any(OWN_CUDA.fullmatch(name) for name in names),
        "code": flags[0].decode() if flags else "",
    }


def tensorflow_wheel(wheel: ZipFile, platform: Platform = AMD64) -> Entry:
    needs = _requirements(wheel, platform)
    place = next((name for name in wheel.namelist() if name.endswith("/python/platform/build_info.py")), None)
    text = web.member(wheel, place).decode() if place else ""
    noted = build_info(text)
    return {
        "cuda": _minor(str(noted.get("cuda_version", ""))),
        "cudnn": _pinned(needs, "nvidia-cudnn") or str(noted.get("cudnn_version", "")),
        "cuda_needs": _needed(needs, "nvidia-cuda-runtime", minor=True),
        "nccl_needs": _needed(needs, "nvidia-nccl"),
        "code": " ".join(map(str, noted.get("cuda_compute_capabilities") or ())),
        "keras": str(next((need.specifier for need in needs if need.name == "keras"), "")),
    }


def _requirements(wheel: ZipFile, platform: Platform = AMD64) -> tuple[Requirement, ...]:
    """Those that hold on the platform, with every extra."""
    place = next((name for name in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)), "")
    headers = BytesHeaderParser().parsebytes(web.member(wheel, place))
    found = (_requirement(str(text)) for text in headers.get_all("Requires-Dist", ()))
    return tuple(need for need in found if need and _holds(need, platform))


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:  # of very old wheels; none of those that are asked about
        return None


def _holds(requirement: Requirement, platform: Platform) -> bool:
    if requirement.marker is None:
        return True
    here = {"platform_system": "Linux", "platform_machine": platform.machine, "sys_platform": "linux"}
    return any(
        requirement.marker.evaluate({**here, "extra": extra}) for extra in ("", "and-cuda", "with-cuda")
    )


def _of(needs: Iterable[Requirement], name: str) -> SpecifierSet | None:
    """Return the requirement on a library, whose package's name may end with the -cuNN of its CUDA."""
    pattern = re.compile(rf"{re.escape(name)}(-cu\d+)?")
    return next((need.specifier for need in needs if pattern.fullmatch(need.name)), None)


def _pinned(needs: Iterable[Requirement], name: str) -> str:
    specifier = _of(needs, name)
    exact = [part.version for part in specifier or () if part.operator == "=="]
    return exact[0] if len(exact) == 1 else ""


def _needed(needs: Iterable[Requirement], name: str, *, minor: bool = False) -> str:
    parts = _of(needs, name) or ()
    texts = (f"{part.operator}{_minor(part.version) if minor else part.version}" for part in parts)
    return ",".join(sorted(texts, reverse=True))


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _assigned(source: str, name: str) -> object:
    """Return the constant that a module gives to a name; nothing is run."""
    for node in _parsed(source).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        targets = node.targets if isinstance(node, ast.Assign) else [target]
        named = any(isinstance(assigned, ast.Name) and assigned.id == name for assigned in targets)
        if named and isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            return node.value.value
    return None


def build_info(source: str) -> Mapping[str, Any]:
    """TensorFlow's note on its build: a dictionary since 2.3, or names with a value each before."""
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "OrderedDict" and node.args:
            return dict(_literal(node.args[0]))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return dict(_literal(node.value))
    old = {"cuda_version": "cuda_version_number", "cudnn_version": "cudnn_version_number"}
    return {name: value for name, there in old.items() if (value := _assigned(source, there)) is not None}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise SiteError("a wheel's build_info is no plain dictionary") from error


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise SiteError("a wheel's note on its build is not Python") from error


# -- JAX ----------------------------------------------------------------------------------------------


def plugins(sources: Sources, platform: Platform = AMD64) -> Iterator[Answer]:
    """For each release of JAX, its plugins for CUDA: a project for each major release."""
    table = f"jax{platform.suffix}"
    try:
        found = {
            major: index.by_version(sources.wheels(f"jax-cuda{major}-plugin", platform))
            for major in PLUGINS_OF_JAX
        }
    except SiteError as error:
        yield Answer(table=table, key="jax-cuda-plugin", why=error.cause)
        return
    releases = sorted(
        {version for versions in found.values() for version in versions if version >= Version("0.7")}
    )
    questions: list[Question] = []
    for version in releases:
        files = {major: versions[version] for major, versions in found.items() if version in versions}
        questions.append((table, str(version), partial(_plugins, sources, version, files, platform)))
    yield from ask_all(questions)


def _plugins(
    sources: Sources, version: Version, files: Mapping[str, tuple[Wheel, ...]], platform: Platform
) -> tuple[Entry, str]:
    every = [wheel for wheels in files.values() for wheel in wheels]
    pythons = index.pythons(every)
    described: Entry = {}
    for major, wheels in files.items():
        newest = index.pythons(wheels)[-1]
        wheel = [file for file in wheels if newest in index.pythons([file])][-1]
        described[major] = _of_plugin(sources, wheel, platform)
    entry = {"python": f"{pythons[0]}-{pythons[-1]}", "glibc": index.glibc(every), "plugins": described}
    names = " and ".join(f"jax-cuda{major}-plugin" for major in files)
    return entry, f"the package index: {names} {version}"


def _of_plugin(sources: Sources, wheel: Wheel, platform: Platform) -> Entry:
    found: Entry = sources.once(
        wheel.sha256, "_jax_plugin", lambda: jax_plugin(web.archive(wheel.url, wheel.size), platform)
    )
    return found


def jax_plugin(wheel: ZipFile, platform: Platform = AMD64) -> Entry:
    """Its libraries are all built for the same GPUs; the one that is read is the smallest with code."""
    needs = _requirements(wheel, platform)
    library = next(name for name in wheel.namelist() if re.fullmatch(r"jax_cuda\d+_plugin/_prng\.so", name))
    return {
        "cuda": _needed(needs, "nvidia-cuda-runtime", minor=True),
        "cudnn": _needed(needs, "nvidia-cudnn"),
        "nccl": _needed(needs, "nvidia-nccl"),
        "code": device_code(web.member(wheel, library)),
    }


def device_code(library: bytes) -> str:
    """Return what a library holds for GPUs, as in "sm_80 compute_90".

    Its containers begin with magic, version, size of the head and size of the entries; an entry has its kind
    (1 PTX, 2 machine code) at 0, the size of its head at 4, its own at 8 and the architecture at 28.
    """
    found: set[tuple[int, int]] = set()
    at = library.find(FATBIN)
    while 0 <= at <= len(library) - 16:
        head, length = struct.unpack_from("<HQ", library, at + 6)
        entry, end = at + head, min(at + head + length, len(library) - 32)
        while entry <= end:
            kind, _, size, body = struct.unpack_from("<HHIQ", library, entry)
            if kind not in KINDS or not size + body:
                break
            found.add((kind, struct.unpack_from("<I", library, entry + 28)[0]))
            entry += size + body
        at = library.find(FATBIN, at + 4)
    ordered = sorted(found, key=lambda code: (-code[0], code[1]))
    return " ".join(f"{KINDS[kind]}_{arch}" for kind, arch in ordered)


# -- MXNet, and the libraries of CUDA -----------------------------------------------------------------


def _mxnet(sources: Sources) -> Iterator[Answer]:
    """For each release, the releases of CUDA that it has a wheel for: a project each."""
    files: dict[Version, list[tuple[str, Wheel]]] = {}
    try:
        for project in MXNET_PROJECTS:
            digits = project.removeprefix("mxnet-cu")
            for wheel in sources.wheels(project):
                files.setdefault(wheel.version, []).append((f"{digits[:-1]}.{digits[-1]}", wheel))
    except SiteError as error:
        yield Answer(table="mxnet", key=project, why=error.cause)
        return
    yield from ask_all(
        ("mxnet", str(version), partial(_mxnet_release, sources, found))
        for version, found in sorted(files.items())
        if version >= Version("1.4")
    )


def _mxnet_release(sources: Sources, found: list[tuple[str, Wheel]]) -> tuple[Entry, str]:
    """Its wheels are for any Python; the numpy that it requires, and can use, is not."""
    builds = tuple(dict.fromkeys(cuda for cuda, _ in found))
    wheel = found[-1][1]
    allowed = SpecifierSet(
        sources.once(wheel.sha256, "numpy", lambda: _numpy(web.archive(wheel.url, wheel.size)))
    ) & SpecifierSet(f"<{mxnet.NUMPY.below}")
    usable = [file for file in sources.wheels("numpy") if file.version in allowed]
    pythons = index.pythons(usable)
    value = {"builds": builds, "python": f"{pythons[0]}-{pythons[-1]}", "numpy": str(allowed)}
    return value, f"the package index: mxnet-cu80 to mxnet-cu112 {wheel.version}, numpy"


def _numpy(wheel: ZipFile) -> str:
    return str(
        next(
            (requirement.specifier for requirement in _requirements(wheel) if requirement.name == "numpy"), ""
        )
    )


def _released(sources: Sources, package: str, since: str) -> tuple[list[str], str]:
    found = index.by_version(sources.wheels(package))
    return [str(version) for version in found if version >= Version(since)], f"the package index: {package}"


def _installable(sources: Sources, text: str) -> tuple[tuple[str, ...], str]:
    """Return the releases of Python for which the index has a wheel of what is required."""
    wanted = Requirement(text)
    found = [wheel for wheel in sources.wheels(wanted.name) if wheel.version in wanted.specifier]
    return index.installable(found), f"the package index: {wanted.name}"
