"""Whether the index, a compiler or the mirror contradicts a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from stackwright.audit.accepted.combinations import Compile, Refusal
from stackwright.audit.accepted.work import Work
from stackwright.audit.facts.index import wheels
from stackwright.core.errors import LockError, StackwrightError
from stackwright.core.facts import distributions
from stackwright.core.facts.provenance import How
from stackwright.core.model.row import Base
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.requirements import request, requirements
from stackwright.core.resolve.resolve import lock_clash
from stackwright.core.rules.derived import cuda_of, gcc_of
from stackwright.core.rules.rule import fact_of
from stackwright.core.versions import upstream
from stackwright.host.upstream.locks import mirror
from stackwright.host.upstream.mirror import read_suite


class Outcome(StrEnum):
    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    READ = "was read by facts --check"
    NOT_ASKED = "cannot be asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    outcome: Outcome
    said: str


def _answer(outcome: Outcome, said: str) -> Answer:
    return Answer(outcome=outcome, said=said)


NO_BASE = Base(os="", suite="", release="", date="", digest="", packages=())


def _index(refusal: Refusal, work: Work) -> Answer:
    """uv refuses the row, or makes a lock that no row may have."""
    cell = refusal.cell
    made = work.lock(cell, requirements(cell))
    if made["refused"]:
        return _answer(Outcome.AGREES, f"uv: {made['refused'][:160]}")
    text = lockfile.write(cell.id, request(cell), NO_BASE, pins=made["pins"])
    clash = lock_clash(cell, lockfile.parse(text, cell.id))
    if clash:
        return _answer(Outcome.AGREES, f"uv makes a lock, which {clash[0].name} refuses: {clash[1].reason}")
    return _answer(Outcome.CONTRADICTS, "uv makes a lock that no rule refuses")


def _cuda(refusal: Refusal, work: Work) -> Answer:
    """Ask uv, which sees the CUDA that a wheel requires. One that a wheel holds, or loads without requiring
    it, only the wheel itself names: ``facts --check`` read that."""
    answer = _index(refusal, work)
    return answer if answer.outcome is Outcome.AGREES else _of_facts(refusal, work)


def _no_libraries(refusal: Refusal, work: Work) -> Answer:
    major = str(cuda_of(refusal.cell)).split(".")[0]
    project = f"nvidia-cuda-runtime-cu{major}"
    try:
        found = wheels(work.kept.index, project)
    except StackwrightError as error:
        return _answer(Outcome.AGREES, f"the index has no {project}: {error.cause[:100]}")
    if found:
        return _answer(Outcome.CONTRADICTS, f"the index has {found[-1].name}")
    return _answer(Outcome.AGREES, f"the index has no wheel of {project}")


def _mirror(refusal: Refusal, work: Work) -> Answer:
    """The distribution lacks the package, or has it in another release."""
    cell = refusal.cell
    address = mirror(work.site, cell)
    if address is None:
        return _answer(Outcome.NOT_ASKED, f"no mirror of {cell.os} is known here")
    mpi = cell.mpi.flavour.package
    package, declared = {
        "python-os": (f"python{cell.python}", cell.python),
        "gcc-os": (f"gcc-{distributions.gcc_release(str(cell.gcc))}", str(cell.gcc)),
        "mpi-os": (mpi, cell.mpi.version),
        "cuda-os": ("nvidia-cuda-toolkit", str(cell.cuda)),
    }[refusal.rule.name]
    try:
        known = distributions.known(cell.os)
        found = upstream(read_suite(address, known, (package,)).packages[0].version)
    except LockError as error:
        return _answer(Outcome.AGREES, f"the mirror: {error.cause}")
    same = found == declared or found.startswith(f"{declared}.")
    return _answer(
        Outcome.CONTRADICTS if same else Outcome.AGREES, f"the mirror of {cell.os} has {package} {found}"
    )


def _compiler(refusal: Refusal, work: Work) -> Answer:
    """Return the framework's headers, compiled by that gcc."""
    cell = refusal.cell
    name, version = next(value for value in refusal.clash.values if value[0] in ("torch", "tensorflow"))
    gcc = distributions.gcc_release(str(gcc_of(cell)))
    error = work.compiled(Compile(name=name, version=version, gcc=gcc))
    if error is None:
        return _answer(Outcome.NOT_ASKED, f"no gcc {gcc} is here")
    if error:
        return _answer(Outcome.AGREES, f"g++-{gcc}: {error}")
    return _answer(Outcome.CONTRADICTS, f"g++-{gcc} compiles the headers of {name} {version}")


def _of_facts(refusal: Refusal, work: Work) -> Answer:
    fact = fact_of(refusal.rule, refusal.clash)
    if fact.how is How.READ:
        return _answer(Outcome.READ, str(fact))
    return _answer(Outcome.NOT_ASKED, str(fact))


ASK: dict[str, Callable[[Refusal, Work], Answer]] = {
    **dict.fromkeys(
        ("torch-python", "tensorflow-python", "mxnet-python", "framework-pins", "glibc", "mxnet-cuda",
         "cudnn", "keras-tensorflow", "nccl-wheel", "tensorflow-wheels", "nccl-release", "cudnn-release"),
        _index,
    ),
    **dict.fromkeys(("one-cuda-wheels", "torch-cuda", "tensorflow-cuda"), _cuda),
    **dict.fromkeys(("python-os", "gcc-os", "mpi-os", "cuda-os"), _mirror),
    **dict.fromkeys(("cxx-gcc", "headers-gcc"), _compiler),
    "cuda-wheels": _no_libraries,
}  # fmt: skip
"""By rule. Every other one rests on a table that ``facts --check`` reads, or on a document."""


def ask(refusal: Refusal, work: Work) -> Answer:
    try:
        return ASK.get(refusal.rule.name, _of_facts)(refusal, work)
    except StackwrightError as error:
        return _answer(Outcome.NOT_ASKED, error.cause[:200])
