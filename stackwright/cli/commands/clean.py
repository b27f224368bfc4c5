"""The command ``clean``: show what no row needs any more, and free it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stackwright.cli.app import App, allow_option, example, print_json
from stackwright.cli.front import json_option
from stackwright.host.output import Output

if TYPE_CHECKING:
    from stackwright.build.clean import Item


@click.command("clean", epilog=example("./build.py clean", "./build.py clean --yes"))
@click.option("--yes", is_flag=True, help="free it without asking")
@click.option(
    "--all-projects", is_flag=True, help="free as well what other checkouts recorded, or other matrices"
)
@allow_option
@json_option
@click.pass_obj
def clean_command(app: App, yes: bool, all_projects: bool, form: str) -> None:
    """Show what could be freed, then free it: images, bases, folders and SIFs that no row needs any more.

    Frees only what this --out folder recorded for this matrix. Several checkouts may use one engine: what
    is not this project's is listed apart. What a container or a run uses is never freed.
    """
    from stackwright.build import clean
    from stackwright.engines import docker

    engine = docker.find(app.runner, project=app.project.id)
    items = clean.survey(engine, clean.known(app.project, app.plan((), ()).rows))
    freeable = [item for item in items if not item.todo and (all_projects or item.whose == clean.OURS)]
    if form == "text":
        _print_items(items)
    asked = form == "text" and bool(freeable) and not yes and sys.stdin.isatty()
    if form == "text" and freeable and not yes and not asked:
        app.say("not a terminal: pass --yes to free these")
    if yes or (asked and click.confirm(f"free {len(freeable)} of these?", default=False)):
        gone = clean.free(engine, app.project.out, freeable)
        app.say(f"freed {sum(item.bytes for item in gone) / 1e9:.1f} GB")
        items = tuple(item for item in items if item not in gone)
    if form == "json":
        print_json(clean.as_json(items))


def _print_items(items: tuple[Item, ...]) -> None:
    from stackwright.build import clean
    from stackwright.cli import tables

    titles = {clean.OURS: "of this project", clean.OTHERS: "of other projects (--all-projects frees these)"}
    for whose, title in titles.items():
        if found := [item for item in items if item.whose == whose]:
            Output().print(tables.items_table(found, title))
    if not items:
        Output().print("there is nothing to free")
