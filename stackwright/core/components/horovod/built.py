"""Checks of what each Horovod extension was compiled with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, take
from stackwright.core.components.horovod.build import NAMES, extensions
from stackwright.core.model.row import Stack, Tier


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
         judge=_compiled_by("cpu_flags", lambda stack: list(stack.platform.cpu_flags)),
         why="Code for the CPU that built the wheel stops with an illegal instruction on an older one."),
    Rule(id="declared.patches", tier=B, needs=IMPORTED,
         judge=_compiled_by("patches", lambda stack: list(stack.patches)),
         why="Horovod has the patches that the row's versions ask for, and no others."),
)  # fmt: skip
