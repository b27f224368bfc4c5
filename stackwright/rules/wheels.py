"""Which wheels the package index has of each framework, and what they were built for. Data only.

Versions are grouped by their first two numbers; a longer entry ("2.11.1") goes before a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from stackwright.rules.provenance import documented, read, unchecked

INDEX = read("the package index: files of the release, and their requirements", "2026-11-20")
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
    """

    release: str
    newest: str
    python: tuple[str, str]
    cuda: str
    builds: tuple[str, ...] = ()
    cudnn: str = ""
    nccl: str = ""
    cuda_needs: str = ""
    nccl_needs: str = ""
    glibc: str = "2.17"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _span(text: str) -> tuple[str, str]:
    first, last = text.split("-")
    return first, last


# newest release, Python, CUDA, other builds, cuDNN and NCCL that it pins, manylinux
TORCH_ROWS = (
    ("1.0.1", "3.5-3.7", "9.0", "8.0 10.0", "", "", "2.17"),
    ("1.1.0", "3.5-3.7", "9.0", "10.0", "", "", "2.17"),
    ("1.2.0", "3.5-3.7", "10.0", "9.2", "", "", "2.17"),
    ("1.3.1", "3.5-3.7", "10.1", "9.2 10.0", "", "", "2.17"),
    ("1.4.0", "3.5-3.8", "10.1", "9.2", "", "", "2.17"),
    ("1.5.1", "3.5-3.8", "10.2", "9.2 10.1", "", "", "2.17"),
    ("1.6.0", "3.6-3.8", "10.2", "9.2 10.1", "", "", "2.17"),
    ("1.7.1", "3.6-3.9", "10.2", "9.2 10.1 11.0", "", "", "2.17"),
    ("1.8.1", "3.6-3.9", "10.2", "10.1 11.1", "", "", "2.17"),
    ("1.9.1", "3.6-3.9", "10.2", "11.1", "", "", "2.17"),
    ("1.10.2", "3.6-3.9", "10.2", "11.1 11.3", "", "", "2.17"),
    ("1.11.0", "3.7-3.10", "10.2", "11.3 11.5", "", "", "2.17"),
    ("1.12.1", "3.7-3.10", "10.2", "11.3 11.6", "", "", "2.17"),
    ("1.13.1", "3.7-3.11", "11.7", "11.6", "8.5.0.96", "", "2.17"),
    ("2.0.1", "3.8-3.11", "11.7", "11.8", "8.5.0.96", "2.14.3", "2.17"),
    ("2.1.2", "3.8-3.11", "12.1", "11.8", "8.9.2.26", "2.18.1", "2.17"),
    ("2.2.2", "3.8-3.12", "12.1", "11.8", "8.9.2.26", "2.19.3", "2.17"),
    ("2.3.1", "3.8-3.12", "12.1", "11.8", "8.9.2.26", "2.20.5", "2.17"),
    ("2.4.1", "3.8-3.12", "12.1", "11.8 12.4", "9.1.0.70", "2.20.5", "2.17"),
    ("2.5.1", "3.9-3.13", "12.4", "11.8 12.1", "9.1.0.70", "2.21.5", "2.17"),
    ("2.6.0", "3.9-3.13", "12.4", "11.8 12.6", "9.1.0.70", "2.21.5", "2.17"),
    ("2.7.1", "3.9-3.13", "12.6", "11.8 12.8", "9.5.1.17", "2.26.2", "2.28"),
    ("2.8.0", "3.9-3.13", "12.8", "12.6 12.9", "9.10.2.21", "2.27.3", "2.28"),
    ("2.9.1", "3.10-3.14", "12.8", "12.6 13.0", "9.10.2.21", "2.27.5", "2.28"),
    ("2.10.0", "3.10-3.14", "12.8", "", "9.10.2.21", "2.27.5", "2.28"),
    ("2.11.0", "3.10-3.14", "13.0", "", "9.19.0.56", "2.28.9", "2.28"),
    ("2.12.1", "3.10-3.14", "13.0", "", "9.20.0.48", "2.29.7", "2.28"),
    ("2.13.0", "3.10-3.14", "13.0", "", "9.20.0.48", "2.29.7", "2.28"),
    ("2.14.1", "3.10-3.14", "13.0", "", "9.24.0.43", "2.30.7", "2.28"),
    ("2.15.0", "3.11-3.14", "13.2", "", "9.26.0.51", "2.30.7", "2.28"),
)

TORCH = tuple(
    Wheel(
        release=_minor(newest),
        newest=newest,
        python=_span(python),
        cuda=cuda,
        builds=tuple(builds.split()),
        cudnn=cudnn,
        nccl=nccl,
        cuda_needs=f"=={cuda}" if cudnn else "",
        nccl_needs=f"=={nccl}" if nccl else "",
        glibc=glibc,
    )
    for newest, python, cuda, builds, cudnn, nccl, glibc in TORCH_ROWS
)

# releases, newest of them, Python, CUDA and cuDNN that it was tested with, CUDA and NCCL that it takes from
# the index, manylinux. From 2.14 on `tensorflow[and-cuda]` requires them.
TENSORFLOW_ROWS = (
    ("1.12", "1.12.3", "3.5-3.6", "9.0", "7", "", "", "2.17"),
    ("1.13", "1.13.2", "3.5-3.7", "10.0", "7.4", "", "", "2.17"),
    ("1.14", "1.14.0", "3.5-3.7", "10.0", "7.4", "", "", "2.17"),
    ("1.15", "1.15.5", "3.5-3.7", "10.0", "7.4", "", "", "2.17"),
    ("2.0", "2.0.4", "3.5-3.7", "10.0", "7.4", "", "", "2.17"),
    ("2.1", "2.1.4", "3.5-3.7", "10.1", "7.6", "", "", "2.17"),
    ("2.2", "2.2.3", "3.5-3.8", "10.1", "7.6", "", "", "2.17"),
    ("2.3", "2.3.4", "3.5-3.8", "10.1", "7.6", "", "", "2.17"),
    ("2.4", "2.4.4", "3.6-3.8", "11.0", "8.0", "", "", "2.17"),
    ("2.5", "2.5.3", "3.6-3.9", "11.2", "8.1", "", "", "2.17"),
    ("2.6", "2.6.5", "3.6-3.9", "11.2", "8.1", "", "", "2.17"),
    ("2.7", "2.7.4", "3.7-3.9", "11.2", "8.1", "", "", "2.17"),
    ("2.8", "2.8.4", "3.7-3.10", "11.2", "8.1", "", "", "2.17"),
    ("2.9", "2.9.3", "3.7-3.10", "11.2", "8.1", "", "", "2.17"),
    ("2.10", "2.10.1", "3.7-3.10", "11.2", "8.1", "", "", "2.17"),
    ("2.11.1", "2.11.1", "3.8-3.10", "11.2", "8.1", "", "", "2.17"),
    ("2.11", "2.11.0", "3.7-3.10", "11.2", "8.1", "", "", "2.17"),
    ("2.12", "2.12.1", "3.8-3.11", "11.8", "8.6", "", "", "2.17"),
    ("2.13", "2.13.1", "3.8-3.11", "11.8", "8.6", "", "", "2.17"),
    ("2.14", "2.14.1", "3.9-3.11", "11.8", "8.7", "==11.8", "==2.16.5", "2.17"),
    ("2.15", "2.15.1", "3.9-3.11", "12.2", "8.9", "==12.2", "==2.16.5", "2.17"),
    ("2.16", "2.16.2", "3.9-3.12", "12.3", "8.9", "==12.3", "==2.19.3", "2.17"),
    ("2.17", "2.17.1", "3.9-3.12", "12.3", "8.9", "==12.3", "==2.19.3", "2.17"),
    ("2.18", "2.18.1", "3.9-3.12", "12.5", "9.3", "==12.5", "==2.21.5", "2.17"),
    ("2.19", "2.19.1", "3.9-3.12", "12.5", "9.3", "==12.5", "==2.23.4", "2.17"),
    ("2.20", "2.20.0", "3.9-3.13", "12.5", "9", ">=12.5,<13", "", "2.17"),
    ("2.21", "2.21.0", "3.10-3.13", "12.5", "9", ">=12.5,<13", ">=2.27.7", "2.27"),
)

TENSORFLOW = tuple(
    Wheel(
        release=release,
        newest=newest,
        python=_span(python),
        cuda=cuda,
        cudnn=cudnn,
        cuda_needs=cuda_needs,
        nccl_needs=nccl_needs,
        glibc=glibc,
    )
    for release, newest, python, cuda, cudnn, cuda_needs, nccl_needs, glibc in TENSORFLOW_ROWS
)

# newest release, Python with a numpy that is old enough, the CUDA releases: one package name each
# (mxnet-cu112 is the wheel for 11.2)
MXNET_ROWS = (
    ("1.4.1", "3.5-3.8", "8.0 9.0 9.2 10.0 10.1"),
    ("1.5.1.post0", "3.5-3.8", "9.0 9.2 10.0 10.1"),
    ("1.6.0.post0", "3.5-3.8", "9.0 9.2 10.1 10.2"),
    ("1.7.0.post0", "3.5-3.8", "10.1 10.2"),
    ("1.8.0.post0", "3.6-3.11", "10.0 10.1 10.2 11.0 11.2"),
    ("1.9.1", "3.6-3.11", "10.1 10.2 11.0 11.2"),
)

MXNET = tuple(
    Wheel(
        release=_minor(newest),
        newest=newest,
        python=_span(python),
        cuda=builds.split()[-1],
        builds=tuple(builds.split()),
    )
    for newest, python, builds in MXNET_ROWS
)

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

TORCH_OWN_CUDA = "2.0"
"""Before it, PyTorch's wheel holds a CUDA runtime and an NCCL of its own beside those of the index: in 1.13.1
torch/lib/libcudart-e409450e.so.11.0, and NCCL within libtorch_cuda.so."""

FIRST_CUDA = "11.0"
"""The first release whose libraries the index has as wheels (nvidia-…-cu11)."""

SOURCE_ONLY = (
    # field, its releases, the releases of Python that it holds for (empty: every one), what has no wheel
    ("tensorflow", ">=2.4,<2.6", "", "termcolor 1.1, which it requires"),
    ("tensorflow", ">=2.6,<2.7", "", "clang 5, which it requires"),
    ("tensorflow", ">=2.12,<2.13", "<=3.8", "jax for Python 3.8, which it requires"),
    (
        "tensorflow",
        ">=2.14,<2.15",
        ">=3.11",
        "tensorrt 8.5.3.1 for Python 3.11, which tensorflow[and-cuda] requires",
    ),
    ("nccl", "<2.13", "", "NCCL before 2.13"),
)

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
