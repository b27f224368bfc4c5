"""The steps: every lock, every compile, imports, random rows and refusals. Each gives a part of the page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stackwright.audit.accepted import combinations, contradict
from stackwright.audit.accepted.combinations import Compile, Question
from stackwright.audit.accepted.report import Section
from stackwright.audit.accepted.work import Work
from stackwright.core.config.change import written
from stackwright.core.facts import distributions
from stackwright.core.model.row import Cell
from stackwright.core.resolve.requirements import requirements
from stackwright.core.rules.derived import gcc_of

AT_ONCE = 3
"""Questions to the index at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """``seed`` of what is random, and how much of it. ``every``: import every distinct lock. After the
    ``deadline`` nothing more is installed."""

    seed: int
    rows: int
    refusals: int
    every: bool = False
    deadline: float = math.inf


def locks(cells: Sequence[Cell], work: Work, chosen: Chosen) -> Section:
    asked = combinations.questions(cells)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda question: work.lock(question.cell, question.wanted), asked))
    wrong = [
        f"{question.name}: {answer['refused'][:300]}"
        for question, answer in zip(asked, answers, strict=True)
        if answer["refused"]
    ]
    said = f"{len(asked)} distinct questions to the index, asked of uv: {len(asked) - len(wrong)} lock."
    return Section(title="Every accepted row locks", said=said, wrong=tuple(wrong))


def compiles(cells: Sequence[Cell], work: Work, chosen: Chosen) -> Section:
    asked = combinations.compiles(cells)
    answers = {headers: work.compiled(headers) for headers in asked}
    wrong = [f"{_compile(headers)}: {error}" for headers, error in answers.items() if error]
    absent = [headers for headers, error in answers.items() if error is None]
    said = (
        f"{len(asked)} pairs of a framework's release and a gcc: {len(asked) - len(absent)} tried, "
        f"{len(asked) - len(absent) - len(wrong)} compile."
    )
    lines = (
        [f"Not tried, because that gcc is not here: {', '.join(map(_compile, absent))}."] if absent else []
    )
    return Section(
        title="Every framework's headers compile", said=said, wrong=tuple(wrong), lines=tuple(lines)
    )


def imports(cells: Sequence[Cell], work: Work, chosen: Chosen) -> Section:
    """Of every distinct lock where all are wanted; else of those that an earlier run imported."""
    asked = {question.digest: question for question in combinations.questions(cells) if _installed(question)}
    due = [question for question in asked.values() if chosen.every or work.was_imported(question.cell)]
    answers = {question.digest: _imported(question.cell, work, chosen) for question in due}
    tried = {digest: found for digest, found in answers.items() if found is not None}
    wrong = [f"{asked[digest].name}: {why}" for digest, found in tried.items() for why in found]
    works = sum(not found for found in tried.values())
    said = f"{len(tried)} of {len(asked)} distinct locks were installed and imported: {works} work."
    return Section(title="What is locked imports", said=said, wrong=tuple(wrong))


def _imported(cell: Cell, work: Work, chosen: Chosen) -> tuple[str, ...] | None:
    """None where the time is over, or the row's Python is not here."""
    late = time.monotonic() > chosen.deadline and not work.was_imported(cell)
    return None if late else work.imported(cell)


def _installed(question: Question) -> bool:
    """And not only used to compile: the wheels of nvcc are."""
    return question.wanted == requirements(question.cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """``imports`` is None where it was not tried; ``headers`` has the compiler's error of each framework."""

    cell: Cell
    imports: tuple[str, ...] | None
    headers: tuple[tuple[Compile, str | None], ...]

    @property
    def failures(self) -> tuple[str, ...]:
        errors = (f"{_compile(headers)}: {error}" for headers, error in self.headers if error)
        return (*(self.imports or ()), *errors)

    @property
    def line(self) -> str:
        imports = NOT_TRIED if self.imports is None else "; ".join(self.imports) or "works"
        words = (
            f"{headers.name}: {NO_GCC if error is None else error or 'compile'}"
            for headers, error in self.headers
        )
        return f"| {_row(self.cell)} | {imports} | {'; '.join(words) or 'none'} |"


NOT_TRIED = "not tried: no time, or no such Python"
NO_GCC = "not tried: that gcc is not here"


def rows(cells: Sequence[Cell], work: Work, chosen: Chosen) -> Section:
    """Random rows, each locked, installed, imported, and its headers compiled by its gcc."""
    tried = [
        _Row(
            cell=cell,
            imports=_imported(cell, work, chosen),
            headers=tuple((headers, work.compiled(headers)) for headers in combinations.compiles([cell])),
        )
        for cell in combinations.sample(cells, chosen.seed, chosen.rows)
    ]
    untried = sum(row.imports is None for row in tried)
    works = sum(row.imports is not None and not row.failures for row in tried)
    return Section(
        title="Random accepted rows",
        said=f"{len(tried)} random rows (seed {chosen.seed}): {works} work, {untried} were not imported.",
        wrong=tuple(f"{_row(row.cell)}: {why}" for row in tried for why in row.failures),
        lines=("| row | imports | headers |", "|---|---|---|", *(row.line for row in tried)),
    )


def refusals(cells: Sequence[Cell], work: Work, chosen: Chosen) -> Section:
    """Random rows that one changed value made impossible."""
    picked = combinations.refusals(cells, chosen.seed, chosen.refusals)
    answers = [(refusal, contradict.ask(refusal, work)) for refusal in picked]
    wrong = [
        f"{refusal.rule.name}: {refusal.clash.reason}: {answer.said}"
        for refusal, answer in answers
        if answer.outcome is contradict.Outcome.CONTRADICTS
    ]
    counts = {
        outcome: sum(answer.outcome is outcome for _, answer in answers) for outcome in contradict.Outcome
    }
    said = f"{len(picked)} random refusals (seed {chosen.seed}): " + ", ".join(
        f"{count} {outcome}" for outcome, count in counts.items()
    )
    lines = ["| rule | refused | the source |", "|---|---|---|"]
    for refusal, answer in answers:
        values = " with ".join(f"{name} {value}" for name, value in refusal.clash.values)
        text = answer.said.replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {refusal.rule.name} | {values} | {answer.outcome}: {text} |")
    return Section(title="Random refusals", said=f"{said}.", wrong=tuple(wrong), lines=tuple(lines))


def _compile(headers: Compile) -> str:
    return f"{headers.name} {headers.version} with gcc {headers.gcc}"


def _row(cell: Cell) -> str:
    names = ("torch", "tensorflow", "mxnet", "os", "python", "cuda")
    values = [f"{name} {written(cell.value(name))}" for name in names if cell.value(name)]
    return ", ".join((*values, f"gcc {distributions.gcc_release(str(gcc_of(cell)))}"))


Step = Callable[[Sequence[Cell], Work, Chosen], Section]

STEPS: Mapping[str, Step] = {
    "locks": locks, "compiles": compiles, "rows": rows, "imports": imports, "refusals": refusals,
}  # fmt: skip
