"""The commands. Each reads its arguments, calls one stage, and prints; none decides anything."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from stackwright import __version__
from stackwright.cli import program, streams
from stackwright.cli.app import (
    App,
    RowsCommand,
    Words,
    allow_option,
    bundle_option,
    compression_option,
    example,
    exit_codes,
    image_option,
    print_json,
    refuse,
    selection,
    sif_options,
    work,
)
from stackwright.cli.front import HELP_ASKED, NAME, PATH, VARIABLE, Front, everywhere, json_option, rows_like
from stackwright.cli.program import named
from stackwright.core import errors
from stackwright.core.credentials import redact
from stackwright.core.errors import (
    EXIT_INTERRUPTED,
    EXIT_UNREAD,
    DiskError,
    InternalError,
    RejectedError,
    StackwrightError,
    UnknownError,
)
from stackwright.host.defects import internal_error

FIRST = """\
Container images for distributed GPU training: from one matrix, proven from inside.

  ./build.py plan       which rows can be built, and why others cannot
  ./build.py run        build, convert and prove the default row
  ./build.py explain    would the row work with other versions? --set gcc=12
  ./build.py doctor     what this host has, and what it lacks
  ./build.py --help     all commands, options and exit codes
"""


@click.group(
    cls=Front,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("./build.py plan", "./build.py run", "./build.py --matrix other.yaml plan '*cuda12*'")
    + "\n\n"
    + exit_codes(),
)
@everywhere
@click.version_option(__version__, prog_name="stackwright")
@click.pass_context
def cli(
    context: click.Context, matrix: Path | None, site: Path | None, out: Path | None, verbose: bool
) -> None:
    """Container images for distributed GPU training: from one matrix, proven from inside."""
    program.started_with({"--matrix": matrix, "--site": site, "--out": out})
    if context.invoked_subcommand is None:
        click.echo(named(FIRST), nl=False)
        return
    if context.meta[HELP_ASKED]:  # nothing is looked for, so a site.yaml that is wrong does not matter
        context.obj = App(Path(), Path(), verbose)
        return
    from stackwright.host import project
    from stackwright.host.site import file
    from stackwright.host.site import settings as host

    os.environ.setdefault(*host.RESOLVER)
    found = file.find(site)
    file.enter(found, os.environ)  # for programs that are started as well: uv, apt and curl read it there
    places = project.places(matrix, out, os.environ)
    context.obj = App(places.matrix, places.out, verbose, site_file=found)


@cli.command(
    "plan", epilog=example("./build.py plan", "./build.py plan '*cuda12*' --json", "./build.py plan --all")
)
@selection
@click.option("--strict", is_flag=True, help="fail if any row is rejected")
@click.option("--all", "everything", is_flag=True, help="count how the rules prune the product of the axes")
@json_option
@click.pass_obj
def plan_command(app: App, /, rows: Words, where: Words, form: str, **options: bool) -> None:
    """Print what a run would do, and the rows that cannot work, with the reason. Needs no network.

    Fails where no selected row can work, and with --strict where one cannot.
    """
    from stackwright.cli import tables
    from stackwright.host.output import Output
    from stackwright.probe.digest import checks_digest
    from stackwright.records.standing import standing

    if options["everything"]:
        _sweep(app, rows + where, form)
        return
    planned = app.plan(rows, where)
    states = {
        row.stack.id: standing(app.project, row, checks_digest(app.project.root)) for row in planned.rows
    }
    if form == "json":
        print_json(tables.plan_document(planned, states))
    else:
        out = Output()
        if planned.rows:
            out.print(tables.plan_table(planned, states))
        for row in planned.rows:
            for notice in row.notices:
                out.print(tables.notice_line(row.stack.id, notice), soft_wrap=True, markup=False)
        for rejection in planned.rejections:
            out.print(tables.rejection_text(rejection, app.project.matrix.name), soft_wrap=True)
        out.print(tables.summary_line(planned))
    if options["strict"] or not planned.rows:
        refuse(planned)


def _sweep(app: App, selected: Words, form: str) -> None:
    from stackwright.cli import tables
    from stackwright.core.config import load
    from stackwright.core.resolve import sweep
    from stackwright.core.rules.table import CELL_RULES
    from stackwright.host.output import Output

    if selected:
        raise errors.UsageError("--all is about every combination", hint="leave out the rows and --where")
    matrix = load.load(app.project.matrix)
    swept = sweep.sweep(*sweep.of_matrix(matrix), (*sweep.exclusions(matrix), *CELL_RULES))
    if form == "json":
        print_json(tables.sweep_document(swept))
    else:
        Output().print(tables.sweep_table(swept))


@cli.command(
    "explain",
    epilog=example(
        "./build.py explain cuda12-torch",
        "./build.py explain --set gcc=12 --set gpu_arch=8.0",
        "./build.py explain cuda12-torch --set driver=535 --format json",
    ),
)
@click.argument("row", required=False, shell_complete=rows_like)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="change a field of the row, or constrain driver, numpy or setuptools",
)
@allow_option
@json_option
@click.pass_obj
def explain_command(app: App, row: str | None, settings: Words, form: str) -> None:
    """Say which rules accept or refuse a row, with their sources, and the nearest rows that work.

    Without ROW it is the first row of the matrix. Exits with 5 if a rule refuses. Needs no network.
    """
    from stackwright.cli import tables
    from stackwright.core.config import setting
    from stackwright.core.resolve import explain, lockfile
    from stackwright.host.output import Output

    base = app.cells((row,) if row else (), ())[0]
    path = app.project.lock_path(base)
    answer = explain.explain(
        base, setting.question(base, settings), lockfile.read(path) if path.exists() else None
    )
    if form == "json":
        print_json(tables.explanation_document(answer))
    else:
        Output().print(tables.explanation_text(answer), soft_wrap=True)
    if answer.cause:
        hint = "the answer names the nearest rows that work"
        raise RejectedError(f"{base.id}: refused by the rule {answer.cause.rule}", hint=hint)
    if answer.unknown:
        hint = (
            "the answer names rows that are known to work; ./build.py lock settles it for a row of the matrix"
        )
        raise UnknownError(f"{base.id}: the rule {answer.unknown.rule} does not know a value", hint=hint)


@cli.command("lock", epilog=example("./build.py lock cuda12-torch"))
@selection
@json_option
@click.pass_obj
def lock_command(app: App, rows: Words, where: Words, form: str) -> None:
    """Ask the package index and the mirror for exact versions; write one file per row under locks/."""
    from stackwright.host.upstream.locks import document, lock_rows

    wanted = app.cells(rows, where)
    try:
        lock_rows(app.project, wanted, site=app.site, runner=app.runner, say=app.say)
    finally:
        if form == "json":
            print_json(document(app.project, wanted))


@cli.command(
    "render", epilog=example("./build.py render cuda12-torch", "./build.py render --to /tmp/contexts")
)
@selection
@click.option("--to", type=PATH, help="the folder that receives the contexts  [default: out/rendered]")
@json_option
@click.pass_obj
def render_command(app: App, rows: Words, where: Words, to: Path | None, form: str) -> None:
    """Write each row's Dockerfile, definition file and context; no network and no engine is needed."""
    from stackwright.cli import tables
    from stackwright.core.render import definition, dockerfile
    from stackwright.host import project

    planned = app.plan(rows, where)
    app.warn(planned)
    folder = to or app.project.out / "rendered"
    dockerfile.write_all([row.recipe for row in planned.rows], folder)
    for row in planned.rows:
        native = definition.render_definition(row.stack, project.sources(app.project))
        dockerfile.write(native, folder / row.stack.id)
        app.say(f"{folder / row.stack.id}: docker build -t {row.stack.id} {folder / row.stack.id}")
    app.say(f"{folder / dockerfile.BAKE_FILE}: docker buildx bake -f {folder / dockerfile.BAKE_FILE}")
    if form == "json":
        print_json(tables.contexts_document(planned, folder))
    app.tell(planned)
    refuse(planned)


def working(
    name: str, phases: Words, *examples: str, own: Callable[[Any], Any] = lambda command: command
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a command on rows through some phases, which ends with what the records say.

    ``own`` adds options.
    """

    def made(command: Callable[..., None]) -> click.Command:
        @selection
        @click.option(
            "--jobs", type=click.IntRange(1, 64), default=1, show_default=True,
            help="rows at a time; with --cluster slurm, jobs of Slurm",
        )  # fmt: skip
        @click.option("--cluster", metavar="WHERE", help="on nodes: tcp://…, tls://…, slurm or ssh:FILE")
        @click.option("--gpu", is_flag=True, help="test rows that ask for it on the GPU while they are built")
        @own
        @json_option
        @click.pass_obj
        def run(app: App, /, rows: Words, where: Words, **options: Any) -> None:
            work(app, rows, where, RowsCommand(phases=phases, **options))

        run.__doc__ = command.__doc__
        return cli.command(name, epilog=example(*examples), help=command.__doc__)(run)

    return made


@working(
    "build", ("base", "build"), "./build.py build cuda12-torch", "./build.py build 'cuda12-t*' --jobs 2",
    own=bundle_option,
)  # fmt: skip
def build_command() -> None:
    """Build images: one BuildKit solve per row, its whole log kept.

    With --from-bundle: of a file that `bundle` wrote, where the network is cut off.
    """


@working(
    "probe", ("base", "build", "probe docker"), "./build.py probe cuda12-torch --format json",
    own=image_option,
)  # fmt: skip
def probe_command() -> None:
    """Prove images from inside, building first what is not there.

    With --image: any image or .sif with the labels of a row, as one that was built FROM the row's
    image, by the checks of that row: what differs, and which of the row's claims are not true of it.
    """


@working(
    "sif", ("base", "build", "sif"), "./build.py sif cuda12-torch",
    own=sif_options,
)  # fmt: skip
def sif_command() -> None:
    """Make .sif files: of images, building first what is not there, or of definition files.

    One of a definition file is built without root, and without Docker where apptainer is installed; it is
    proven at once, and compared with the image by facts.
    """


@working(
    "run", (), "./build.py run", "./build.py run cuda12-torch", "./build.py run 'cuda12-t*' --jobs 2",
    own=compression_option,
)  # fmt: skip
def run_command() -> None:
    """Everything in order: base, build, probe, sif, probe the sif, and the report."""


@cli.command("report", epilog=example("./build.py report", "./build.py report --format json"))
@allow_option
@json_option
@click.pass_obj
def report_command(app: App, form: str) -> None:
    """Print what the records say, and write the page (out/report/index.html)."""
    from stackwright.build import rows as session

    planned = app.plan((), ())
    done = session.recorded(app.project)
    if form == "json":
        print_json(session.document(done))
    else:
        session.print_summary(app.project, done, planned.rejections)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit code; errors are one message on stderr."""
    streams.complete()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        code = EXIT_UNREAD
    except OSError as full:
        code = _said(f"the output cannot be written: {full.strerror}", DiskError.exit_code)
    streams.drop()
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    """Return the exit code. OSError: the output cannot be written."""
    program.started_with({})  # of the command before, where a process runs several
    try:
        if VARIABLE in os.environ and arguments is None:
            from click.shell_completion import shell_complete

            return shell_complete(cli, {}, NAME, VARIABLE, os.environ[VARIABLE])
        with cli.make_context(NAME, sys.argv[1:] if arguments is None else arguments) as context:
            cli.invoke(context)  # not cli.main: it takes each closed pipe for that of the output
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except SystemExit as leave:  # of rows that failed: what was printed of them may be unread as well
        return leave.code if isinstance(leave.code, int) else bool(leave.code)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and streams.unwritable(error):
            raise
        return _said(*_message(error))
    return 0


def _message(error: Exception | KeyboardInterrupt) -> tuple[str, int]:
    match error:
        case StackwrightError():
            return str(error), error.exit_code
        case click.UsageError():
            of = " ".join(error.ctx.command_path.split()[1:]) if error.ctx else ""
            help_line = f"./build.py {of} --help" if of else "./build.py --help"
            return f"{error.format_message()}\n  next: {help_line}", errors.UsageError.exit_code
        case click.Abort() | KeyboardInterrupt():
            done = "interrupted; what was finished is kept, the next run continues from there"
            return done, EXIT_INTERRUPTED
        case Exception():  # a user should never see a traceback
            return str(internal_error(error)), InternalError.exit_code


def _said(message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # there may be no place to say it
        print(f"error: {named(redact(message))}", file=sys.stderr, flush=True)
    return code
