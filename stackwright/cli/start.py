"""The commands ``init`` and ``engine``: a repository of one's own, and an engine to build with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from stackwright.cli.app import PATH, App, example
from stackwright.cli.program import PROGRAM
from stackwright.core.errors import UsageError
from stackwright.host.shipped import ROOT, SCRIPTS

STARTER = Path(__file__).parent / "starter"
ROW = "cuda12-torch"
"""The row of the first matrix; its lock comes with it."""


def first_files() -> dict[str, bytes]:
    """Return what a repository of images begins with: content by path."""
    from stackwright.core.config.schema import json_schema

    return {
        "matrix.yaml": (STARTER / "matrix.yaml").read_bytes(),
        "matrix.schema.json": f"{json.dumps(json_schema(), indent=2)}\n".encode(),
        "site.yaml": (STARTER / "site.yaml").read_bytes(),
        ".gitignore": (STARTER / "gitignore").read_bytes(),
        f"locks/{ROW}.txt": (ROOT / "locks" / f"{ROW}.txt").read_bytes(),
    }


@click.command("init", epilog=example("./build.py init images"))
@click.argument("folder", type=PATH, default=Path())
@click.pass_obj
def init_command(app: App, folder: Path) -> None:
    """Write a first matrix.yaml with its lock, site.yaml and .gitignore. A file that is there is kept."""
    files = first_files()
    there = [name for name in files if (folder / name).exists()]
    if "matrix.yaml" in there:
        raise UsageError(
            "there is a matrix already", place=str(folder / "matrix.yaml"), hint="name another folder"
        )
    for name, content in files.items():
        if name in there:
            app.say(f"kept {folder / name}")
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        app.say(f"wrote {path}")
    inside = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    app.say(f"next: {inside}{PROGRAM} plan")


@click.command(
    "engine", context_settings={"ignore_unknown_options": True, "help_option_names": []},
    epilog=example("./build.py engine --check"),
)  # fmt: skip
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--check]")
def engine_command(words: tuple[str, ...]) -> None:
    """Bring up a container engine, as scripts/engine.sh does; it prints what it installs before it does."""
    script = str(SCRIPTS / "engine.sh")
    os.execv(script, [script, *words])  # noqa: S606 (its own program, with its own exit code)
