"""The command ``bundle``: everything that a build downloads, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stackwright.cli.app import App, Words, example, print_json, refuse, selection
from stackwright.cli.front import PATH, json_option

if TYPE_CHECKING:
    from stackwright.build.bundle.make import Made

FOLDERS = {"packages": "of the distribution", "python": "of the package index", "base": "base images"}
"""What the command prints about the folders of a bundle; the rest are the contexts, which are small."""


@click.command(
    "bundle",
    epilog=example("./build.py bundle --help")
    + "\n\nAnd where the network is cut off, with the same matrix and locks:\n"
    + "\n\b\n  build.py bundle cuda12-torch --to cuda12-torch.bundle"
    + "\n  build.py build cuda12-torch --from-bundle cuda12-torch.bundle",
)
@selection
@click.option("--to", type=PATH, metavar="FILE", help="the file to write  [default: out/rows.bundle]")
@json_option
@click.pass_obj
def bundle_command(app: App, /, rows: Words, where: Words, to: Path | None, form: str) -> None:
    """Write all that a build downloads into one file, with which the rows are built without a network.

    The rows are built once more for this, without any cache. docs/bundle.md says what is in the file.
    """
    from stackwright.build.bundle.make import make
    from stackwright.build.display import Display
    from stackwright.build.rows import jobs_of

    planned = app.plan(rows, where, default=True)
    app.warn(planned)
    app.tell(planned)
    refuse(planned)
    display = Display(app.console)
    target = (to or app.project.out / "rows.bundle").resolve()
    with display.shown():
        made = make(jobs_of(app.project, planned, site=app.site, runner=app.runner, display=display), target)
    if form == "json":
        print_json(_document(made))
    else:
        click.echo("\n".join(_lines(made)))


def _document(made: Made) -> dict[str, Any]:
    return {
        "version": 1, "path": str(made.path), "bytes": made.bytes, "manifest": made.digest,
        "rows": [
            {
                "row": row.row, "key": row.key, "layers": list(row.layers),
                "bases": [base.name for base in row.bases],
            }
            for row in made.manifest.rows
        ],
        "members": {
            name: dict(zip(("files", "bytes"), made.manifest.count(name), strict=True))
            for name in (*FOLDERS, "context")
        },
    }  # fmt: skip


def _lines(made: Made) -> list[str]:
    counts = {name: made.manifest.count(name) for name in FOLDERS}
    return [
        f"{made.path}: {made.bytes / 1e9:.2f} GB",
        *(
            f"  row       {row.row}, key {row.key[:12]}, {len(row.layers)} layers"
            for row in made.manifest.rows
        ),
        *(
            f"  {name:8}  {number} files {FOLDERS[name]}, {size / 1e9:.2f} GB"
            for name, (number, size) in counts.items()
        ),
        f"  manifest  sha256 {made.digest}",
    ]
