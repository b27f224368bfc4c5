"""The commands ``nightly`` and ``history``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stackwright.cli.app import ALLOW_LESS, App, Words, example, print_json, selection
from stackwright.cli.front import PATH, form_option, json_option, rows_like
from stackwright.core.errors import MatrixError, UsageError
from stackwright.core.model.night import Margins
from stackwright.core.model.row import Cell
from stackwright.host.output import Output

if TYPE_CHECKING:
    from stackwright.nightly import night
    from stackwright.nightly.upstream import Answers

history_option = click.option(
    "--history", "history_path", type=PATH, metavar="FILE", help="the history  [default: out/history.sqlite]"
)


def _history(app: App, path: Path | None) -> Path:
    return path or app.project.out / "history.sqlite"


@click.command(
    "nightly",
    epilog=example("./build.py nightly cuda12-torch --locked"),
)
@selection
@click.option("--locked", is_flag=True, help="use the committed locks; do not ask upstream")
@click.option("--update-locks", is_flag=True, help="replace the committed locks of the rows that passed")
@click.option("--sif", is_flag=True, help="make and prove the .sif files as well")
@click.option("--publish", is_flag=True, help="publish what passed and is not in the site's registry yet")
@click.option("--allow-less", multiple=True, metavar="ROW", help=ALLOW_LESS)
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="rows at a time")
@click.option("--gpu", is_flag=True, help="test rows that ask for it on the GPU while they are built")
@click.option(
    "--size-margin", type=click.FloatRange(0), default=5.0, show_default=True, metavar="PERCENT",
    help="report sizes that changed by more than PERCENT",
)  # fmt: skip
@click.option(
    "--time-margin", type=click.FloatRange(0), default=25.0, show_default=True, metavar="PERCENT",
    help="report times that changed by more than PERCENT",
)  # fmt: skip
@click.option(
    "--hand-over", is_flag=True, help="as a shard: push what passed by digest, and `shards publish` tags it"
)
@click.option("--summary", type=PATH, metavar="FILE", help="append the answer as markdown, for a CI job")
@history_option
@json_option
@click.pass_obj
def nightly_command(app: App, /, rows: Words, where: Words, form: str, **options: Any) -> None:
    """Ask upstream afresh, build only what changed, prove it, and say in the morning what happened.

    Without ROW it is all rows of the matrix. Rows of which nothing changed cost no call to the engine.
    """
    from stackwright.core.model.record import IMAGE_PHASES
    from stackwright.nightly import compare as told
    from stackwright.nightly import night, report

    cells = app.cells(rows, where)
    order = night.Order(
        cells=cells,
        whole=not rows and not where,
        ask=_asker(app, options["locked"]),
        site=lambda: app.site,
        locked=options["locked"],
        update_locks=options["update_locks"],
        phases=IMAGE_PHASES if options["sif"] else night.PHASES,
        jobs=options["jobs"],
        gpu=options["gpu"],
        margins=Margins(size=options["size_margin"], time=options["time_margin"]),
        publisher=_publisher(app, options),
    )
    path = _history(app, options["history_path"])
    answer = night.work(app.project, order, history_path=path, runner=app.runner, console=app.console)
    if options["hand_over"]:
        from stackwright.nightly.shards import hand_over

        hand_over(app.project, answer, path)
    report.write(answer, app.project.out / "nightly" / answer.run, options["summary"])
    if form == "json":
        print_json(report.document(answer))
    else:
        click.echo(report.FORMS[form](answer), nl=False)
    sys.exit(told.exit_code(answer))


def _asker(app: App, locked: bool) -> Callable[[Sequence[Cell]], Answers]:
    if locked:
        from stackwright.nightly.night import committed_locks

        return partial(committed_locks, app.project)
    from stackwright.nightly import tags
    from stackwright.nightly.upstream import Upstream, fresh_locks

    upstream = Upstream(
        site=app.site, runner=app.runner, kept=app.project.out / "cache" / "upstream",
        digest=partial(tags.digest, app.site),
    )  # fmt: skip
    return partial(fresh_locks, upstream)


def _publisher(app: App, options: dict[str, Any]) -> night.Publisher | None:
    """Raise SiteError at once where no registry is named. An engine is looked for when there is work."""
    from stackwright.cli.commands.shards import publisher
    from stackwright.nightly import publishing, shards

    if options["hand_over"] and (options["publish"] or options["sif"]):
        hint = "shards publish tags what was handed over; a .sif is not"
        raise UsageError("--hand-over goes without --publish and --sif", hint=hint)
    if not options["hand_over"] and not options["publish"]:
        return None
    way = publisher(app, options["allow_less"], sif=options["sif"])
    return shards.handing_over(*way) if options["hand_over"] else publishing.publisher(*way)


@click.group(
    "history",
    invoke_without_command=True,
    epilog=example(
        "./build.py history",
        "./build.py history show cuda12-torch --nights 3 --format json",
        "./build.py history merge out/history.sqlite",
    ),
)
@history_option
@json_option
@click.pass_context
def history_command(context: click.Context, history_path: Path | None, form: str) -> None:
    """Show the history of nightly builds, or merge histories of several machines."""
    app: App = context.obj
    context.obj = (app, _history(app, history_path))
    if context.invoked_subcommand is None:
        context.invoke(show_command, form=form)


@history_command.command(
    "show", epilog=example("./build.py history show", "./build.py history show --nights 3")
)
@click.argument("rows", nargs=-1, metavar="[ROW…]", shell_complete=rows_like)
@click.option(
    "--nights",
    type=click.IntRange(1),
    default=7,
    show_default=True,
    metavar="N",
    help="show the last N nights of each row",
)
@json_option
@click.pass_obj
def show_command(found: tuple[App, Path], rows: Words = (), nights: int = 7, form: str = "text") -> None:
    """Show a line for each row and night: its result, tiers, size and time. The newest is the first.

    A night is a run of `nightly`. What `run` did is shown by `report`. Builds from definition files have
    lines of their own: their result begins with `def`.
    """
    from stackwright.build.rows import PLAIN_WIDTH
    from stackwright.records.history import show

    app, path = found
    own = app.project.records if path == _history(app, None) else None
    lines = show.lines(path, rows, nights, _rows(app), own)
    if not lines:
        app.say(show.nothing(path, rows))
    if form == "json":
        print_json(show.document(lines))
    elif lines:
        out = Output() if sys.stdout.isatty() else Output(width=PLAIN_WIDTH)
        out.print(show.table(lines))


def _rows(app: App) -> set[str]:
    """Return the rows of the matrix, and those that were recorded. A history can be read without a matrix."""
    recorded = {folder.name for folder in app.project.records.glob("*") if folder.is_dir()}
    with contextlib.suppress(MatrixError):
        recorded |= {cell.id for cell in app.cells((), ())}
    return recorded


@history_command.command("morning")
@click.argument("runs", nargs=-1, metavar="[RUN…]")
@form_option("text", "markdown", "json")
@click.pass_obj
def morning_command(found: tuple[App, Path], runs: Words, form: str) -> None:
    """The answer of the last night again, or of several RUNs together, as shards of a night make them."""
    from stackwright.nightly import report
    from stackwright.records.history import show

    answer = show.morning(found[1], runs)
    if form == "json":
        print_json(report.document(answer))
    else:
        click.echo(report.FORMS[form](answer), nl=False)


@history_command.command("merge")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@json_option
@click.pass_obj
def merge_command(found: tuple[App, Path], files: tuple[Path, ...], form: str) -> None:
    """Take over what other histories have. To merge one twice changes nothing."""
    from stackwright.records.history.merge import merge

    new = merge(found[1], files)
    if form == "json":
        print_json({"version": 1, "history": str(found[1]), "new": new})
    else:
        click.echo(f"{found[1]}: {new} builds and nights are new")
