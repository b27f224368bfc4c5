"""The commands ``init`` and ``engine``: a repository of one's own, and an engine to build with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from stackwright import __version__
from stackwright.cli.app import App, example, print_json
from stackwright.cli.front import PATH, json_option
from stackwright.cli.program import PROGRAM
from stackwright.core.errors import UsageError
from stackwright.host.shipped import ROOT, SCRIPTS

STARTER = Path(__file__).parent / "starter"
ROW = "cuda12-torch"
"""The row of the first matrix; its lock comes with it."""


def first_files() -> dict[str, bytes]:
    """Return what a repository of images begins with: content by path."""
    from stackwright.core.config.schema import json_schema
    from stackwright.host.site.file import json_schema as site_schema
    from stackwright.nightly.ci import files as ci

    return {
        "matrix.yaml": (STARTER / "matrix.yaml").read_bytes(),
        "matrix.schema.json": _text(json_schema()),
        "site.yaml": (STARTER / "site.yaml").read_bytes(),
        "site.schema.json": _text(site_schema()),
        "requirements.txt": (STARTER / "requirements.txt").read_text().format(version=__version__).encode(),
        ".gitignore": (STARTER / "gitignore").read_bytes(),
        f"locks/{ROW}.txt": (ROOT / "locks" / f"{ROW}.txt").read_bytes(),
        **{file.path: file.text.encode() for file in ci.files(ci.OWN, own=True)},
    }


def _text(schema: dict[str, Any]) -> bytes:
    return f"{json.dumps(schema, indent=2)}\n".encode()


@click.command("init", epilog=example("./build.py init images"))
@click.argument("folder", type=PATH, default=Path())
@json_option
@click.pass_obj
def init_command(app: App, folder: Path, form: str) -> None:
    """Write a first matrix.yaml with its lock, site.yaml, .gitignore and the files of CI.

    A file that is there is kept. The files of CI are for GitHub and for GitLab: delete what you do not use.
    """
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
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)
        app.say(f"wrote {path}")
    inside = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    app.say(f"next: {inside}{PROGRAM} plan")
    if form == "json":
        wrote = [str(folder / name) for name in files if name not in there]
        print_json({"version": 1, "folder": str(folder), "wrote": wrote, "kept": there})


@click.command(
    "engine", context_settings={"ignore_unknown_options": True, "help_option_names": []},
    epilog=example("./build.py engine --check"),
)  # fmt: skip
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--check]")
def engine_command(words: tuple[str, ...]) -> None:
    """Bring up a container engine, as scripts/engine.sh does; it prints what it installs before it does."""
    script = str(SCRIPTS / "engine.sh")
    os.execv(script, [script, *words])  # noqa: S606 (its own program, with its own exit code)
