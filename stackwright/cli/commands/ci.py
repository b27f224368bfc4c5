"""The command ``ci``: what a CI service reads, written or compared."""

from __future__ import annotations

import click

from stackwright.cli.app import App, example, print_json
from stackwright.cli.front import json_option
from stackwright.core.errors import DriftError, UsageError


@click.command(
    "ci",
    epilog=example("./build.py ci --github", "./build.py ci --check"),
)
@click.option("--github", is_flag=True, help="the workflows, .github/workflows/*.yml")
@click.option("--gitlab", is_flag=True, help="the pipeline, .gitlab-ci.yml")
@click.option("--check", is_flag=True, help="write nothing; fail where a file is not up to date")
@json_option
@click.pass_obj
def ci_command(app: App, /, form: str, **options: bool) -> None:
    """Write the workflows of a CI service, which build, prove and publish every night what changed.

    They are written next to the matrix. Which rows share a job is found out when they run (`shards list`), so
    they do not change with the rows.
    """
    services = [name for name in ("github", "gitlab") if options[name]]
    if options["check"]:
        _check(app, services, form)
        return
    if not services:
        raise UsageError("for which service?", hint="--github, --gitlab, or both")
    from stackwright.nightly.ci import files

    made = files.files(services, own=app.project.own)
    for file in made:
        files.write(app.project.matrix.parent, file)
        app.say(f"wrote {file.path}")
    if form == "json":
        print_json({"version": 1, "written": [str(file.path) for file in made]})


def _check(app: App, services: list[str], form: str) -> None:
    from stackwright.nightly.ci import files

    root, own = app.project.matrix.parent, app.project.own
    asked = services or [name for name in files.OWN if not own or files.used(root, name)]
    if not asked:
        raise UsageError("no file of CI is here", place=str(root), hint=_again([]))
    found = files.drift(root, files.files(asked, own=own))
    if form == "json":
        print_json({"version": 1, "differ": list(found)})
    if found:
        raise DriftError("\n  ".join(("the files of CI are not up to date:", *found)), hint=_again(services))
    app.say("the files of CI are as they would be written")


def _again(services: list[str]) -> str:
    return " ".join(("./build.py ci", *(f"--{name}" for name in services or ("github", "gitlab"))))
