"""The command ``publish``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stackwright.cli.app import ALLOW_LESS, App, Words, example, print_json, refuse, selection
from stackwright.cli.front import json_option
from stackwright.core.errors import UsageError
from stackwright.host.output import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from stackwright.host.project import Plan
    from stackwright.publish import Published, Publisher


@click.command(
    "publish",
    epilog=example(
        "./build.py publish cuda12-torch --dry-run",
        "./build.py publish cuda12-torch --dry-run --sif --format json",
    ),
)
@selection
@click.option("--sif", is_flag=True, help="the .sif of each row too, under the same conditions")
@click.option("--allow-less", multiple=True, metavar="ROW", help=ALLOW_LESS)
@click.option("--dry-run", is_flag=True, help="say what would be refused and which tags would be set")
@json_option
@click.pass_obj
def publish_command(app: App, /, rows: Words, where: Words, form: str, **options: Any) -> None:
    """Push images to the site's registry by digest, and tag them once all of them may be tagged.

    A row needs the tiers of the matrix' publish.require, whatever options are given. The moving tags of all
    rows change last and together. Without ROW it is the matrix' own select. The login is Docker's.
    """
    from stackwright.publish import publish_rows

    planned = app.plan(rows, where, default=True)
    by = _publisher(app, planned, options)
    app.tell(planned)
    refuse(planned)
    if options["dry_run"]:
        _foretell(by, planned, form)
        return
    published = publish_rows(by, planned.rows)
    if by.before_tags is None:
        app.say("not signed: the site names no signing_key; see docs/verify.md")
    indexes = _indexes(by, published)
    if form == "json":
        document = {"version": 1, "published": [asdict(image) for image in published]}
        listed = [{"reference": reference, "tags": [tag]} for tag, reference in indexes.items()]
        print_json({**document, "indexes": listed})
    else:
        Output().print(_table(published, indexes))


def _indexes(by: Publisher, published: Sequence[Published]) -> dict[str, str]:
    """Return what each tag leads to in the registry that is of several rows, by its digest."""
    from stackwright.publish import index_tags

    host, rows = by.registry.access.host, {image.row for image in published}
    return {
        tag: f"{host}/{names.repository}@{by.registry.digest_of(names.repository, tag)}"
        for names in index_tags(by, rows)
        for tag in names.moving
    }


def _publisher(app: App, planned: Plan, options: dict[str, Any]) -> Publisher:
    from stackwright.publish.publisher import to_site

    unknown = sorted(set(options["allow_less"]) - {row.stack.id for row in planned.rows})
    if unknown:
        raise UsageError(f"--allow-less {unknown[0]}: this row is not selected", hint="./build.py plan")
    return to_site(
        app.project, app.site, runner=app.runner, say=app.say, sif=options["sif"],
        allow_less=options["allow_less"],
    )  # fmt: skip


def _foretell(by: Publisher, planned: Plan, form: str) -> None:
    """GateError as the real thing would raise it."""
    from stackwright.publish import foretell

    foretold = foretell(by, planned.rows)
    if form == "json":
        print_json({"version": 1, "would": [asdict(names) for names in foretold]})
        return
    for names in foretold:
        tags = " ".join((*names.fixed, *names.moving))
        line = f"{by.registry.access.host}/{names.repository}: {tags}"
        Output().print(line, markup=False, highlight=False, soft_wrap=True)


def _table(published: Sequence[Published], indexes: Mapping[str, str]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from stackwright.records.report.wording import size

    table = Table(box=SIMPLE_HEAD)
    for title in ("row", "sent", "was there", "to pull", "tags", "reference"):
        table.add_column(title, overflow="fold")
    for image in published:
        lacked = "all" if image.pull_bytes is None else size(image.pull_bytes)
        table.add_row(
            image.row,
            size(image.sent_bytes),
            size(image.present_bytes),
            lacked,
            " ".join(image.tags),
            image.reference,
        )
    for tag, reference in indexes.items():
        table.add_row("index", "", "", "", tag, reference)
    return table
