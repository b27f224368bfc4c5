"""What the commands share: where things are, which rows are meant, and how an answer is printed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stackwright.cli.front import PATH, rows_like
from stackwright.cli.program import PROGRAM, named
from stackwright.core.credentials import redact
from stackwright.core.errors import (
    EXIT_INTERRUPTED,
    EXIT_UNREAD,
    LockError,
    RejectedError,
    StackwrightError,
    UnknownError,
    UsageError,
)
from stackwright.core.model.compression import CHOICES, DEFAULT
from stackwright.core.model.compression import compression as chosen
from stackwright.host.runner import Runner
from stackwright.host.shipped import ROOT

if TYPE_CHECKING:  # --help starts without them
    from rich.console import Console

    from stackwright.build.bundle.file import Bundle
    from stackwright.build.job import Request
    from stackwright.build.rows import Session
    from stackwright.core.model.row import Cell, Rejection
    from stackwright.core.model.site import Site
    from stackwright.host.project import Plan, Project

NAMED = 5
"""Rows that one error names."""

ALLOW_LESS = "publish ROW even if it has fewer components than the published image"

SITES_KEY = Path()
"""``--sign`` without a file. This is a folder, so no user can have named it as a key."""


def example(*lines: str) -> str:
    """Return the epilog of a command. The tests run every example as it is written."""
    return "\b\nExample:\n" + "\n".join(f"  {line.replace('./build.py', PROGRAM)}" for line in lines)


UNREAD = "the program that read the output ended first, as `head` does"

Words = tuple[str, ...]


class App:
    """What every command needs, made once from the options before its name.

    ``site_file`` is the file that the environment was completed from; nodes read it on their own.
    """

    def __init__(
        self, matrix: Path, out: Path, show: bool, *, site_file: Path | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:  # fmt: skip
        self._matrix, self._out = matrix, out
        self.runner = Runner(show=show)
        self.allow: Words = ()
        self.site_file, self.environ = site_file, environ

    @cached_property
    def project(self) -> Project:
        from stackwright.host.project import Project

        return Project(root=ROOT, matrix=self._matrix.resolve(), out=self._out.resolve())

    @cached_property
    def console(self) -> Console:
        from stackwright.host.output import Output

        return Output(stderr=True)

    @cached_property
    def site(self) -> Site:
        """The site's settings, read when a command first needs them: that may start apt-get."""
        from stackwright.host.site import settings

        return settings.site(self.runner, self.environ)

    def plan(self, rows: Words, where: Words, *, default: bool = False) -> Plan:
        from stackwright.host.project import default_rows, plan, require_rows

        if default and not rows and not where:
            rows = default_rows(self.project)
        planned = plan(self.project, self.cells(rows, where))
        require_rows(planned)
        return planned

    def cells(self, rows: Words, where: Words) -> tuple[Cell, ...]:
        from stackwright.host.project import cells

        found = cells(self.project, rows, where)
        return tuple(replace(cell, allow=self.allow) for cell in found) if self.allow else found

    def say(self, text: str) -> None:
        self.console.print(named(redact(text)), markup=False, highlight=False, soft_wrap=True)

    def warn(self, planned: Plan) -> None:
        """Say which rules warn of a row, and which would refuse it and were allowed."""
        from stackwright.cli import tables

        for row in planned.rows:
            for notice in row.notices:
                self.say(tables.notice_line(row.stack.id, notice))

    def tell(self, planned: Plan) -> None:
        """The rows that cannot work, and why."""
        from stackwright.cli import tables

        for rejection in planned.rejections:
            self.console.print(tables.rejection_text(rejection, self.project.matrix.name))


def allow_option(command: Callable[..., None]) -> Callable[..., None]:
    """Rules whose documented facts must not refuse a row; kept in the App, because every plan needs them."""
    return click.option(
        "--allow", multiple=True, metavar="RULE", expose_value=False, callback=_allow,
        help="continue where RULE refuses by a documented fact; the image keeps the rule's name",
    )(command)  # fmt: skip


def _allow(context: click.Context, _: click.Parameter, names: Words) -> None:
    app = context.find_object(App)
    if not names or app is None:
        return
    from stackwright.core.config.messages import near
    from stackwright.core.rules.table import NAMES

    for name in names:
        if name not in NAMES:
            hint = near(name, NAMES) or "./build.py explain ROW names the rules"
            raise UsageError(f"--allow {name!r}: there is no such rule", hint=hint)
    app.allow = tuple(dict.fromkeys(names))


def selection(command: Callable[..., None]) -> Callable[..., None]:
    """Rows are named by id or by glob, or chosen by the value of a field."""
    command = allow_option(command)
    where = click.option("--where", multiple=True, metavar="FIELD=VALUE", help="rows with this value (ANDed)")
    return click.argument("rows", nargs=-1, metavar="[ROW…]", shell_complete=rows_like)(where(command))


def compression_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--sif-compression", "compression", default=DEFAULT.name, show_default=True, metavar="HOW",
        help=f"of the .sif: {CHOICES}",
    )(command)  # fmt: skip


def sif_options(command: Callable[..., None]) -> Callable[..., None]:
    origin = click.option(
        "--from", "origin", type=click.Choice(["image", "def"]), default="image", show_default=True,
        help="def: build it from its definition file, without the image",
    )  # fmt: skip
    sign = click.option(
        "--sign", type=PATH, is_flag=False, flag_value=str(SITES_KEY), metavar="[KEY]",
        help="sign it with a private key (PEM); without KEY, with the site's signing_key",
    )  # fmt: skip
    return origin(sign(compression_option(command)))


def refuse(planned: Plan) -> None:
    """Raise the error of rows that cannot work; by then, what could be done for the others is done."""
    from stackwright.core.model.row import Refused

    refused, unknown, unlocked = (
        [rejection for rejection in planned.rejections if rejection.verdict is kind] for kind in Refused
    )
    if refused:
        first = refused[0]
        cause = f"the rule {first.rule} refuses it" if len(refused) == 1 else _refused(refused)
        place = f"{first.id} (line {first.line} of the matrix)" if len(refused) == 1 else ""
        raise RejectedError(cause, place=place, hint=f"./build.py explain {first.id}")
    if unknown:
        raise UnknownError(f"{unknown[0].id}: {unknown[0].reason}", hint=unknown[0].nearest)
    if unlocked:
        raise LockError(f"{unlocked[0].id}: {unlocked[0].reason}", hint=unlocked[0].nearest)


def _refused(rows: Sequence[Rejection]) -> str:
    """Return how many rows cannot work, with the names of the first ones."""
    names = [row.id for row in rows]
    shown = ", ".join((*names[:NAMED], *(["…"] if len(names) > NAMED else [])))
    return f"{len(rows)} of the selected rows cannot work: {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCommand:
    """A command line that works on rows, as it was typed. ``phases`` empty: all that make an image."""

    phases: Words
    jobs: int
    gpu: bool
    form: str
    origin: str = "image"
    sign: Path | None = None
    compression: str = DEFAULT.name
    cluster: str | None = None
    image: str | None = None
    from_bundle: Path | None = None

    def check(self) -> None:
        """Raise UsageError where options exclude each other."""
        if self.cluster is not None and (self.sign or self.origin == "def"):
            hint = "sign when it is done"
            raise UsageError("--cluster goes with neither --sign nor --from def", hint=hint)
        if self.cluster is not None and self.from_bundle:
            hint = "build on the machine that has the file"
            raise UsageError("--cluster does not go with --from-bundle", hint=hint)
        if self.origin == "def":
            _refuse_what_definitions_cannot(self.jobs, self.gpu)

    def request(self, app: App) -> Request:
        from stackwright.build.job import Request
        from stackwright.core.model.record import DEFINITION_PHASES, IMAGE_PHASES, Phase
        from stackwright.engines.sif import sign as signing

        of_image = tuple(Phase(name) for name in self.phases) or IMAGE_PHASES
        return Request(
            phases=DEFINITION_PHASES if self.origin == "def" else of_image, jobs=self.jobs, gpu=self.gpu,
            compression=chosen(self.compression),
            signer=signing.signer(_key(app, self.sign), app.runner) if self.sign else None,
        )  # fmt: skip


def work(app: App, rows: Words, where: Words, command: RowsCommand) -> None:
    """Work on rows through some phases; the summary is printed in any case."""
    from stackwright.build import rows as session

    command.check()
    chosen(command.compression)
    bundle = _read_bundle(app, command.from_bundle) if command.from_bundle else None
    if bundle and not rows and not where:
        rows = tuple(row.row for row in bundle.manifest.rows)
    planned = app.plan(rows, where, default=not command.phases)
    if command.image is not None:
        _probe_derived(app, planned, command.image, command.form)
        return
    app.warn(planned)
    if bundle:
        for row in planned.rows:
            bundle.row(row.stack.id, row.recipe.key)
    request = replace(command.request(app), bundle=bundle)
    if command.cluster is not None:
        done = _on_nodes(app, planned, request, command.cluster)
    else:
        done = session.work_rows(
            app.project, planned, request, site=app.site, runner=app.runner, console=app.console
        )
    if command.origin == "def":
        _print_definitions(app, planned, done, command.form)
    elif command.form == "json":
        print_json(session.document(done))
        app.tell(planned)
    else:
        session.print_summary(app.project, done, planned.rejections)
    end(app, planned, done.errors)


def _read_bundle(app: App, path: Path) -> Bundle:
    from stackwright.build.bundle import file

    bundle = file.read(path)
    members = len(bundle.manifest.members)
    app.say(f"{path}: {members} members, each with the hash that its manifest has; manifest {bundle.digest}")
    return bundle


def _probe_derived(app: App, planned: Plan, image: str, form: str) -> None:
    from stackwright.build.derived import prove, report
    from stackwright.build.display import Display

    found = prove.probe(
        app.project, planned.rows, image, site=app.site, runner=app.runner, display=Display(app.console)
    )
    if form == "json":
        print_json(report.document(found))
    else:
        click.echo("\n".join(report.lines(found)))
    report.refuse(found)


def image_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--image",
        metavar="NAME",
        help="prove any image or .sif with a row's labels, as one built FROM its image; nothing is recorded",
    )(command)


def bundle_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--from-bundle",
        type=PATH,
        metavar="FILE",
        help="take everything from what `bundle` wrote, and nothing from a network",
    )(command)


def _key(app: App, named: Path) -> Path:
    key = app.site.signing_key if named == SITES_KEY else named
    if key is None:
        raise UsageError("--sign: the site names no signing_key", hint="name it in site.yaml, or: --sign KEY")
    return key


def _on_nodes(app: App, planned: Plan, request: Request, cluster: str) -> Session:
    from stackwright.build.nodes.address import address
    from stackwright.engines.stage_cache import Cache

    where = address(cluster)
    try:
        from stackwright.build.nodes import rows as nodes
    except ModuleNotFoundError as error:
        hint = "install what pyproject.toml calls the extra 'cluster', or: make env"
        raise UsageError(f"--cluster needs {error.name}, which is not installed", hint=hint) from error
    site = app.site
    cache = Cache(repository=site.cache) if site.cache and not site.builders else None
    shared = nodes.Cluster(address=where, cache=cache, site=app.site_file)
    return nodes.work_rows(app.project, planned, request, shared, runner=app.runner, console=app.console)


def _refuse_what_definitions_cannot(jobs: int, gpu: bool) -> None:
    from stackwright.build.sif.from_definition import NEEDS

    if jobs > 1:
        cause = f"--from def builds one row at a time: each needs {NEEDS / 1e9:.0f} GB of disk"
        raise UsageError(cause, hint="leave out --jobs")
    if gpu:
        cause = "--from def has no use for a GPU: what it makes is proven on the CPU"
        raise UsageError(cause, hint="leave out --gpu; ./build.py run --gpu tests the Docker image")


def _print_definitions(app: App, planned: Plan, done: Session, form: str) -> None:
    from stackwright.build import rows as session
    from stackwright.records.report.definitions import summary

    if form == "json":
        whole = session.document(done)
        print_json({name: whole[name] for name in ("version", "definitions", "errors")})
    else:
        for definition in done.definitions:
            click.echo(summary(definition))
        click.echo(f"page: {session.write_page(app.project, planned.rejections)}")
    app.tell(planned)


def end(app: App, planned: Plan, wrong: Sequence[StackwrightError]) -> None:
    """The first failure decides the exit code."""
    for error in wrong:
        app.say(f"error: {error}")
    if wrong:
        sys.exit(wrong[0].exit_code)
    refuse(planned)


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")


def exit_codes() -> str:
    kinds = sorted(
        {kind.exit_code: kind.meaning for kind in _kinds(StackwrightError)}.items(),
    )
    codes = ((0, "done"), *kinds, (EXIT_INTERRUPTED, "interrupted"), (EXIT_UNREAD, UNREAD))
    lines = [f"  {code:3}  {meaning}" for code, meaning in codes]
    return "\b\nExit codes:\n" + "\n".join(lines)


def _kinds(kind: type[StackwrightError]) -> set[type[StackwrightError]]:
    return {kind}.union(*(_kinds(sub) for sub in kind.__subclasses__()))
