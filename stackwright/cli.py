"""The commands. Each reads its arguments, calls one stage, and prints; none decides anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console

from stackwright import __version__, errors
from stackwright.errors import EXIT_INTERRUPTED, RejectedError, StackwrightError
from stackwright.project import Plan, Project, cells, default_rows, plan, require_rows
from stackwright.runner import Runner

ROOT = Path(__file__).resolve().parent.parent
PATH = click.Path(path_type=Path)


def _exit_codes() -> str:
    kinds = sorted(
        {kind.exit_code: kind.meaning for kind in _kinds(StackwrightError)}.items(),
    )
    codes = ((0, "done"), *kinds, (EXIT_INTERRUPTED, "interrupted"))
    lines = [f"  {code:3}  {meaning}" for code, meaning in codes]
    return "\b\nExit codes:\n" + "\n".join(lines)


def _kinds(kind: type[StackwrightError]) -> set[type[StackwrightError]]:
    return {kind}.union(*(_kinds(sub) for sub in kind.__subclasses__()))


def example(*lines: str) -> str:
    """The epilog of a command. The tests run every example as it is written."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


Words = tuple[str, ...]


class App:
    """What every command needs, made once from the options before its name."""

    def __init__(self, matrix: Path, out: Path, show: bool) -> None:
        self.project = Project(root=ROOT, matrix=matrix.resolve(), out=out.resolve())
        self.console = Console(stderr=True)
        self.runner = Runner(show=show)

    def plan(self, rows: Words, where: Words, *, default: bool = False) -> Plan:
        if default and not rows and not where:
            rows = default_rows(self.project)
        planned = plan(self.project, cells(self.project, rows, where))
        require_rows(planned)
        return planned


def selection(command: Callable[..., None]) -> Callable[..., None]:
    """Rows are named by id or by glob, or chosen by the value of a field."""
    where = click.option("--where", multiple=True, metavar="FIELD=VALUE", help="rows with this value (ANDed)")
    return click.argument("rows", nargs=-1, metavar="[ROW…]")(where(command))


json_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="json: one document on stdout, nothing else there",
)  # fmt: skip


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("./build.py plan", "./build.py run", "./build.py --matrix other.yaml plan '*cuda12*'")
    + "\n\n"
    + _exit_codes(),
)
@click.option("--matrix", type=PATH, default=ROOT / "matrix.yaml", help="another matrix")
@click.option("--out", type=PATH, default=ROOT / "out", help="where everything made goes")
@click.option("-v", "--verbose", is_flag=True, help="show each program that is started")
@click.version_option(__version__, prog_name="stackwright")
@click.pass_context
def cli(context: click.Context, matrix: Path, out: Path, verbose: bool) -> None:
    """Container images for distributed GPU training: from one matrix, proven from inside."""
    context.obj = App(matrix, out, verbose)


@cli.command("plan", epilog=example("./build.py plan", "./build.py plan '*cuda12*' --json"))
@selection
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout")
@click.option("--strict", is_flag=True, help="fail if any row is rejected")
@click.pass_obj
def plan_command(app: App, rows: Words, where: Words, as_json: bool, strict: bool) -> None:
    """Print what a run would do, and the rows that cannot work, with the reason. Needs no network."""
    from stackwright import output
    from stackwright.pipeline import standing

    planned = app.plan(rows, where)
    states = {row.stack.id: standing(app.project, row) for row in planned.rows}
    if as_json:
        _print_json(output.plan_document(planned, states))
    else:
        out = Console()
        out.print(output.plan_table(planned, states))
        for rejection in planned.rejections:
            out.print(output.rejection_text(rejection, app.project.matrix.name))
        out.print(output.summary_line(planned))
    if strict and planned.rejections:
        raise RejectedError(f"{len(planned.rejections)} of the selected rows cannot work")


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit code; errors are one message on stderr."""
    try:
        cli(args=arguments, prog_name="build.py", standalone_mode=False)
    except StackwrightError as error:
        _fail(str(error), error.exit_code)
    except click.UsageError as error:
        _fail(f"{error.format_message()}\n  next: build.py --help", errors.UsageError.exit_code)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted; what was finished is kept, the next run goes on from there", EXIT_INTERRUPTED)
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)
