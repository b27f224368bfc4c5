"""Checks of files, user, programs, environment and labels: nothing is loaded for them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from stackwright.core.checks.check import (
    DOCKER,
    Facts,
    Finding,
    NotAsked,
    Rule,
    cause,
    finding,
    listed,
    same,
    take,
)
from stackwright.core.components.table import COMPILERS, LAUNCHERS
from stackwright.core.facts import distributions
from stackwright.core.launch.fit import image as images
from stackwright.core.model.labels import KEY, PROVIDER, ROW, SHAPES, STACK, VERSION
from stackwright.core.model.row import Flavour, Stack, Tier
from stackwright.core.render.dockerfile import declared
from stackwright.core.render.own_files import public_sources
from stackwright.core.versions import upstream

APPTAINER_LIBRARIES = "/.singularity.d/libs"
"""Apptainer itself puts this folder on LD_LIBRARY_PATH: it holds the host's driver."""
NVCC = re.compile(r"nvidia-cuda-nvcc(-cu\d+)?")
"""The wheel of the compiler, which a package can require for what it compiles at run time."""
WHEEL = re.compile(r"/site-packages/")
"""Some wheels carry keys for their own tests. They are public, and a wheel's files are pinned by hash: where
files are read from outside, a key is left out if it is as the wheel has it."""


def scan(stack: Stack, facts: Facts) -> Finding:
    unreadable = take(facts, "files", "unreadable")
    return finding(
        [f"{len(unreadable)} folders could not be read: {listed(unreadable)}"] if unreadable else [],
        f"{take(facts, 'files', 'files')} files",
    )


def host_key(stack: Stack, facts: Facts) -> Finding:
    found = finding(f"{path} is a host key of sshd" for path in take(facts, "files", "host_keys"))
    return _if_all_was_read(facts, found)


def private_key(stack: Stack, facts: Facts) -> Finding:
    hosts = set(take(facts, "files", "host_keys"))
    keys = [key["path"] for key in take(facts, "files", "private_keys")]
    outside = take(facts, "files").get("outside")
    other = [path for path in keys if path not in hosts and (outside or not WHEEL.search(path))]
    return _if_all_was_read(facts, finding(f"{path} is a private key" for path in other))


def site_ca(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "files", "authorities")
    problems = [f"{path} is not from the distribution" for path in found["local"]]
    if found["extra"]:
        problems.append(f"{len(found['extra'])} certificates of {found['bundle']} are not the distribution's")
    return finding(problems, f"{found['count']} certificates, all of the distribution")


def _left(facts: Facts, names: Iterable[str], own: Mapping[str, str] = MappingProxyType({})) -> Finding:
    """``own``: the SHA-256 of files that our steps put there."""
    every = [entry for name in names for entry in take(facts, "files", "leftovers", name)]
    found = [entry for entry in every if own.get(entry["path"]) != entry.get("sha256", "")]
    total = sum(entry["bytes"] for entry in found)
    paths = [entry["path"] for entry in found]
    problems = [f"{len(paths)} files, {total} bytes: {listed(paths)}"] if paths else []
    return _if_all_was_read(facts, finding(problems))


def _if_all_was_read(facts: Facts, found: Finding) -> Finding:
    """What was not found is not there only where every folder could be read."""
    unreadable = take(facts, "files", "unreadable")
    if unreadable and not found.problems:
        raise NotAsked(f"{len(unreadable)} folders could not be read: {listed(unreadable)}")
    return found


def pip_cache(stack: Stack, facts: Facts) -> Finding:
    return _left(facts, ("pip_cache",))


def apt_cache(stack: Stack, facts: Facts) -> Finding:
    return _left(facts, ("apt_archives", "apt_lists"))


def site_config(stack: Stack, facts: Facts) -> Finding:
    """But for the distribution's public mirror, with which the image is shipped."""
    release = distributions.known(stack.os)
    public = hashlib.sha256(public_sources(release).encode()).hexdigest()
    return _left(facts, ("pip_config", "apt_sources", "apt_proxy"), {release.sources: public})


def site_layers(stack: Stack, facts: Facts) -> Finding:
    """By the names of the site's values alone: a verdict is published."""
    found, searched = take(facts, "layers", "left"), take(facts, "layers", "searched")
    places = (f"{entry['what']} in {entry['path']} of layer {entry['layer'][:12]}" for entry in found)
    looked = f"{take(facts, 'layers', 'layers')} layers, looked for {', '.join(searched) or 'nothing'}"
    return finding(places, looked)


def temporary(stack: Stack, facts: Facts) -> Finding:
    """From inside of a SIF, these folders are the host's."""
    if take(facts, "files").get("uid") and not take(facts, "files").get("outside"):
        raise NotAsked("the files were read by a user who sees the host's folders for temporary files")
    return _left(facts, ("temporary",))


def stub(stack: Stack, facts: Facts) -> Finding:
    """Where the driver was given to the container its own libcuda is there, and is no stub."""
    found = take(facts, "system", "driver_library")
    problems = (
        []
        if found["driver"]
        else [f"{library['path']} by {library['way']}" for library in found["reachable"]]
    )
    return finding(problems, "the driver's own" if found["driver"] else "no libcuda on the loader's path")


def library_path(stack: Stack, facts: Facts) -> Finding:
    value = take(facts, "system", "environment").get("LD_LIBRARY_PATH", "")
    folders = [folder for folder in value.split(":") if folder and folder != APPTAINER_LIBRARIES]
    return finding([f"LD_LIBRARY_PATH is {':'.join(folders)}"] if folders else [])


def init(stack: Stack, facts: Facts) -> Finding:
    path = take(facts, "system", "programs", "tini")
    if not path:
        return finding(["there is no tini in the image"])
    broken = take(facts, "system", "init")
    return finding([f"{path} starts no program: {cause(broken)}"] if broken else [], str(path))


def ssh(stack: Stack, facts: Facts) -> Finding:
    programs = take(facts, "system", "programs")
    absent = [f"there is no {name}" for name in ("ssh", "sshd") if not programs[name]]
    refused = take(facts, "system", "ssh")
    broken = [
        f"{who} refuses its configuration: {cause(refused[name])}"
        for name, who in (("client", "ssh"), ("server", "sshd"))
        if refused[name]
    ]
    return finding(absent or broken, "client and server take their configuration")


def rdma(stack: Stack, facts: Facts) -> Finding:
    fabric = take(facts, "system", "fabric")
    problems = [] if fabric["ibverbs"] else ["the loader knows no libibverbs.so.1"]
    problems += [] if fabric["providers"] else ["there is no provider of libibverbs"]
    packaged = "libucx0" not in distributions.known(stack.os).lacks
    problems += [] if fabric["ucx"] or not packaged else ["there is no libucp.so (UCX)"]
    unnamed = [name for name in fabric["providers"] if _driver(name) not in fabric["drivers"]]
    problems += [f"/etc/libibverbs.d names no driver for {listed(unnamed)}"] if unnamed else []
    return finding(problems, f"{len(fabric['providers'])} providers")


def _driver(provider: str) -> str:
    """As libibverbs makes one name of the other: "mlx5" of libmlx5-rdmav34.so."""
    return re.sub(r"^lib|-rdmav\d+\.so$", "", provider)


def compiler(stack: Stack, facts: Facts) -> Finding:
    programs = take(facts, "system", "programs")
    problems = [f"there is no {name}" for name in ("gcc", "g++") if not programs[name]]
    problems += [] if take(facts, "system", "headers") else ["there is no Python.h"]
    broken = take(facts, "system", "compiled")
    if broken and not problems:
        problems = [f"g++ compiles no extension: {cause(broken)}"]
    return finding(problems, "a small extension in C++ was compiled and loaded")


def name_service(stack: Stack, facts: Facts) -> Finding:
    broken = take(facts, "system", "name_service")
    return finding([cause(broken)] if broken else [], "gcc makes the same of its source")


def nvcc(stack: Stack, facts: Facts) -> Finding:
    paths = take(facts, "files", "nvcc")
    if stack.flavour is Flavour.RUNTIME:
        known = stack.lock.packages  # none where the lock of an image's row is not here
        locked = not known or any(NVCC.fullmatch(package.name) for package in known)
        foreign = [path for path in paths if not (locked and WHEEL.search(path))]
        seen = "it is of a wheel that the row's packages require" if len(foreign) < len(paths) else ""
        return finding((f"{path} is in a runtime image" for path in foreign), seen)
    release = take(facts, "system", "nvcc")
    return same("nvcc", stack.cuda, release)


def labels(facts: Facts) -> Mapping[str, str]:
    """Of the image in Docker, of the file in a SIF."""
    if "labels" in facts:
        found: Mapping[str, str] = take(facts, "labels")
        return found
    return take(facts, "image", "Config", "Labels") or {}


def oci_labels(stack: Stack, facts: Facts) -> Finding:
    """The version is compared where the key is a label too: a SIF of a definition file has none."""
    found = labels(facts)
    problems = [f"the label {name} is missing" for name in SHAPES if not found.get(name)]
    problems += [
        f"the label {name} is {found[name]!r}, which is not in its notation"
        for name, shape in SHAPES.items()
        if found.get(name) and not shape.fullmatch(found[name])
    ]
    version, key = found.get(VERSION, ""), found.get(KEY, "")
    if not problems and not (key or version).startswith(version):
        problems.append(f"the label {VERSION} is {version!r}, and the key begins with {key[:12]}")
    return finding(problems)


def provider(stack: Stack, facts: Facts) -> Finding:
    seen = labels(facts).get(PROVIDER)
    if seen == stack.provider:
        return finding((), str(seen))
    return finding([f"the row declares the provider {stack.provider}, the base is of {seen or 'unknown'}"])


def cluster_labels(stack: Stack, facts: Facts) -> Finding:
    """A label of a library that is no package of the image is compared with the row alone."""
    packages, found = take(facts, "system", "distribution_packages"), labels(facts)
    problems = []
    for name, value in images.labels(stack):
        told = found.get(name)
        owners = images.LABELS.get(name.rpartition(".")[2], ())
        inside = next((upstream(packages[owner]) for owner in owners if owner in packages), value)
        if told != value or not (inside == value or inside.startswith(f"{value}.")):
            problems.append(f"{name} is {told!r}, the row says {value}, and {inside} is inside")
    return finding(problems)


def row_label(stack: Stack, facts: Facts) -> Finding:
    value = labels(facts).get(ROW)
    return finding([] if value == stack.id else [f"{ROW} is {value!r}, the row {stack.id!r}"], str(value))


def _parse(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except ValueError:
        return None


def _differs(document: Any, stack: Stack) -> Finding:
    """A document that should be the row, field by field."""
    wanted = declared(stack)
    if not isinstance(document, Mapping):
        return finding(["it is absent, or is no JSON object"])
    return finding(
        f"{key} is {document.get(key)!r}, the row's is {wanted.get(key)!r}"
        for key in sorted(document.keys() | wanted.keys())
        if document.get(key) != wanted.get(key)
    )


def row_file(stack: Stack, facts: Facts) -> Finding:
    return _differs(_parse(take(facts, "system", "row")), stack)


def stack_label(stack: Stack, facts: Facts) -> Finding:
    return _differs(_parse(labels(facts).get(STACK)), stack)


S = Tier.STATIC
RULES = (
    Rule(id="static.scan", tier=S, judge=scan, worlds=DOCKER,
         why="Every folder was read, so what the other checks did not find is not there."),
    Rule(id="static.host-key", tier=S, judge=host_key,
         why="A host key of sshd inside an image is known to everyone who pulls it."),
    Rule(id="static.private-key", tier=S, judge=private_key,
         why="A private key inside an image opens the cluster to everyone who pulls it."),
    Rule(id="static.site-ca", tier=S, judge=site_ca,
         why="A certificate authority of the build site must not be trusted by the users of the image."),
    Rule(id="static.pip-cache", tier=S, judge=pip_cache,
         why="A cache of pip or uv makes the image larger and is never read again."),
    Rule(id="static.apt-cache", tier=S, judge=apt_cache,
         why="Package archives and lists make the image larger and are stale the next day."),
    Rule(id="static.site-config", tier=S, judge=site_config,
         why="Mirrors, indexes and passwords of the build site must not travel with the image."),
    Rule(id="static.site-layers", tier=S, judge=site_layers, worlds=DOCKER,
         why="A file that a later layer deletes is still in the image, for everyone who unpacks the layers."),
    Rule(id="static.temporary", tier=S, judge=temporary,
         why="Files that the build left in /tmp are of no use, and may hold its secrets."),
    Rule(id="static.libcuda-stub", tier=S, judge=stub,
         why="A stub libcuda on the loader's path hides the driver, and CUDA then reports no device."),
    Rule(id="static.library-path", tier=S, judge=library_path,
         why="LD_LIBRARY_PATH is overwritten by the modules of an HPC site, so nothing may need it."),
    Rule(id="static.init", tier=S, judge=init,
         why="Without an init the processes that a training leaves behind are never reaped."),
    Rule(id="static.ssh", tier=S, judge=ssh, needs=("static.user",),
         why=f"{' and '.join(('mpirun', *LAUNCHERS))} reach other nodes by OpenSSH."),
    Rule(id="static.rdma", tier=S, judge=rdma,
         why="Without the user-space libraries of RDMA, NCCL falls back to TCP and says nothing."),
    Rule(id="static.compiler", tier=S, judge=compiler,
         why=f"{COMPILERS} and Triton compile at run time and need gcc, g++ and Python's headers."),
    Rule(id="static.user-module", tier=S, judge=name_service, needs=("static.compiler",),
         why="Every process loads the module that names a user whom /etc/passwd does not know."),
    Rule(id="static.nvcc", tier=S, judge=nvcc,
         why="A runtime image ships no CUDA compiler (5 GB) but a wheel's, a devel image ships the row's."),
    Rule(id="static.oci-labels", tier=S, judge=oci_labels,
         why="Registries and scanners show these labels; the version is the head of the row's key."),
    Rule(id="static.cluster-labels", tier=S, judge=cluster_labels, needs=("declared.distribution",),
         why="A login node compares its MPI, PMIx, UCX, libfabric and glibc with those labels."),
    Rule(id="static.row-label", tier=S, judge=row_label,
         why="The label names the row that the image was made from."),
    Rule(id="declared.provider", tier=S, judge=provider,
         why="The base was made by the row's provider."),
    Rule(id="static.stack-label", tier=S, judge=stack_label,
         why="The label holds the row with all its versions, and they are those of this row."),
    Rule(id="static.row-file", tier=S, judge=row_file,
         why="The file tells who is inside the image the same row as the label tells from outside."),
)  # fmt: skip
