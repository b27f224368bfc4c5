"""Checks of what each Horovod extension was compiled with, and of the libraries that it loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, numbers, take
from stackwright.core.components.horovod.build import NAMES, extensions
from stackwright.core.model.row import Stack, Tier
from stackwright.core.model.target import AMD64

LAZY = {"cudnn": ("tensorflow",)}
"""Library -> frameworks that load it when they first use a GPU (tsl/cuda/cudnn_stub.cc)."""


def per_extension(stack: Stack, facts: Facts, *path: str) -> dict[str, Any]:
    """A fact of the probe ``built`` for each extension of the row."""
    return {name: take(facts, "built", name, *path) for name in extensions(stack)}


def with_(what: str, question: str) -> Callable[[Stack, Facts], Finding]:
    def judge(stack: Stack, facts: Facts) -> Finding:
        answers = per_extension(stack, facts, question)
        return finding(_no(name, what, yes) for name, yes in answers.items() if not yes)

    return judge


def _no(name: str, what: str, answer: int | None) -> str:
    """No answer is not "no": an extension that is not there was not asked."""
    if answer is None:
        return f"horovod.{name} does not say whether it was built with {what}"
    return f"horovod.{name} was built without {what}"


def nccl(stack: Stack, facts: Facts) -> Finding:
    problems = []
    for name, code in per_extension(stack, facts, "nccl_built").items():
        if not code:
            problems.append(_no(name, "NCCL", code))
        elif code != stack.nccl_code:
            problems.append(f"horovod.{name} was built with NCCL {code}, the row's is {stack.nccl_code}")
    return finding(problems, str(stack.nccl_code))


def against(stack: Stack, facts: Facts) -> Finding:
    """Horovod checks this itself, but only after an import has failed for another reason."""
    problems, seen = [], []
    for name in extensions(stack):
        compiled = (take(facts, "built", name, "metadata") or {}).get(NAMES[name])
        present = take(facts, "link", "modules", name).get("version")
        seen.append(f"{name} {compiled}")
        if not compiled:
            problems.append(f"Horovod's metadata.json does not name {NAMES[name]}")
        elif present is not None and compiled.partition("+")[0] != present.partition("+")[0]:
            problems.append(f"horovod.{name} was compiled against {compiled}, the image has {present}")
    return finding(problems, listed(seen))


def _compiled_by(what: str, wanted: Callable[[Stack], object]) -> Callable[[Stack, Facts], Finding]:
    """What scripts/build-horovod.sh noted in the wheel: nothing else in the image tells it later."""

    def judge(stack: Stack, facts: Facts) -> Finding:
        problems, seen = [], None
        for name, noted in per_extension(stack, facts, "compiled_by").items():
            seen = (noted or {}).get(what)
            if seen != wanted(stack):
                problems.append(f"the row declares {what} {wanted(stack)}, horovod.{name} notes {seen}")
        return finding(problems, str(seen))

    return judge


def _library(
    what: str, name: str, decode: Callable[[int], tuple[int, ...]], wanted: Callable[[Stack], str]
) -> Callable[[Stack, Facts], Finding]:
    """A library's own answer against the row's, and the wheel that brought it against both.

    It has to be the file that the wheel brought: what states the right version can still be another. One that
    does not say its version without a driver is known by its wheel.
    """

    def judge(stack: Stack, facts: Facts) -> Finding:
        problems, seen = [], set()
        for extension, found in per_extension(stack, facts, "libraries", name).items():
            if found is None and extension in LAZY.get(name, ()):
                seen.add(f"horovod.{extension} loads {what} with the first use of a GPU")
                continue
            if found is None:
                problems.append(f"horovod.{extension} loads no {what}")
                continue
            if not found["owner"]:
                problems.append(f"horovod.{extension} loads {found['path']}, which no wheel brought")
                continue
            if not found["intact"]:
                problems.append(f"{found['path']} is not as {found['owner']} brought it")
                continue
            wheel = found["owner"].rpartition(" ")[2]
            row = numbers(wanted(stack))
            version = numbers(wheel) if found["version"] is None else decode(found["version"])
            shown = ".".join(str(part) for part in version)
            seen.add(shown)
            if version[: len(row)] != row[: len(version)]:
                problems.append(f"the row declares {what} {wanted(stack)}, horovod.{extension} loads {shown}")
            if numbers(wheel)[: len(row)] != row:
                problems.append(f"the row declares {what} {wanted(stack)}, the file is of {found['owner']}")
        return finding(problems, listed(sorted(seen)))

    return judge


def cuda_version(code: int) -> tuple[int, ...]:
    """CUDART_VERSION: 12040 is 12.4."""
    return code // 1000, code % 1000 // 10


def cudnn_version(code: int) -> tuple[int, ...]:
    """CUDNN_VERSION: 90100 is 9.1.0; before cuDNN 9 the major counts thousands, 8902 is 8.9.2."""
    if code >= 90000:
        return code // 10000, code % 10000 // 100, code % 100
    return code // 1000, code % 1000 // 100, code % 100


def nccl_version(code: int) -> tuple[int, ...]:
    """NCCL_VERSION_CODE: 22105 is 2.21.5; before 2.9 the major counts thousands, 2708 is 2.7.8."""
    if code >= 10000:
        return code // 10000, code % 10000 // 100, code % 100
    return code // 1000, code % 1000 // 100, code % 100


B = Tier.BUILT
IMPORTED = ("link.import", "link.origin")
RULES = (
    Rule(id="built.mpi", tier=B, needs=IMPORTED, judge=with_("MPI", "mpi_built"),
         why="mpirun and srun need Horovod with MPI; without it they start N trainings of one rank."),
    Rule(id="built.gloo", tier=B, needs=IMPORTED, judge=with_("Gloo", "gloo_built"),
         why="horovodrun without MPI and elastic training need Horovod with Gloo."),
    Rule(id="built.nccl", tier=B, needs=IMPORTED, judge=nccl,
         why="Without NCCL the GPUs exchange through main memory; with another NCCL the calls do not fit."),
    Rule(id="built.cuda", tier=B, needs=IMPORTED, judge=with_("CUDA", "cuda_built"),
         why="Horovod without CUDA copies every tensor to the CPU and back."),
    Rule(id="built.against", tier=B, needs=IMPORTED, judge=against,
         why="An extension fits only the framework version that it was compiled against."),
    Rule(id="declared.cuda", tier=B, needs=IMPORTED, judge=_compiled_by("nvcc", lambda stack: stack.cuda),
         why="The CUDA compiler that made Horovod's kernels is the row's."),
    Rule(id="declared.compiler", tier=B, needs=IMPORTED, judge=_compiled_by("gcc", lambda stack: stack.gcc),
         why="The compiler that made Horovod is the one that the image ships."),
    Rule(id="built.cpu-flags", tier=B, needs=IMPORTED,
         judge=_compiled_by("cpu_flags", lambda stack: list(AMD64.cpu_flags)),
         why="Code for the CPU that built the wheel stops with an illegal instruction on an older one."),
    Rule(id="declared.patches", tier=B, needs=IMPORTED,
         judge=_compiled_by("patches", lambda stack: list(stack.patches)),
         why="Horovod has the patches that the row's versions ask for, and no others."),
    Rule(id="declared.cuda-runtime", tier=B, needs=IMPORTED,
         judge=_library("CUDA runtime", "cudart", cuda_version, lambda stack: stack.cuda_runtime),
         why="The CUDA runtime that the extension loads is the row's."),
    Rule(id="declared.cudnn", tier=B, needs=IMPORTED,
         judge=_library("cuDNN", "cudnn", cudnn_version, lambda stack: stack.cudnn),
         why="The cuDNN that the framework loads is the row's."),
    Rule(id="declared.nccl", tier=B, needs=IMPORTED,
         judge=_library("NCCL", "nccl", nccl_version, lambda stack: stack.nccl),
         why="The NCCL that the extension loads is the row's."),
)  # fmt: skip
