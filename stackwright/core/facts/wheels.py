"""Which wheels the package index has of each framework, and what they were built for.

The tables are written by ``build.py facts --update``; what no wheel says of itself is here, with its source.
Versions are grouped by their first two numbers; a longer entry ("2.11.0") goes before a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import SpecifierSet

from stackwright.core.facts import entries
from stackwright.core.facts.entries import Entry
from stackwright.core.facts.provenance import Provenance, documented, read, unchecked

INDEX = read("the package index: files of the release, and their requirements", "2026-11-22")
PREVIOUS = documented(
    "PyTorch, get-started/previous-versions (pytorch.github.io); for 1.3: horovod v0.18.2, Dockerfile.gpu",
    "2026-11-20",
)
LATER_BUILDS = unchecked("the builds of PyTorch 2.1 and later on PyTorch's own index", "2026-11-20")
TESTED = documented(
    "TensorFlow, install/source: tested build configurations (tensorflow/docs 7c365021)", "2026-11-20"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """``cuda`` is what the index's own wheel was built for, ``builds`` what others with a +cuNNN suffix
    were (empty: not known). ``python`` is the first and last release with a wheel. ``nccl`` and ``cudnn``
    are those that the wheel requires from the index; empty where it finds, or holds, them in another way.
    ``cuda_needs`` and ``nccl_needs`` are what it lets others bring, as PEP 440 specifiers; empty: anything.
    ``keras`` is what TensorFlow requires of it. ``own_cuda``: the wheel holds a CUDA runtime or an NCCL.
    ``code`` is what the wheel holds for GPUs, as rules/code.py reads it; empty: it does not say.
    """

    release: str
    newest: str
    python: tuple[str, str]
    cuda: str
    fact: Provenance
    builds: tuple[str, ...] = ()
    cudnn: str = ""
    nccl: str = ""
    cuda_needs: str = ""
    nccl_needs: str = ""
    glibc: str = ""
    keras: str = ""
    own_cuda: bool = False
    code: str = ""


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _span(text: str) -> tuple[str, str]:
    first, last = text.split("-")
    return first, last


TORCH_BUILDS = (
    # releases, the CUDA releases of its builds with a suffix, how that is known
    ("1.0", "8.0 10.0", PREVIOUS),
    ("1.1", "10.0", PREVIOUS),
    ("1.2", "9.2", PREVIOUS),
    ("1.3", "9.2 10.0", PREVIOUS),
    ("1.4", "9.2", PREVIOUS),
    ("1.5", "9.2 10.1", PREVIOUS),
    ("1.6", "9.2 10.1", PREVIOUS),
    ("1.7", "9.2 10.1 11.0", PREVIOUS),
    ("1.8", "10.1 11.1", PREVIOUS),
    ("1.9", "11.1", PREVIOUS),
    ("1.10", "11.1 11.3", PREVIOUS),
    ("1.11", "11.3 11.5", unchecked("the build of PyTorch 1.11 for CUDA 11.5", "2026-11-20")),
    ("1.12", "11.3 11.6", PREVIOUS),
    ("1.13", "11.6", PREVIOUS),
    ("2.0", "11.8", PREVIOUS),
    ("2.1", "11.8", LATER_BUILDS),
    ("2.2", "11.8", LATER_BUILDS),
    ("2.3", "11.8", LATER_BUILDS),
    ("2.4", "11.8 12.4", LATER_BUILDS),
    ("2.5", "11.8 12.1", LATER_BUILDS),
    ("2.6", "11.8 12.6", LATER_BUILDS),
    ("2.7", "11.8 12.8", LATER_BUILDS),
    ("2.8", "12.6 12.9", LATER_BUILDS),
    ("2.9", "12.6 13.0", LATER_BUILDS),
)

BUILD_FACTS = {release: fact for release, _, fact in TORCH_BUILDS}

TENSORFLOW_TESTED = (
    # releases whose wheel says less of itself: the CUDA and the cuDNN that they were tested with (TESTED)
    ("1.12", "9.0", "7"),
    ("1.13", "10.0", "7.4"),
    ("1.15", "10.0", "7.4"),
    ("2.0", "10.0", "7.4"),
    ("2.2", "10.1", "7.6"),
)


def _torch(release: str, value: Mapping[str, Any]) -> dict[str, Any]:
    builds = next((builds for minor, builds, _ in TORCH_BUILDS if minor == release), "")
    cudnn, nccl = value["cudnn"], value["nccl"]
    return {
        **value,
        "builds": tuple(builds.split()),
        "cuda_needs": f"=={value['cuda']}" if cudnn else "",
        "nccl_needs": f"=={nccl}" if nccl else "",
    }


def _tensorflow(release: str, value: Mapping[str, Any]) -> dict[str, Any]:
    tested = next(((cuda, cudnn) for minor, cuda, cudnn in TENSORFLOW_TESTED if minor == release), None)
    return {**value, "cuda": tested[0], "cudnn": tested[1]} if tested else dict(value)


def _mxnet(release: str, value: Mapping[str, Any]) -> dict[str, Any]:
    builds = tuple(value["builds"])
    return {"python": value["python"], "builds": builds, "cuda": builds[-1]}


DESCRIBE = {"torch": _torch, "tensorflow": _tensorflow, "mxnet": _mxnet}


def _table(name: str) -> tuple[Wheel, ...]:
    """The newest of each minor release stands for it; an older one has an entry where it differs."""
    found: list[Wheel] = []
    minors: dict[str, list[Entry]] = {}
    for entry in entries.load(name):
        minors.setdefault(_minor(entry.key), []).append(entry)
    for minor, releases in minors.items():
        last = releases[-1]
        found += [_wheel(name, one, one.key) for one in releases if one.value != last.value]
        found.append(_wheel(name, last, minor))
    return tuple(found)


def _wheel(name: str, entry: Entry, release: str) -> Wheel:
    value = DESCRIBE[name](_minor(entry.key), entry.value)
    return Wheel(
        **{**value, "python": _span(value["python"])}, release=release, newest=entry.key, fact=entry.fact
    )


TORCH = _table("torch")
TENSORFLOW = _table("tensorflow")
"""From 2.14 on ``tensorflow[and-cuda]`` requires CUDA's libraries; before 2.1 it is tensorflow-gpu."""
MXNET = _table("mxnet")


def newest(table: Iterable[Wheel]) -> tuple[str, ...]:
    """The newest release of each minor one: what is worth proposing."""
    return tuple(one.newest for one in table if one.release == _minor(one.newest))


MXNET_NUMPY = "1.24"
"""MXNet uses ``numpy.bool``, which numpy 1.24 took away; the last numpy before it has wheels to 3.11."""

NUMPY = (
    # field, its releases, the first numpy that it does not work with, what happens with that one
    ("mxnet", "", MXNET_NUMPY, "mxnet uses numpy.bool, which numpy 1.24 dropped"),
    ("tensorflow", "<2.18", "2", "the wheel was compiled against numpy 1: import tensorflow raises an error"),
    ("torch", "<2.3", "2", 'the wheel was compiled against numpy 1: it says "Numpy is not available"'),
)
"""The lowest limit is first. TensorFlow 2.12 to 2.17 state theirs; the others leave it to the resolver."""

MXNET_HEADERS = ("1.5.1", "1.6.0", "1.7.0", "1.7.0.post1")
"""These wheels lack the MKLDNN headers that Horovod's extension includes."""

FIRST_CUDA = "11.0"
"""The first release whose libraries the index has as wheels (nvidia-…-cu11)."""

SOURCE_ONLY = (
    # field, its releases, what they require: its wheels, if any, are for some releases of Python
    ("tensorflow", ">=2.4,<2.7", "termcolor~=1.1.0"),
    ("tensorflow", ">=2.6,<2.7", "clang~=5.0"),
    ("tensorflow", ">=2.12,<2.13", "jax>=0.3.15"),
    ("tensorflow", ">=2.14,<2.15", "tensorrt==8.5.3.1"),
)

REQUIREMENTS = {entry.key: entry for entry in entries.load("requirements")}
"""By requirement, the releases of Python that the index has a wheel for."""

FIRST_NCCL = "2.13"
"""The first NCCL that the index has a wheel of."""

TORCH_NEW_ABI = "2.7"
"""The first PyTorch whose wheels on the index use the C++11 ABI."""
TENSORFLOW_NEW_ABI = "2.9"
"""The first TensorFlow whose wheels do (deepmodeling/deepmd-kit #1791)."""

OLD_COMPILER_TENSORFLOW = "1.15"
"""TensorFlow before it was built by gcc 4.8; an extension needs a gcc before 5 (horovod #1483)."""

SETUPTOOLS = (("2.1", "70"),)
"""PyTorch before the first imports pkg_resources.packaging, which setuptools dropped with the second."""


NUMPY_READ = read("the wheels, installed and imported with numpy 2; apache/mxnet: numpy.bool", "2026-11-22")


def numpy_limit(versions: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The framework with the lowest limit for numpy, that limit, and why; ``versions`` by framework."""
    for name, releases, limit, why in NUMPY:
        if name in versions and SpecifierSet(releases).contains(versions[name], prereleases=True):
            return name, limit, why
    return None


def wheel(table: Iterable[Wheel], version: str) -> Wheel | None:
    """The entry of a version: the longest ``release`` that it starts with."""
    public = version.split("+")[0]
    fitting = [w for w in table if public == w.release or public.startswith(w.release + ".")]
    return max(fitting, key=lambda w: len(w.release)) if fitting else None


def build(version: str) -> str | None:
    """The CUDA release of a +cuNNN suffix: 2.0.1+cu118 -> 11.8."""
    local = version.partition("+")[2]
    digits = local.removeprefix("cu")
    return f"{digits[:-1]}.{digits[-1]}" if local.startswith("cu") and digits.isdigit() else None
