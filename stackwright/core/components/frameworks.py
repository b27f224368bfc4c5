"""Rules about the frameworks: what their wheels were built for, and which of them can share an image."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from packaging.specifiers import SpecifierSet

from stackwright.core.facts import distributions, horovod, wheels
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.facts.provenance import Provenance, documented, read, weakest
from stackwright.core.facts.wheels import INDEX, PREVIOUS, TESTED, Wheel, wheel
from stackwright.core.model.row import Cell
from stackwright.core.rules.compilers import CUDA, GCC, cuda_of, gcc_of
from stackwright.core.rules.rule import About, Answer, CellRule, Clash, Said, covers

TABLES = {"torch": wheels.TORCH, "tensorflow": wheels.TENSORFLOW, "mxnet": wheels.MXNET}


def _wheel(cell: Cell, name: str) -> tuple[str, Wheel] | None:
    """The version that the row names and its entry in the tables; None where either is missing."""
    version = getattr(cell, name)
    found = _entry(name, version) if version else None
    return (version, found) if found else None


@lru_cache(maxsize=1000)
def _entry(name: str, version: str) -> Wheel | None:
    return wheel(TABLES[name], version)


def built_for(cell: Cell, name: str) -> str | None:
    """The CUDA release that the framework's wheel was built for: its suffix, or what the tables say."""
    found = _wheel(cell, name)
    if found is None:
        return None
    return wheels.build(found[0]) or found[1].cuda


def same_cuda(one: str, other: str) -> bool:
    """Whether code of both releases runs on one runtime: by major release since 11, before by minor."""
    first, second = as_numbers(one)[:2], as_numbers(other)[:2]
    return first[0] == second[0] and (first[0] >= 11 or first == second)


def _at_least_one(cell: Cell) -> Answer:
    if cell.torch or cell.tensorflow or cell.mxnet:
        return Said.FITS
    return Clash(
        values=(("torch", "none"), ("tensorflow", "none"), ("mxnet", "none")),
        reason="Horovod needs at least one framework to be compiled against",
    )


def _python(name: str) -> Callable[[Cell], Answer]:
    def ask(cell: Cell) -> Answer:
        found = _wheel(cell, name)
        if found is None:
            return Said.SILENT
        version, entry = found
        first, last = entry.python
        if as_numbers(first) <= as_numbers(cell.python) <= as_numbers(last):
            return Said.FITS
        reason = f"{name} {version} has wheels for Python {first} to {last}"
        if name == "mxnet" and as_numbers(cell.python) > as_numbers(last):
            reason = f"mxnet needs numpy before {wheels.MXNET_NUMPY}, which has wheels up to Python {last}"
        fact = NUMPY if name == "mxnet" else entry.fact
        return Clash(values=((name, version), ("python", cell.python)), reason=reason, fact=fact)

    return ask


def _mxnet_cuda(cell: Cell) -> Answer:
    found, cuda = _wheel(cell, "mxnet"), cuda_of(cell)
    if found is None or cuda is None:
        return Said.SILENT
    version, entry = found
    if any(same_cuda(build, cuda) for build in entry.builds):
        return Said.FITS
    reason = (
        f"mxnet {version} has wheels for CUDA {', '.join(entry.builds)}; none was ever made for 12 or later"
    )
    return Clash(values=(("mxnet", version), ("cuda", cuda)), reason=reason, fact=entry.fact)


def _mxnet_headers(cell: Cell) -> Answer:
    if cell.mxnet is None:
        return Said.SILENT
    if cell.mxnet not in wheels.MXNET_HEADERS:
        return Said.FITS
    reason = "this wheel lacks the MKLDNN headers that Horovod includes; the .post0 of the release has them"
    return Clash(values=(("mxnet", cell.mxnet),), reason=reason)


def _one_cuda(cell: Cell) -> Answer:
    torch, tensorflow = built_for(cell, "torch"), built_for(cell, "tensorflow")
    if torch is None or tensorflow is None:
        return Said.SILENT
    if same_cuda(torch, tensorflow):
        return Said.FITS
    return Clash(
        values=(("tensorflow", str(cell.tensorflow)), ("torch", str(cell.torch))),
        reason="the wheels bring two CUDA releases into one image: "
        f"{tensorflow} for tensorflow, {torch} for torch",
    )


def _pins(cell: Cell) -> Answer:
    torch, tensorflow = _wheel(cell, "torch"), _wheel(cell, "tensorflow")
    if torch is None or tensorflow is None or not torch[1].nccl or not tensorflow[1].cuda_needs:
        return Said.SILENT
    if "+" in torch[0]:  # another index than the one that the tables were read from
        return Said.SILENT
    brought, needs = torch[1], tensorflow[1]
    values = (("tensorflow", tensorflow[0]), ("torch", torch[0]))
    for what, version, allowed in (
        ("CUDA", brought.cuda, needs.cuda_needs),
        ("NCCL", brought.nccl, needs.nccl_needs),
    ):
        if not SpecifierSet(allowed).contains(version):
            reason = f"torch {torch[0]} pins {what} {version}, and tensorflow {tensorflow[0]} takes {allowed}"
            return Clash(values=values, reason=reason, fact=weakest(brought.fact, needs.fact))
    return Said.FITS


def _compiler(name: str) -> Callable[[Cell], Answer]:
    def ask(cell: Cell) -> Answer:
        built, cuda = built_for(cell, name), cuda_of(cell)
        if built is None or cuda is None:
            return Said.SILENT
        if same_cuda(built, cuda):
            return Said.FITS
        version = str(getattr(cell, name))
        entry = wheel(TABLES[name], version)
        others = f", others for {' and '.join(entry.builds)}" if entry and entry.builds else ""
        if wheels.build(version):
            others = ""
        reason = (
            f"the wheel of {name} {version} was built for CUDA {built}{others}; "
            f"Horovod's kernels must be compiled by the release that the framework loads"
        )
        return Clash(values=((name, version), ("cuda", cuda)), reason=reason)

    return ask


def _torch_build(cell: Cell) -> Answer:
    found = _wheel(cell, "torch")
    suffix = wheels.build(found[0]) if found else None
    if found is None or suffix is None or not found[1].builds:
        return Said.SILENT
    version, entry = found
    if suffix in (entry.cuda, *entry.builds):
        return Said.FITS
    reason = f"torch {version.split('+')[0]} was built for CUDA {', '.join((entry.cuda, *entry.builds))}"
    fact = wheels.BUILD_FACTS[".".join(version.split(".")[:2])]
    return Clash(values=(("torch", version),), reason=reason, fact=fact)


def _cudnn(cell: Cell) -> Answer:
    if cell.cudnn is None:
        return Said.SILENT
    asked = False
    for name in ("torch", "tensorflow"):
        found = _wheel(cell, name)
        if found is None or not found[1].cudnn or "+" in found[0]:
            continue
        asked, needed = True, found[1].cudnn
        exact = needed.count(".") > 1
        if exact and not covers(cell.cudnn, needed):
            reason = f"the wheel of {name} {found[0]} requires cuDNN {needed}"
        elif cell.cudnn.split(".")[0] != needed.split(".")[0]:
            reason = f"the wheel of {name} {found[0]} was built for cuDNN {needed}"
        else:
            continue
        return Clash(values=(("cudnn", cell.cudnn), (name, found[0])), reason=reason)
    return Said.FITS if asked else Said.SILENT


def _abi(cell: Cell) -> Answer:
    torch, tensorflow = _wheel(cell, "torch"), _wheel(cell, "tensorflow")
    if torch is None or tensorflow is None:
        return Said.SILENT
    # before 2.1 the two extensions differ in their C++ standard, and each gets a Gloo of its own
    old = as_numbers("2.1") <= as_numbers(torch[0]) < as_numbers(wheels.TORCH_NEW_ABI)
    if not old or as_numbers(tensorflow[0]) < as_numbers(wheels.TENSORFLOW_NEW_ABI):
        return Said.FITS
    return Clash(
        values=(("tensorflow", tensorflow[0]), ("torch", torch[0])),
        reason="torch's wheel has the old C++ ABI and tensorflow's the new one, "
        "and one Gloo is linked into both",
    )


def _tensorflow_gcc(cell: Cell) -> Answer:
    gcc = gcc_of(cell)
    if cell.tensorflow is None or gcc is None:
        return Said.SILENT
    if as_numbers(cell.tensorflow) >= as_numbers(wheels.OLD_COMPILER_TENSORFLOW) or as_numbers(gcc)[0] < 5:
        return Said.FITS
    reason = f"the wheel of tensorflow {cell.tensorflow} was built by gcc 4.8, whose C++ ABI gcc 5 left"
    return Clash(values=(("tensorflow", cell.tensorflow), ("gcc", gcc)), reason=reason)


def _keras(cell: Cell) -> Answer:
    found = _wheel(cell, "tensorflow")
    if cell.keras is None or found is None or not found[1].keras:
        return Said.SILENT
    version, entry = found
    if SpecifierSet(entry.keras).contains(cell.keras, prereleases=True):
        return Said.FITS
    reason = f"tensorflow {version} requires keras {entry.keras}"
    return Clash(values=(("keras", cell.keras), ("tensorflow", version)), reason=reason, fact=entry.fact)


def _floors(cell: Cell) -> Answer:
    below = [
        (name, value, least, fact)
        for since, name, least, fact in horovod.FLOORS
        if as_numbers(cell.horovod) >= as_numbers(since)
        and (value := gcc_of(cell) if name == "gcc" else getattr(cell, name))
        and as_numbers(value) < as_numbers(least)
    ]
    if not below:
        return Said.FITS
    needs = ", ".join(f"{name} {least}" for name, _, least, _ in below)
    return Clash(
        values=(("horovod", cell.horovod), *((name, value) for name, value, _, _ in below)),
        reason=f"Horovod {cell.horovod} needs {needs} or later",
        fact=below[0][3],
    )


def _rule(
    name: str, fields: tuple[str, ...], fact: Provenance, ask: Callable[[Cell], Answer], says: str
) -> CellRule:
    return CellRule(name=name, about=About.STACK, fields=fields, fact=fact, ask=ask, says=says)


BOTH = ("torch", "tensorflow")
NUMPY = documented("apache/mxnet: numpy.bool; the package index: numpy 1.23.5", "2026-11-20")
NO_FRAMEWORK = read("horovod 0.28.1, setup.py: an extension for each framework", "2026-11-20")

RULES = (
    _rule("frameworks", (*BOTH, "mxnet"), NO_FRAMEWORK, _at_least_one, "a row has a framework"),
    _rule("mxnet-cuda", (*CUDA, "mxnet"), INDEX, _mxnet_cuda, "MXNet's wheels end with CUDA 11"),
    _rule(
        "torch-python", ("torch", "python"), INDEX, _python("torch"), "a wheel is for some releases of Python"
    ),
    _rule(
        "tensorflow-python",
        ("tensorflow", "python"),
        INDEX,
        _python("tensorflow"),
        "a wheel is for some releases of Python",
    ),
    _rule(
        "mxnet-python",
        ("mxnet", "python"),
        NUMPY,
        _python("mxnet"),
        "MXNet's numpy is for some releases of Python",
    ),
    _rule(
        "one-cuda-wheels",
        BOTH,
        documented(f"pytorch #186591; {INDEX.source}", "2026-11-20"),
        _one_cuda,
        "the wheels bring one CUDA into the image",
    ),
    _rule("framework-pins", BOTH, INDEX, _pins, "what one wheel pins, the other takes"),
)
"""Asked before the rules about compilers: what no index has is a truer cause than what would compile it."""

LATER = (
    _rule("torch-build", ("torch",), PREVIOUS, _torch_build, "PyTorch was built for some releases of CUDA"),
    _rule(
        "torch-cuda",
        (*CUDA, "torch"),
        documented(f"{distributions.NVIDIA_COMPAT.source}; {INDEX.source}", "2026-11-20"),
        _compiler("torch"),
        "nvcc is of the CUDA that PyTorch loads",
    ),
    _rule(
        "tensorflow-cuda",
        (*CUDA, "tensorflow"),
        TESTED,
        _compiler("tensorflow"),
        "nvcc is of the CUDA that TensorFlow loads",
    ),
    _rule(
        "cudnn",
        ("cudnn", *BOTH),
        documented(f"{INDEX.source}; {TESTED.source}", "2026-11-20"),
        _cudnn,
        "a cuDNN that the row names is the one that the wheels load",
    ),
    _rule(
        "abi-gloo",
        BOTH,
        documented("horovod 0.28.1, third_party/compatible17_gloo", "2026-11-20"),
        _abi,
        "extensions that share a Gloo share a C++ ABI",
    ),
    _rule(
        "tensorflow-gcc",
        (*GCC, "tensorflow"),
        documented(f"horovod #1483; {TESTED.source}", "2026-11-20"),
        _tensorflow_gcc,
        "an extension is compiled by a gcc of the wheel's C++ ABI",
    ),
    _rule(
        "mxnet-headers",
        ("mxnet",),
        horovod.INSTALL,
        _mxnet_headers,
        "the wheel holds the headers that Horovod includes",
    ),
    _rule(
        "keras-tensorflow",
        ("keras", "tensorflow"),
        INDEX,
        _keras,
        "Keras is of TensorFlow's own release, or 3",
    ),
    _rule(
        "horovod-floor",
        (*GCC, "horovod", "python", *BOTH, "mxnet"),
        horovod.INSTALL,
        _floors,
        "Horovod supports frameworks and compilers from some release on",
    ),
)
