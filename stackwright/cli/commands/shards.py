"""The commands ``shards``: a night on several machines, from the list of its jobs to one answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stackwright.cli.app import ALLOW_LESS, App, Words, end, example, print_json, selection
from stackwright.cli.front import PATH, form_option, json_option

if TYPE_CHECKING:
    from stackwright.nightly.ci.estimates import Work
    from stackwright.nightly.shards import Handed
    from stackwright.publish import Publisher

MINUTES = 30
SHIPPED = "docs/results"
"""Records of real runs: what tells how long a step takes where nothing was run yet."""

summary_option = click.option(
    "--summary", type=PATH, metavar="FILE", help="append the answer as markdown, for a CI job"
)


@click.group(
    "shards",
    epilog=example("./build.py shards list", "./build.py shards list 'cuda12-*' --minutes 15"),
)
def shards_command() -> None:
    """A night on several machines: which rows share one, and how their parts come together."""


@shards_command.command("list", epilog=example("./build.py shards list --format github"))
@selection
@click.option(
    "--minutes", type=click.IntRange(1, 350), default=MINUTES, show_default=True,
    help="how long a shard may take, if that needs no more of them than a service takes",
)  # fmt: skip
@form_option("json", "github", "gitlab", text="github: lines for GITHUB_OUTPUT; gitlab: a pipeline")
@click.pass_obj
def list_command(app: App, rows: Words, where: Words, minutes: int, form: str) -> None:
    """Say which rows share a shard: those that share stages. Needs no network and no engine.

    A row that cannot be planned has a place too: its night makes a lock, or says why the row cannot work.
    """
    from stackwright.nightly.ci import listing, shards

    found = shards.shards(_works(app, rows, where), minutes=minutes)
    if form == "json":
        print_json(listing.document(found))
    else:
        click.echo(listing.FORMS[form](found, own=app.project.own), nl=False)


def _works(app: App, rows: Words, where: Words) -> tuple[Work, ...]:
    """Of every row that is selected, also of those that no committed lock makes possible."""
    from stackwright.nightly import night
    from stackwright.nightly.ci import estimates
    from stackwright.records import files as record

    cells = app.cells(rows, where)
    planned, wrong = night.plan_each(app.project, cells, night.committed_locks(app.project, cells))
    app.tell(planned)
    for row, error in wrong.items():
        app.say(f"{row}: {error.cause}; its night makes a lock")
    own, shipped = (record.load_all(folder) for folder in (app.project.records, app.project.root / SHIPPED))
    works = estimates.works(planned.rows, (*own.records, *shipped.records))
    refused = (estimates.Work(row=rejection.id, shared={}, own=0.0) for rejection in planned.rejections)
    return (*works, *estimates.unplanned(wrong, works), *refused)


@shards_command.command("prove", epilog=example("./build.py shards prove --help"))
@json_option
@click.pass_obj
def prove_command(app: App, form: str) -> None:
    """Pull the images that the shards built, and prove them with the GPU of this machine."""
    from stackwright.build import rows as session
    from stackwright.build.job import Request
    from stackwright.core.model.record import Phase
    from stackwright.engines import docker
    from stackwright.host.project import Plan
    from stackwright.nightly import shards

    shards.require_gpu(docker.find(app.runner))
    found, (_, _, make) = _handed(app), publisher(app)
    fetched, wrong = shards.fetch(found, make())
    planned = Plan(rows=fetched, rejections=())
    done = session.work_rows(
        app.project, planned, Request(phases=(Phase.BASE, Phase.BUILD, Phase.PROBE_DOCKER)), site=app.site,
        runner=app.runner, console=app.console,
    )  # fmt: skip
    if form == "json":
        print_json(session.document(done))
    else:
        session.print_summary(app.project, done, ())
    end(app, planned, (*wrong, *done.errors))


@shards_command.command("publish", epilog=example("./build.py shards publish --help"))
@click.option("--allow-less", multiple=True, metavar="ROW", help=ALLOW_LESS)
@json_option
@click.pass_obj
def publish_command(app: App, allow_less: Words, form: str) -> None:
    """Tag what the shards built and the gate lets through; the moving tags change last and together."""
    from stackwright.nightly import publishing, report, shards

    answer = shards.publish_handed(_handed(app), publishing.publisher(*publisher(app, allow_less)))
    for row in answer.rows:
        if row.pushed:
            app.say(f"{row.row}: {row.pushed.reference}: {' '.join(row.pushed.tags)}")
    if form == "json":
        print_json(report.document(answer))
    unpublished = [(row.row, row.unpublished) for row in answer.rows if row.unpublished]
    for name, failure in unpublished:
        app.say(f"{name}: not published: {failure.reason}")
    if unpublished:
        sys.exit(unpublished[0][1].exit_code)


@shards_command.command("report", epilog=example("./build.py shards report --help"))
@selection
@summary_option
@json_option
@click.pass_obj
def report_command(app: App, rows: Words, where: Words, summary: Path | None, form: str) -> None:
    """Make one history of those of the shards, and write the answer of the morning and the page.

    Name the same ROWs as for `shards list`: a row that no shard reported is reported as failed.
    """
    from stackwright.build import rows as session
    from stackwright.nightly import report, shards
    from stackwright.records.history import builds

    cells, found = app.cells(rows, where), _handed(app)
    answer = shards.whole_answer(found, cells, whole=not rows and not where)
    report.write(answer, app.project.out / "report", summary)
    if form == "json":
        print_json(report.document(answer))
    else:
        click.echo(report.FORMS["text"](answer), nl=False)
    refused = [row.rejection for row in answer.rows if row.rejection]
    with builds.opened(found.history_path) as db:
        before = builds.newest_records(db)  # a night has files of what it built alone
    app.say(f"page: {session.write_page(app.project, refused, before)}")


def _handed(app: App) -> Handed:
    from stackwright.nightly import shards

    return shards.handed(app.project, app.cells((), ()), app.project.out / shards.HISTORY)


def publisher(
    app: App, allow_less: Words = (), *, sif: bool = False
) -> tuple[str, str, Callable[[], Publisher]]:
    """The registry's host, the site's repository there, and what makes the publisher when it is needed."""
    from stackwright.publish.publisher import address, to_site

    registry = address(app.site)
    make = partial(
        to_site, app.project, app.site, runner=app.runner, say=app.say, sif=sif, allow_less=allow_less
    )
    return registry.host, registry.repository, make
