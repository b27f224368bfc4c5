"""The command ``facts``: the rules' tables, shown, compared with their sources, or written anew."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from stackwright.cli.app import App, example, print_json
from stackwright.cli.front import PATH, json_option
from stackwright.core.errors import DriftError, SiteError, UsageError
from stackwright.host.output import Output

if TYPE_CHECKING:
    from stackwright.audit.facts.compare import Compared


@click.command(
    "facts",
    epilog=example("./build.py facts", "./build.py facts distributions --check"),
)
@click.argument("groups", nargs=-1, metavar="[compilers|frameworks|distributions…]")
@click.option("--check", is_flag=True, help="read the sources again and compare; write no table")
@click.option("--update", is_flag=True, help="read the sources again and write the tables")
@click.option("--report", type=PATH, help="also write the comparison as a page (Markdown)")
@json_option
@click.pass_obj
def facts_command(app: App, /, groups: tuple[str, ...], report: Path | None, form: str, **to: bool) -> None:
    """Show how the rules' tables were obtained, or compare them with their primary sources.

    --check asks the package index and the mirrors, fetches each compiler of CUDA (about 0.6 GB the first
    time; what was read is kept in the folder of --out) and exits with 16 if an entry differs. An entry
    whose source cannot be reached from here is reported and is no difference.
    """
    check, update = to["check"], to["update"]
    if check and update:
        raise UsageError("--check and --update exclude each other", hint="--check first")
    if report and not check:
        raise UsageError("--report needs --check", hint="add --check")
    _known(groups)
    if check or update:
        _compare(app, groups, update=update, report=report, form=form)
    elif groups:
        raise UsageError("groups are for --check and --update", hint="add one of them, or name no group")
    else:
        _show(form)


def _known(groups: tuple[str, ...]) -> None:
    from stackwright.audit.facts.readers import READERS
    from stackwright.core.config.messages import near

    for group in groups:
        if group not in READERS:
            hint = near(group, READERS) or f"the groups are {', '.join(READERS)}"
            raise UsageError(f"no group of facts {group!r}", hint=hint)


def _show(form: str) -> None:
    from stackwright.audit.facts import report as reports
    from stackwright.core.facts import entries
    from stackwright.core.facts.provenance import How

    known = {table: entries.load(table) for table in entries.tables()}
    if form == "json":
        print_json(reports.shown(known))
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("table", *How, "last read"):
        table.add_column(heading)
    for name, found in known.items():
        counts = Counter(entry.fact.how for entry in found)
        read = [entry.fact.when for entry in found if entry.fact.how is How.READ]
        table.add_row(name, *(str(counts[how] or "") for how in How), max(read, default=""))
    Output().print(table)
    Output().print("docs/rules.md has every entry with its source; --check reads the sources again")


def _compare(app: App, groups: tuple[str, ...], *, update: bool, report: Path | None, form: str) -> None:
    from stackwright.audit.facts import compare, readers
    from stackwright.audit.facts import report as reports

    today = datetime.now(UTC).strftime("%Y-%m-%d")
    sources = readers.sources(app.site, app.runner, app.project.out / "facts")
    known = readers.known(groups)
    answers = readers.ask(sources, groups, app.say)
    compared = compare.compare(known, answers)
    if form == "json":
        print_json(reports.document(compared))
    else:
        for line in reports.lines(compared):
            app.say(line)
    app.say(reports.summary(compared))
    if report:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(reports.page(compared, today))
    if update:
        for path in readers.write(compare.updated(known, answers, today)):
            app.say(f"written: {path}")
        return
    judge(compared)


def judge(compared: tuple[Compared, ...]) -> None:
    """The error of tables that differ. Where no source answers at all, nothing was checked."""
    from stackwright.audit.facts.compare import Outcome

    if count := sum(line.differs for line in compared):
        raise DriftError(
            f"{count} facts differ from their sources", hint="./build.py facts --update, and review the diff"
        )
    if not any(line.outcome is Outcome.AGREES for line in compared):
        raise SiteError("no source of facts can be reached from here", hint="check the index and the mirror")
