"""The commands. Each reads its arguments, calls one stage, and prints; none decides anything."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console

from stackwright import __version__, errors, launch
from stackwright.app import (
    PATH,
    ROOT,
    App,
    Words,
    example,
    exit_codes,
    json_option,
    print_json,
    refuse,
    selection,
    sif_options,
    work,
)
from stackwright.errors import EXIT_INTERRUPTED, InternalError, RejectedError, StackwrightError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("./build.py plan", "./build.py run", "./build.py --matrix other.yaml plan '*cuda12*'")
    + "\n\n"
    + exit_codes(),
)
@click.option("--matrix", type=PATH, default=ROOT / "matrix.yaml", help="another matrix")
@click.option("--out", type=PATH, default=ROOT / "out", help="where everything made goes")
@click.option("-v", "--verbose", is_flag=True, help="show each program that is started")
@click.version_option(__version__, prog_name="stackwright")
@click.pass_context
def cli(context: click.Context, matrix: Path, out: Path, verbose: bool) -> None:
    """Container images for distributed GPU training: from one matrix, proven from inside."""
    context.obj = App(matrix, out, verbose)


@cli.command(
    "plan", epilog=example("./build.py plan", "./build.py plan '*cuda12*' --json", "./build.py plan --all")
)
@selection
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout")
@click.option("--strict", is_flag=True, help="fail if any row is rejected")
@click.option("--all", "everything", is_flag=True, help="count how the rules prune the product of the axes")
@click.pass_obj
def plan_command(app: App, /, rows: Words, where: Words, as_json: bool, **options: bool) -> None:
    """Print what a run would do, and the rows that cannot work, with the reason. Needs no network."""
    from stackwright import output
    from stackwright.pipeline import standing

    if options["everything"]:
        _sweep(app, rows + where, as_json)
        return
    planned = app.plan(rows, where)
    states = {row.stack.id: standing(app.project, row) for row in planned.rows}
    if as_json:
        print_json(output.plan_document(planned, states))
    else:
        out = Console()
        if planned.rows:
            out.print(output.plan_table(planned, states))
        for rejection in planned.rejections:
            out.print(output.rejection_text(rejection, app.project.matrix.name))
        out.print(output.summary_line(planned))
    if options["strict"]:
        refuse(planned)


def _sweep(app: App, selected: Words, as_json: bool) -> None:
    from stackwright import load, output, sweep
    from stackwright.rules.cell import CELL_RULES

    if selected:
        raise errors.UsageError("--all is about every combination", hint="leave out the rows and --where")
    matrix = load.load(app.project.matrix)
    swept = sweep.sweep(*sweep.of_matrix(matrix), (*sweep.exclusions(matrix), *CELL_RULES))
    if as_json:
        print_json(output.sweep_document(swept))
    else:
        Console().print(output.sweep_table(swept))


@cli.command(
    "explain",
    epilog=example(
        "./build.py explain cuda12-torch",
        "./build.py explain --set gcc=12 --set gpu_arch=8.0",
        "./build.py explain cuda12-torch --set driver=535 --format json",
    ),
)
@click.argument("row", required=False)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="change a field of the row, or constrain driver, numpy or setuptools",
)
@json_option
@click.pass_obj
def explain_command(app: App, row: str | None, settings: Words, form: str) -> None:
    """Say which rules accept or refuse a row, with their sources, and the nearest rows that work.

    Without ROW it is the first row of the matrix. Exits with 5 if a rule refuses. Needs no network.
    """
    from stackwright import explain, lock, output

    base = app.cells((row,) if row else (), ())[0]
    path = app.project.lock_path(base)
    answer = explain.explain(
        base, explain.question(base, settings), lock.read(path) if path.exists() else None
    )
    if form == "json":
        print_json(output.explanation_document(answer))
    else:
        Console().print(output.explanation_text(answer), soft_wrap=True)
    if answer.cause:
        raise RejectedError(f"{base.id}: refused by the rule {answer.cause.rule}")


@cli.command("lock", epilog=example("./build.py lock cuda12-torch"))
@selection
@json_option
@click.pass_obj
def lock_command(app: App, rows: Words, where: Words, form: str) -> None:
    """Ask the package index and the mirror for exact versions; write one file per row under locks/."""
    from stackwright import locking

    wanted = app.cells(rows, where)
    try:
        locking.lock_rows(app.project, wanted, runner=app.runner, say=app.say)
    finally:
        if form == "json":
            print_json(locking.document(app.project, wanted))


@cli.command(
    "render", epilog=example("./build.py render cuda12-torch", "./build.py render --to /tmp/contexts")
)
@selection
@click.option("--to", type=PATH, help="the folder that receives the contexts  [default: out/rendered]")
@json_option
@click.pass_obj
def render_command(app: App, rows: Words, where: Words, to: Path | None, form: str) -> None:
    """Write each row's Dockerfile, definition file and context; no network and no engine is needed."""
    from stackwright import definition, output, project, render

    planned = app.plan(rows, where)
    folder = to or app.project.out / "rendered"
    render.write_all([row.recipe for row in planned.rows], folder)
    for row in planned.rows:
        native = definition.render_definition(row.stack, project.sources(app.project))
        render.write(native, folder / row.stack.id)
        app.say(f"{folder / row.stack.id}: docker build -t {row.stack.id} {folder / row.stack.id}")
    app.say(f"{folder / render.BAKE_FILE}: docker buildx bake -f {folder / render.BAKE_FILE}")
    if form == "json":
        print_json(output.contexts_document(planned, folder))
    app.tell(planned)
    refuse(planned)


def working(
    name: str, phases: Words, *examples: str, own: Callable[[Any], Any] = lambda command: command
) -> Callable[[Callable[..., None]], click.Command]:
    """A command on rows through some phases, which ends with what the records say. ``own`` adds options."""

    def made(command: Callable[..., None]) -> click.Command:
        @selection
        @click.option(
            "--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="rows at a time"
        )
        @click.option("--gpu", is_flag=True, help="test rows that ask for it on the GPU while they are built")
        @own
        @json_option
        @click.pass_obj
        def run(app: App, /, rows: Words, where: Words, **options: Any) -> None:
            work(app, rows, where, phases=phases, **options)

        run.__doc__ = command.__doc__
        return cli.command(name, epilog=example(*examples), help=command.__doc__)(run)

    return made


@working("build", ("base", "build"), "./build.py build cuda12-torch", "./build.py build 'cuda12-t*' --jobs 2")
def build_command() -> None:
    """Build images: one BuildKit solve per row, its whole log kept."""


@working("probe", ("base", "build", "probe docker"), "./build.py probe cuda12-torch --format json")
def probe_command() -> None:
    """Prove images from inside, building first what is not there."""


@working(
    "sif", ("base", "build", "sif"), "./build.py sif cuda12-torch",
    own=sif_options,
)  # fmt: skip
def sif_command() -> None:
    """Make .sif files: of images, building first what is not there, or of definition files.

    One of a definition file is built without root, and without Docker where apptainer is installed; it is
    proven at once, and compared with the image by facts.
    """


@working("run", (), "./build.py run", "./build.py run cuda12-torch", "./build.py run --where torch=2.6.0")
def run_command() -> None:
    """Everything in order: base, build, probe, sif, probe the sif, and the report."""


def launchers(command: Callable[..., None]) -> Callable[..., None]:
    """One option for each launcher there is."""
    for name, launcher in reversed(launch.LAUNCHERS.items()):
        command = click.option(f"--{name}", is_flag=True, help=launcher.makes)(command)
    return command


def _was_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


@cli.command(
    "launch",
    epilog=example(
        "./build.py launch cuda12-torch --mpirun --hosts a:4,b:4 --interface eth0 --ssh-key /keys/id_ed25519",
        "./build.py launch cuda12-torch --mpirun --hosts a:4,b:4 --fabric infiniband -- python train.py -v",
        "./build.py launch cuda12-torch --slurm --nodes 2 --per-node 4",
        "./build.py launch cuda12-torch --kubernetes --nodes 2 --per-node 4 --format json",
    ),
)
@click.argument("row")
@click.argument("command", nargs=-1, metavar="[-- COMMAND…]")
@launchers
@click.option("--hosts", metavar="HOST:RANKS,…", help="mpirun, horovodrun: the nodes, and the ranks on each")
@click.option("--nodes", type=click.IntRange(1, launch.MOST_RANKS), default=1, help="how many nodes")
@click.option("--per-node", type=click.IntRange(1, 64), default=1, help="how many ranks on each: one per GPU")
@click.option("--interface", help="the network interface between the nodes, which every node has")
@click.option("--fabric", type=click.Choice(launch.FABRICS), default="tcp", show_default=True)
@click.option("--hca", metavar="DEVICE:PORT", help="with --fabric infiniband: take this device alone")
@click.option("--host-mpi", metavar="FOLDER", help="slurm: bind the cluster's own MPI into the container")
@click.option("--pyxis", is_flag=True, help="slurm: srun makes the container, with pyxis and enroot")
@click.option(
    "--ssh-port", type=click.IntRange(1, 65535), default=launch.SSH_PORT, show_default=True,
    help="where sshd-as-user listens",
)  # fmt: skip
@click.option("--ssh-key", metavar="PATH", help="the private key, as the container sees it")
@json_option
@click.pass_obj
@click.pass_context
def launch_command(
    context: click.Context, app: App, /, row: str, command: Words, form: str, **options: Any
) -> None:
    """Print what starts training over several ranks, each setting explained in a comment.

    All that is printed can be pasted into a shell, handed to sbatch or applied by kubectl. COMMAND is what
    each rank runs [default: python train.py]. Needs no engine and no network.
    """
    from stackwright.render import reference

    launcher = launch.chosen([name for name in launch.LAUNCHERS if options.pop(name)])
    given = {name.replace("_", "-") for name in options if _was_given(context, name)}
    launch.suits(launcher, launch.LAUNCHERS[launcher].reads, given)
    site = launch.site(hosts_text=options.pop("hosts"), **options)
    planned = app.plan((row,), ())
    app.tell(planned)
    refuse(planned)
    if len(planned.rows) > 1:
        raise errors.UsageError(f"{row!r} means {len(planned.rows)} rows", hint="name one of them")
    found = planned.rows[0]
    target = launch.Target.of(found.stack, reference(found.recipe))
    made = launch.LAUNCHERS[launcher].make(target, site, command or launch.TRAIN)
    if form == "json":
        print_json(launch.document(found.stack.id, launcher, made))
    else:
        click.echo(launch.script(made))


@cli.command("report", epilog=example("./build.py report", "./build.py report --format json"))
@json_option
@click.pass_obj
def report_command(app: App, form: str) -> None:
    """Print what the records say, and write the page (out/report/index.html)."""
    from stackwright import session

    planned = app.plan((), ())
    done = session.recorded(app.project)
    if form == "json":
        print_json(session.document(done))
    else:
        session.print_summary(app.project, done, planned.rejections)


@cli.command("doctor", epilog=example("./build.py doctor"))
@json_option
@click.pass_obj
def doctor_command(app: App, form: str) -> None:
    """Say what is there, what is missing and what to do: engine, apptainer, GPU, disk, mirror, CA."""
    from stackwright import doctor, output
    from stackwright.errors import EngineError

    findings = doctor.examine(app.runner, app.project.root)
    if form == "json":
        print_json(doctor.as_json(findings))
    else:
        Console().print(output.findings_table(findings))
    missing = [finding.name for finding in findings if finding.state == "missing"]
    if missing:
        raise EngineError(f"missing: {', '.join(missing)}", hint="the last column says what to do")


@cli.command("clean", epilog=example("./build.py clean", "./build.py clean --yes"))
@click.option("--yes", is_flag=True, help="free it without asking")
@json_option
@click.pass_obj
def clean_command(app: App, yes: bool, form: str) -> None:
    """Show what could be freed, then free it: images, contexts and SIFs that no row needs any more."""
    from stackwright import clean, output
    from stackwright.engines import docker

    engine = docker.find(app.runner)
    current = {row.stack.id: row.recipe.key for row in app.plan((), ()).rows}
    items = clean.survey(engine, app.project.out, current)
    freeable = [item for item in items if not item.todo]
    if form == "text":
        Console().print(output.items_table(items))
    asked = form == "text" and bool(freeable) and not yes and sys.stdin.isatty()
    if form == "text" and freeable and not yes and not asked:
        app.say("nothing is freed without --yes where nobody can be asked")
    if yes or (asked and click.confirm(f"free {len(freeable)} of these?", default=False)):
        gone = clean.free(engine, app.project.out, freeable)
        app.say(f"freed {sum(item.bytes for item in gone) / 1e9:.1f} GB")
        items = tuple(item for item in items if item not in gone)
    if form == "json":
        print_json(clean.as_json(items))


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
    except Exception as defect:  # nobody should see a traceback
        _fail(str(InternalError.of(defect)), InternalError.exit_code)
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)
