"""What the commands print: one table for a person, or one JSON document. docs/cli.md documents both."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stackwright.cli.program import named
from stackwright.core.benchmarks import nccl_tests
from stackwright.core.facts.provenance import How, Provenance
from stackwright.core.model.labels import contents_text
from stackwright.core.model.row import Notice, Refused, Rejection, Stack
from stackwright.core.ofi.plugin import NAME
from stackwright.core.render.dockerfile import BAKE_FILE, declared, reference
from stackwright.core.resolve.explain import Feasibility
from stackwright.core.rules.rule import Ruling
from stackwright.host.output import name_column
from stackwright.host.project import Plan

if TYPE_CHECKING:  # `plan` starts without the engine's modules
    from stackwright.build.clean import Item
    from stackwright.build.doctor import Finding
    from stackwright.core.resolve.explain import Explanation, RuleAnswer
    from stackwright.core.resolve.sweep import Sweep
    from stackwright.host.login_node import Examined


def plan_document(plan: Plan, states: Mapping[str, str]) -> dict[str, Any]:
    """``plan --json``: every row with what it declares, its key and what a run would do."""
    rows = [
        {
            "id": row.stack.id,
            "key": row.recipe.key,
            "reference": reference(row.recipe),
            "state": states[row.stack.id],
            "stack": declared(row.stack),
            "packages": {package.name: package.version for package in row.stack.lock.packages},
            "notices": [{**asdict(notice), "clash": _clash(notice.clash)} for notice in row.notices],
        }
        for row in plan.rows
    ]
    return {
        "version": 1,
        "rows": rows,
        "rejections": [rejection_document(rejection) for rejection in plan.rejections],
    }


def contexts_document(plan: Plan, folder: Path) -> dict[str, Any]:
    """``render --format json``: where each row's context and the bake file lie."""
    contexts = [
        {"id": row.stack.id, "key": row.recipe.key, "path": str(folder / row.stack.id)} for row in plan.rows
    ]
    rejections = [rejection_document(rejection) for rejection in plan.rejections]
    bake = str(folder / BAKE_FILE)
    return {"version": 1, "contexts": contexts, "bake": bake, "rejections": rejections}


def rejection_document(rejection: Rejection) -> dict[str, Any]:
    return {**asdict(rejection), "clash": _clash(rejection.clash)}


def _clash(values: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"field": name, "value": value} for name, value in values]


def notice_line(row: str, notice: Notice) -> str:
    """One line for a rule that speaks against a row and does not refuse it."""
    what = "warning" if notice.said == Ruling.WARNS else "allowed"
    return f"{row}: {what}: {notice.rule}: {notice.reason}; source: {_fact(notice)}"


def plan_table(plan: Plan, states: Mapping[str, str]) -> Table:
    """Return every value of every row, also those that were left out and found in the lock."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    name_column(table, "row and key", [row.stack.id for row in plan.rows])
    for heading in ("a run would do", "what is in it"):
        table.add_column(heading, overflow="fold")
    for row in plan.rows:
        name = f"[bold]{row.stack.id}[/]\n{row.recipe.key[:12]}"
        table.add_row(name, states[row.stack.id], "\n".join(_contents(row.stack)), end_section=True)
    return table


def _contents(stack: Stack) -> tuple[str, ...]:
    state = f" ({stack.base.release} of {stack.base.date[:8]})" if stack.base.date else ""
    return (
        contents_text(stack),
        f"nvcc {stack.cuda}, CUDA runtime {stack.cuda_runtime}, cuDNN {stack.cudnn}, NCCL {stack.nccl}",
        f"for GPUs {' '.join(stack.gpu_arch)}",
        ", ".join(filter(None, (f"{stack.os}{state}", stack.platform.named, stack.flavour))),
        f"Python {stack.python}, gcc {stack.gcc}, {stack.mpi.flavour} {stack.mpi.version}",
        *(f"{name}: {', '.join(words)}" for name, words in _own(stack) if words),
    )


def _own(stack: Stack) -> tuple[tuple[str, list[str]], ...]:
    """Return what the row adds, each with its words for a person."""
    return (
        ("fabric", [f"{' '.join(stack.fabric)} ({NAME} {stack.plugin})"] if stack.plugin else []),
        ("benchmarks", [f"{nccl_tests.NAME} {stack.nccl_tests}"] if stack.nccl_tests else []),
        ("pip", [f"{package.name} {package.version}" for package in stack.pip]),
        ("compiled", [f"{package.name} {package.version}" for package in stack.compiled]),
        ("compiled with", [str(variable) for variable in stack.build_env]),
        ("apt", [f"{package.name} {package.version}" for package in stack.apt]),
        ("env", [str(variable) for variable in stack.env]),
        ("files", [f"{folder.place} ({len(folder.files)} from {folder.source})" for folder in stack.files]),
        ("tools", [f"{tool.name} {tool.version} on port {tool.port}" for tool in stack.tools]),
        ("ports", list(stack.ports)),
        ("wheels", [path for path, _ in (stack.wheels.files if stack.wheels else ())]),
        ("user", [stack.user] if stack.user else []),
        ("entry point", [" ".join(stack.entrypoint)] if stack.entrypoint else []),
    )


def set_line(settings: tuple[str, ...]) -> str:
    """Options that can be pasted behind ``explain ROW``."""
    return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)


HEADINGS = {
    Refused.BY_RULE: Feasibility.CANNOT_WORK,
    Refused.UNKNOWN: Feasibility.NOT_KNOWN,
    Refused.UNLOCKED: "is not locked",
}


def rejection_text(rejection: Rejection, matrix: str) -> Text:
    """Return the rule, what clashes, the source of the fact, and the nearest row that works."""
    clash = " with ".join(f"{name} {value}" for name, value in rejection.clash)
    text = Text()
    refused = rejection.verdict is Refused.BY_RULE
    text.append(f"{rejection.id} {HEADINGS[rejection.verdict]}", style="bold red")
    text.append(f"  ({matrix}:{rejection.line})\n")
    lines = [
        ("rule", rejection.rule),
        ("clash", clash),
        ("why", rejection.reason),
        ("source", str(_fact(rejection))),
        ("nearest" if refused else "next", rejection.nearest or "none was found"),
    ]
    if refused:
        lines.append(("docs", f"docs/rules.md#{rejection.rule}"))
    if rejection.settings:
        lines.append(("try", f"./build.py explain {rejection.id} {set_line(rejection.settings)}"))
    for name, value in (*lines, *_allowable(rejection)):
        text.append(f"  {name:8}", style="dim")
        text.append(f"{named(value)}\n")
    return text


def _fact(said: Rejection | Notice) -> Provenance:
    return Provenance(how=How(said.how), source=said.source, when=said.when)


def _allowable(rejection: Rejection) -> tuple[tuple[str, str], ...]:
    """Return how to continue where only a documented fact speaks against a row."""
    if rejection.verdict is not Refused.BY_RULE or rejection.how != How.DOCUMENTED:
        return ()
    return (("or", f"--allow {rejection.rule}: builds the row anyway; it is untested"),)


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """``explain --format json``."""
    cause = explanation.cause
    rules = [
        {
            "rule": answer.rule,
            "about": answer.about,
            "says": answer.says,
            "source": answer.fact.source,
            "how": answer.fact.how,
            "when": answer.fact.when,
            "said": answer.said,
            "reason": answer.clash.reason if answer.clash else "",
            "clash": [
                {"field": name, "value": value}
                for name, value in (answer.clash.values if answer.clash else ())
            ],
        }
        for answer in explanation.answers
    ]
    return {
        "version": 1,
        "id": explanation.cell.id,
        "changed": list(explanation.changed),
        "accepted": explanation.verdict is Feasibility.CAN_WORK,
        "verdict": explanation.verdict,
        "cause": cause.rule if cause else "",
        "rules": rules,
        "nearest": [
            {"kept": way.kept, "changes": list(way.changes), "settings": list(way.settings)}
            for way in explanation.ways
        ],
        "advice": [{"then": advice.then, "source": advice.source} for advice in explanation.advice],
    }


COLOURS = {
    Feasibility.CAN_WORK: "green", Feasibility.NOT_KNOWN: "yellow", Feasibility.CANNOT_WORK: "red",
}  # fmt: skip

CONSEQUENCE: Mapping[Ruling, Callable[[RuleAnswer], str]] = {
    Ruling.REFUSES: lambda answer: (
        f"next: --allow {answer.rule} builds the row anyway; it is untested"
        if answer.fact.how is How.DOCUMENTED
        else "this is final: it was read from the primary source"
    ),
    Ruling.UNKNOWN: lambda answer: "next: put it into a row and ./build.py lock it, which asks the index",
    Ruling.WARNS: lambda answer: (
        "this is a warning: the fact is unchecked, and refuses nothing"
        if answer.fact.how is How.UNCHECKED
        else "this is a warning, and refuses nothing"
    ),
    Ruling.ALLOWED: lambda answer: f"this refuses nothing: --allow {answer.rule} was given",
}
"""What follows from a clash, by what it means."""


def explanation_text(explanation: Explanation) -> Text:
    """Return the refusals, the true cause first; the nearest rows; then what the other rules said."""
    text = Text()
    name = " with ".join((explanation.cell.id, *explanation.changed))
    text.append(f"{name} {explanation.verdict}\n", style=f"bold {COLOURS[explanation.verdict]}")
    for answer in explanation.answers:
        if answer.clash:
            clash = " with ".join(f"{field} {value}" for field, value in answer.clash.values)
            text.append(f"  {answer.rule}: ", style="bold")
            text.append(f"{clash}\n    {answer.clash.reason}\n")
            text.append(f"    source: {answer.fact}\n", style="dim")
            text.append(f"    {named(CONSEQUENCE[answer.said](answer))}\n")
    for way in explanation.ways:
        text.append(f"  nearest, {way.kept}: ", style="bold")
        text.append("; ".join(way.changes) + "\n")
        if way.settings:
            text.append(f"    {set_line(way.settings)}\n")
    for advice in explanation.advice:
        text.append(f"  {advice.then} ")
        text.append(f"({advice.source})\n", style="dim")
    for said in (Ruling.FITS, Ruling.SILENT):
        rules = [answer for answer in explanation.answers if answer.said is said]
        text.append(f"  {said}: ", style="bold")
        text.append(", ".join(rule.rule for rule in rules) + "\n")
    return text


def sweep_document(swept: Sweep) -> dict[str, Any]:
    """``plan --all --json``."""
    return {
        "version": 1,
        "axes": {axis.field: len(axis.values) for axis in swept.axes},
        "cells": swept.cells,
        "left": swept.left,
        "rules": [{"rule": rule.name, "source": rule.source, "cells": count} for rule, count in swept.fallen],
    }


def sweep_table(swept: Sweep) -> Table:
    """``plan --all``: how many combinations each rule rules out, and how many are left."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule")
    table.add_column("combinations ruled out", justify="right")
    table.add_column("what it says", overflow="fold")
    for rule, count in swept.fallen:
        table.add_row(rule.name, f"{count:,}", escape(rule.says))
    table.add_section()
    table.add_row("left", f"{swept.left:,}", f"of {swept.cells:,}")
    return table


def summary_line(plan: Plan) -> str:
    count = len(plan.rows)
    return f"{count} row{'' if count == 1 else 's'}, {len(plan.rejections)} rejected"


def items_table(items: Iterable[Item], title: str) -> Table:
    """``clean``: what could be freed, and why; where something has to be done first, what."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    found = tuple(items)
    table.add_column("what", overflow="fold")
    name_column(table, "name", [item.name for item in found])
    table.add_column("GB", justify="right")
    table.add_column("why", overflow="fold")
    for item in found:
        why = f"{item.why}\n{item.todo}" if item.todo else item.why
        table.add_row(item.kind, escape(item.name), f"{item.bytes / 1e9:.1f}", escape(why))
    return table


SHORT = {"works": "[green]works[/]", "fails": "[red]fails[/]", "not found": "[dim]–[/]",
         "falls back to TCP": "[yellow]TCP[/]", "doubtful": "[yellow]doubtful[/]"}  # fmt: skip
"""Outcomes as a table shows them in 80 columns."""


def cluster_tables(examined: Examined) -> Iterator[Table | str]:
    """``doctor --cluster``: the programs, the rows side by side, and the row that fits best in detail."""
    programs = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("program", "what it says first"):
        programs.add_column(heading, overflow="fold")
    for program in examined.programs:
        if program.found:
            programs.add_row(escape(program.program), escape(program.said))
    yield programs
    absent = dict.fromkeys(program.program.split()[0] for program in examined.programs if not program.found)
    yield f"not found here: {', '.join(absent) or 'nothing'}"
    if any(answer.outcome != "not found" for row in examined.rows for answer in row.answers):
        yield _rows_of_cluster(examined)
        yield "TCP: falls back to it. –: the program that could tell is not here."
    best = examined.rows[0]
    yield f"\n{escape(best.verdict)}:"
    for answer in best.answers:
        todo = f"\n    next: {answer.todo}" if answer.todo else ""
        yield escape(f"  {answer.about}: {answer.outcome}: {answer.why}{todo}")


def _rows_of_cluster(examined: Examined) -> Table:
    rows = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    name_column(rows, "row", [row.image.row for row in examined.rows])
    for answer in examined.rows[0].answers:
        rows.add_column(answer.about, overflow="fold")
    for row in examined.rows:
        rows.add_row(escape(row.image.row), *(SHORT[answer.outcome] for answer in row.answers))
    return rows


def findings_table(findings: tuple[Finding, ...]) -> Table:
    """``doctor``: one line for each thing that a run needs."""
    styles = {"ok": "green", "missing": "red", "warning": "yellow"}
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("what", "state", "what is there", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        state = f"[{styles[finding.state]}]{finding.state}[/]"
        table.add_row(finding.name, state, escape(finding.seen), escape(finding.todo))
    return table
