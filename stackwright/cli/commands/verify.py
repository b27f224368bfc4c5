"""The command ``verify``: compare an image, in a registry or a folder, with its signed attestations."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stackwright.cli.app import App, example, print_json
from stackwright.cli.front import PATH, json_option
from stackwright.core.errors import EngineError
from stackwright.core.model.row import Tier
from stackwright.core.model.target import PLATFORMS

if TYPE_CHECKING:
    from stackwright.engines.oci_tools import Name, Tool


@click.command(
    "verify",
    epilog=example("./build.py verify --help")
    + "\n\nAnd with names of your own:\n"
    + "\n\b\n  build.py verify registry.example.org/hpc/cuda12-torch@sha256:… --key site.crt"
    + "\n  build.py verify registry.example.org/hpc/cuda12-torch:1 --key site.crt --keep FOLDER"
    + "\n  build.py verify registry.example.org/hpc/images:cuda13 --platform linux/arm64 --key site.crt"
    + "\n  build.py verify FOLDER --key site.crt --row cuda12-torch"
    + "\n  build.py verify FOLDER --key site.crt --key partner.crt --threshold 2",
)
@click.argument("reference", metavar="REF")
@click.option(
    "--key", "named", type=PATH, required=True, multiple=True, metavar="FILE",
    help="public key, or certificate, in PEM; once for each signer",
)  # fmt: skip
@click.option(
    "--threshold", type=click.IntRange(1, 16), metavar="N",
    help="how many of the keys must have signed it  [default: all]",
)  # fmt: skip
@click.option("--row", default="", metavar="ROW", help="the row that it is to be; a tag is not believed")
@click.option(
    "--platform", type=click.Choice(tuple(PLATFORMS)),
    help="what it is to run on; of an index, the image for that",
)  # fmt: skip
@click.option(
    "--require", multiple=True, type=click.Choice([str(tier) for tier in Tier]),
    help="a tier that it must have passed  [default: all but gpu]",
)  # fmt: skip
@click.option("--keep", type=PATH, metavar="FOLDER", help="keep the copy, to carry it to where no network is")
@click.option("--plain-http", is_flag=True, help="the registry speaks http")
@json_option
@click.pass_obj
def verify_command(app: App, /, reference: str, named: tuple[Path, ...], form: str, **options: Any) -> None:
    """Check that an image is what its row says, with the site's public key alone.

    With several keys, each of them must have signed this very image, or N of them with --threshold N.

    REF is an image in a registry, or a folder in the OCI layout, of which FOLDER:TAG and FOLDER@DIGEST name
    one image; nothing else is asked for then, and no network. docs/verify.md says what is checked.
    """
    from stackwright.engines.oci_tools import Name
    from stackwright.publish import signers
    from stackwright.publish.attest import keys, source
    from stackwright.publish.attest.layers import chain
    from stackwright.publish.attest.verify import REQUIRED

    public = [keys.public_key(key, app.runner) for key in named]
    different, threshold = signers.distinct(public, options["threshold"])
    with source.opened(
        reference, site=lambda: app.site, oras=lambda: _tool(app, Name.ORAS), say=app.say,
        keep=options["keep"], plain=options["plain_http"],
        platform=PLATFORMS.get(options["platform"] or ""),
    ) as (layout, image):  # fmt: skip
        asked = chain.Asked(
            key=different[0], cosign=replace(_tool(app, Name.COSIGN), offline=True), at=datetime.now(UTC),
            require=tuple(map(Tier, options["require"])) or REQUIRED, row=options["row"],
        )  # fmt: skip
        found = signers.verify(
            different, threshold, lambda key: chain.verify(layout, image, replace(asked, key=key))
        )
    if form == "json":
        print_json(signers.document(found))
    else:
        click.echo("\n".join(signers.lines(found)))


def _tool(app: App, name: Name) -> Tool:
    """Where the host has the program itself, no engine is looked for."""
    from stackwright.engines import docker, oci_tools

    if shutil.which(name):
        return oci_tools.find(name, app.runner, None)
    try:
        engine = docker.find(app.runner)
    except EngineError as error:
        hint = f"install {name}, or start an engine: {docker.BRING_UP}"
        raise EngineError(f"no {name} on the PATH, and no engine to run one in", hint=hint) from error
    return oci_tools.find(name, app.runner, engine, mirror=app.site.mirror)
