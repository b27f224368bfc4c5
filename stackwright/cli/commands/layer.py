"""The command ``layer``: put packages on a finished image or SIF, and prove both together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stackwright.cli.app import App, example, print_json
from stackwright.cli.front import PATH, json_option
from stackwright.core.errors import UsageError
from stackwright.core.model.row import Tier, World

if TYPE_CHECKING:
    from stackwright.build.derived.prove import Subject
    from stackwright.build.layer.work import Result
    from stackwright.publish.attest.layers.push import Means


def refuse_apt(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> None:
    """Raise UsageError for packages of the distribution, which people look for here."""
    if names:
        hint = f"name {names[0]} in the apt of a row, or build FROM the image as root: docs/layer.md says how"
        raise UsageError(
            "--apt: a layer changes no file of its parent, and dpkg's database is one", hint=hint
        )


@click.command(
    "layer",
    epilog=example("./build.py layer --help")
    + "\n\nAnd with names of your own:\n"
    + "\n\b\n  build.py layer registry.example.org/hpc/cuda12-torch:1 -r requirements.txt --tag team/llm:1"
    + "\n  build.py layer cuda12-torch.sif -r requirements.txt --tag llm.sqsh",
)
@click.argument("image", metavar="IMAGE|SIF")
@click.option(
    "-r", "--requirements", type=PATH, required=True, metavar="FILE", help="requirements, as pip reads them"
)
@click.option("--apt", multiple=True, hidden=True, callback=refuse_apt, expose_value=False)
@click.option("--tag", default="", metavar="NAME", help="name of the new image, or file of the overlay")
@click.option("--wheels", type=PATH, metavar="FOLDER", help="a folder with more wheels than the index has")
@click.option(
    "--push", default="", metavar="REF", help="push it to where its parent is, and sign it: HOST/NAME:TAG"
)
@click.option("--plain-http", is_flag=True, help="the registry speaks http")
@json_option
@click.pass_obj
def layer_command(app: App, /, image: str, requirements: Path, form: str, **options: Any) -> None:
    """Add packages to a finished image or .sif: new files alone, on top of it, and proven with it.

    What would change or hide a file of IMAGE is refused. docs/layer.md says what is proven and attested.
    """
    from stackwright.build.derived import prove, report
    from stackwright.build.display import Display
    from stackwright.build.layer import resolve, work
    from stackwright.publish.attest.layers.push import parent_there

    asked = resolve.requirements(requirements)
    planned = app.plan((), ())
    parent = prove.subject(app.project, image, site=app.site, runner=app.runner, display=Display(app.console))
    if options["push"]:
        parent_there(options["push"], work.published(parent), _means(app, parent, options))
    wanted = work.Wanted(additions=asked, name=options["tag"], wheels=options["wheels"])
    made = work.layer(parent, planned.rows, wanted, app.say)
    proven = not made.proof.verdict.failed
    pushed = _push(app, made, options) if options["push"] and proven else ""
    if form == "json":
        more = {"pushed": pushed} if pushed else {}
        print_json({**made.said, "made": made.made.name, "statement": str(made.path), **more})
    else:
        click.echo("\n".join((*_lines(made), *([f"  pushed: {pushed}"] if pushed else []))))
    report.refuse(made.proof)


def _push(app: App, made: Result, options: Mapping[str, Any]) -> str:
    from stackwright.publish.attest.layers.push import Layered, push

    layered = Layered(config=made.made.config, layer=made.made.content, said=made.said)
    return push(options["push"], layered, _means(app, made.parent, options))


def _means(app: App, parent: Subject, options: Mapping[str, Any]) -> Means:
    from stackwright.publish.attest.layers.push import Means

    if parent.docker is None or parent.image.world is not World.DOCKER:
        raise UsageError("--push is for images", hint="apptainer push FILE oras://…")
    return Means(
        site=app.site, docker=parent.docker, runner=app.runner, say=app.say, plain=options["plain_http"]
    )


def _read(made: Result) -> str:
    if made.taken is None:
        return "all of it: nothing is taken over from the parent's proof"
    return (
        f"but for what the parent's files hold: they are as proven for {made.taken.parent} on"
        f" {made.taken.started}, and the new files were read"
    )


def _lines(made: Result) -> list[str]:
    found, verdict = made.found, made.proof.verdict
    tiers = ", ".join(f"{tier} {verdict.tier(tier)}" for tier in Tier)
    return [
        f"{made.made.name}: a layer on {made.parent.image.of}",
        *(f"  added {package.name} {package.version}" for package in found.new),
        *(f"  there {package.name} {package.version}: the parent has it" for package in found.there),
        f"  {tiers}",
        f"  proven again in {made.seconds:.0f} s, {_read(made)}",
        *(f"  {check.id}: {check.detail}" for check in verdict.failed),
        f"  statement: {made.path}",
    ]
