"""What a run needs of the host: what is there, what is missing, what to do. Changes nothing."""

from __future__ import annotations

import shutil
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from stackwright.build.phases import BUILD_NEEDS
from stackwright.core.errors import StackwrightError
from stackwright.core.model.target import CUDA, PLATFORMS, Platform
from stackwright.engines import apptainer, emulation, gpu, rootless
from stackwright.engines import docker as engine
from stackwright.engines.buildah import confined
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.shipped import ROOT
from stackwright.host.site import settings
from stackwright.host.upstream.mirror import read_release
from stackwright.publish.publisher import access
from stackwright.publish.registry.client import Registry

REACHED_BY = "stable"
"""The suite that every Debian mirror has."""

NO_BUNDLE = "install ca-certificates, or set STACKWRIGHT_CA_BUNDLE"


class State(StrEnum):
    """Without what is missing a run cannot work; with a warning it works, with less."""

    OK = "ok"
    MISSING = "missing"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``seen`` is what the host has, ``todo`` the next step."""

    name: str
    state: State
    seen: str
    todo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """What the examinations share; ``docker`` is None when no engine answers."""

    runner: Runner
    out: Path
    environ: Mapping[str, str]
    docker: Docker | None


def examine(runner: Runner, out: Path, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return a finding for each line of EXAMINATIONS. ``out`` is where everything made goes.

    Settings are read one by one from ``environ``: each may be wrong on its own.
    """
    try:
        docker = engine.find(runner, environ)
        found = Finding(name="engine", state=State.OK, seen=_engine_seen(docker))
    except StackwrightError as error:
        docker = None
        found = Finding(name="engine", state=State.MISSING, seen=_cause(error), todo=error.hint)
    patient = Patient(runner=runner, out=out, environ=environ, docker=docker)
    return (found, *(_examined(name, look, patient) for name, look in EXAMINATIONS))


def as_json(findings: Iterable[Finding]) -> dict[str, Any]:
    """``doctor --format json``: ``state`` is ok, missing or warning."""
    return {"version": 1, "findings": [asdict(finding) for finding in findings]}


def _examined(name: str, look: Callable[[Patient], tuple[State, str, str]], patient: Patient) -> Finding:
    try:
        state, seen, todo = look(patient)
    except StackwrightError as error:
        state, seen, todo = State.MISSING, _cause(error), error.hint
    return Finding(name=name, state=state, seen=seen, todo=todo)


def _cause(error: StackwrightError) -> str:
    return f"{error.place}: {error.cause}" if error.place else error.cause


def _engine_seen(docker: Docker) -> str:
    who = f"{docker.title}{', rootless,' if docker.rootless else ''}"
    return f"{who} at {docker.host}, {docker.driver} in {docker.root}"


def _builder(patient: Patient) -> tuple[State, str, str]:
    if patient.docker is not None and patient.docker.builder:
        said = patient.runner([patient.docker.builder, "--version"], timeout=20).stdout.split()
        return State.OK, f"{' '.join(said[:3])}, with {patient.docker.builder}", ""
    program = settings.docker_program(patient.runner, patient.environ)
    version = patient.runner([program, "buildx", "version"], timeout=20).stdout.split()
    return State.OK, f"{version[1] if len(version) > 1 else 'there'}, with {program}", ""


def _rootless(patient: Patient) -> tuple[State, str, str]:
    """Of this host: an engine of another one is what it is there."""
    place = confined.look(patient.runner, patient.environ)
    if place is not None:
        return _confined(patient, place)
    host = rootless.look(patient.environ)
    answers = patient.docker is not None
    used = _way(patient.docker) if patient.docker is not None and patient.docker.rootless else None
    seen: list[str] = []
    todo: list[str] = []
    state = State.OK
    for way in rootless.Way:
        lacks = rootless.lacking(host, way)
        seen.append(f"{way}: {', '.join(lack.what for lack in lacks) or 'possible'}")
        if way is used or (not answers and rootless.installed(host, way)):
            todo += [lack.todo for lack in lacks] or ([] if answers else [rootless.START])
            state = State.WARNING if todo else state
    return state, "; ".join(seen), "; ".join(dict.fromkeys(todo))


def _confined(patient: Patient, place: confined.Place) -> tuple[State, str, str]:
    """The user of a container needs ids as on a host; its root takes all. Docker's engine, where one answers,
    is that of another place."""
    lacks = confined.lacking(place)
    if not place.root:
        of_user = rootless.lacking(rootless.look(patient.environ), rootless.Way.BUILDAH)
        lacks = (*(lack for lack in of_user if lack.stops), *lacks)
    who = f"{'root' if place.root else 'a user'} of a container without privileges"
    builds = "builds nothing" if any(lack.stops for lack in lacks) else "builds by chroot"
    seen = "; ".join((f"{who}, who {builds}", *(lack.what for lack in lacks)))
    if patient.docker is not None and not patient.docker.builder:
        return State.OK, seen, ""
    todo = [lack.todo for lack in lacks] or ([] if patient.docker else [rootless.START])
    return State.WARNING if todo else State.OK, seen, "; ".join(dict.fromkeys(todo))


def _way(docker: Docker) -> rootless.Way:
    return rootless.Way.PODMAN if docker.builder else rootless.Way.DOCKER


def _apptainer(patient: Patient) -> tuple[State, str, str]:
    native = shutil.which("apptainer", path=patient.environ.get("PATH"))
    if native and Path(native).resolve() != apptainer.SHIM.resolve():
        return State.OK, native, ""
    if patient.docker is None:
        return State.MISSING, "not on the PATH, and no engine to run one in", engine.BRING_UP
    if engine.image_exists(patient.docker, apptainer.IMAGE):
        return State.OK, f"image {apptainer.IMAGE}", ""
    return State.OK, "not on the PATH; the first conversion makes an image of it (a minute)", ""


def _gpu(patient: Patient) -> tuple[State, str, str]:
    if patient.docker is None:
        return State.WARNING, "no engine to ask", engine.BRING_UP
    with engine.connected(patient.docker) as client:
        access = gpu.look_for_gpu(client)
    if isinstance(access, gpu.GpuAccess):
        return State.OK, f"containers get it by {' '.join(access.run_arguments())}", ""
    runtime = next((name for name in CUDA.toolkit if shutil.which(name)), None)
    if runtime:
        return State.WARNING, f"this host has {runtime}, and the engine: {access.reason}", "scripts/engine.sh"
    if Path(CUDA.control).exists():
        todo = f"install {CUDA.vendor}'s container toolkit, then scripts/engine.sh"
        return State.WARNING, f"this host has a GPU, and the engine: {access.reason}", todo
    return State.WARNING, f"none; {access.reason}", "the gpu tier is not run here; on a host with a GPU it is"


def _disk(patient: Patient) -> tuple[State, str, str]:
    places = {"out": patient.out}
    if patient.docker is not None and patient.docker.host.startswith("unix://"):
        places["images"] = Path(patient.docker.root)
    free = {name: settings.free_disk(path) for name, path in places.items()}
    seen = ", ".join(f"{size / 1e9:.1f} GB free for {name}" for name, size in free.items())
    if min(free.values()) < BUILD_NEEDS:
        return State.WARNING, seen, f"a first build needs {BUILD_NEEDS / 1e9:.0f} GB: build.py clean"
    return State.OK, seen, ""


def _mirror(patient: Patient) -> tuple[State, str, str]:
    mirror = settings.apt_mirror(patient.runner, patient.environ)
    if mirror is None:
        return State.MISSING, "the host's own apt sources name none", "set STACKWRIGHT_APT_MIRROR"
    release = read_release(mirror, REACHED_BY)
    return State.OK, f"{mirror}, {REACHED_BY} is {release.version or release.date}", ""


def _ca(patient: Patient) -> tuple[State, str, str]:
    bundle = settings.ca_bundle(patient.environ)
    if bundle is None:
        return (State.MISSING, "no bundle of certificates", NO_BUNDLE)
    try:
        context = ssl.create_default_context(cafile=str(bundle))
    except ssl.SSLError as error:
        return State.MISSING, f"{bundle}: {error.reason}", "name a PEM file in STACKWRIGHT_CA_BUNDLE"
    return State.OK, f"{bundle}, {context.cert_store_stats()['x509_ca']} authorities", ""


def _registry(patient: Patient) -> tuple[State, str, str]:
    address = settings.registry(patient.environ)
    if address is None:
        return State.OK, "none is named; only publish needs one", ""
    way = replace(access(address, settings.proxies(patient.environ)), timeout=20, patience=0)
    Registry(way, say=lambda text: None).digest_of(address.repository, "latest")
    return State.OK, f"{address.host}/{address.repository} answers, and lets this user in", ""


def _mmdebstrap(patient: Patient) -> tuple[State, str, str]:
    done = patient.runner(["mmdebstrap", "--version"], timeout=20)
    if not done.ok:
        return State.MISSING, "makes the base images of the debian provider", "scripts/engine.sh"
    return State.OK, done.stdout.strip(), ""


def _platforms(patient: Patient) -> tuple[State, str, str]:
    """Rows for another platform need it, and no other row does."""
    seen = [_runs(target) for target in PLATFORMS.values()]
    return State.OK, ", ".join(seen), ""


def _runs(target: Platform) -> str:
    if emulation.is_native(target):
        return f"{target.name} by its own CPU"
    found = emulation.emulator(target)
    if found and not emulation.is_old(found):
        return f"{target.name} by {Path(found).resolve().name}"
    return f"not {target.name}{' with this old emulator' if found else ''} ({emulation.SCRIPT})"


def _python(patient: Patient) -> tuple[State, str, str]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    pins = ROOT / "requirements.txt"
    differing = differing_pins(pins.read_text(encoding="utf-8")) if pins.is_file() else ()
    if differing:
        shown = ", ".join(differing[:3]) + (", …" if len(differing) > 3 else "")
        return State.WARNING, f"Python {version}, other than pinned: {shown}", "make env"
    return State.OK, f"Python {version} in {sys.prefix}", ""


def differing_pins(text: str) -> tuple[str, ...]:
    """Names in a requirements file whose installed version is another one, or that are not installed."""
    found = []
    for line in text.splitlines():
        requirement, _, marker = line.rstrip(" \\").partition(";")
        name, pinned, version = requirement.strip().partition("==")
        if not pinned or line.startswith((" ", "#")) or not _applies(marker):
            continue
        try:
            installed = metadata.version(canonicalize_name(name.partition("[")[0]))
        except metadata.PackageNotFoundError:
            installed = "absent"
        if installed != version.strip():
            found.append(f"{name} {version.strip()} is {installed}")
    return tuple(found)


def _applies(marker: str) -> bool:
    try:
        return not marker.strip() or Marker(marker.strip()).evaluate()
    except InvalidMarker:
        return False


EXAMINATIONS: tuple[tuple[str, Callable[[Patient], tuple[State, str, str]]], ...] = (
    ("builder", _builder),
    ("without root", _rootless),
    ("apptainer", _apptainer),
    ("GPU runtime", _gpu),
    ("disk", _disk),
    ("mirror", _mirror),
    ("CA bundle", _ca),
    ("registry", _registry),
    ("mmdebstrap", _mmdebstrap),
    ("platforms", _platforms),
    ("Python", _python),
)
