"""What all commands share: a group that imports each when it is asked for, its options, and ``--format``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from stackwright.cli.program import PROGRAM
from stackwright.core.errors import StackwrightError, UsageError
from stackwright.host.shipped import ROOT

PATH = click.Path(path_type=Path)

NAME = PROGRAM.removeprefix("./")
VARIABLE = f"_{NAME.replace('.', '_')}_COMPLETE".upper()
"""The variable by which a shell asks what can follow the words so far."""

PLACES = {
    "matrix": "the rows  [default: $STACKWRIGHT_MATRIX, or matrix.yaml here]",
    "site": "where mirrors, registry and keys are  [default: site.yaml]",
    "out": "where everything made goes  [default: out next to the matrix]",
}
"""Options that name a file or a folder, with their help."""

HELP_ASKED = "stackwright.help"
"""Where the context keeps that the help of a command was asked for: then nothing has to be found first."""

VERBOSE = ("-v", "--verbose")

COMMANDS = "stackwright.cli.commands"
LATER = {
    "launch": (f"{COMMANDS}.launch", "Print what starts training over several ranks, or a tool"),
    "layer": (f"{COMMANDS}.layer", "Add packages to a finished image or .sif"),
    "publish": (f"{COMMANDS}.publish", "Push images to the site's registry by digest, and tag them"),
    "verify": (f"{COMMANDS}.verify", "Check that an image is what its row says"),
    "nightly": (f"{COMMANDS}.nightly", "Ask upstream afresh, build only what changed, prove it"),
    "history": (f"{COMMANDS}.nightly", "Show the history of nightly builds, or merge histories"),
    "shards": (f"{COMMANDS}.shards", "A night on several machines"),
    "ci": (f"{COMMANDS}.ci", "Write the workflows of a CI service"),
    "facts": (f"{COMMANDS}.facts", "Show how the rules' tables were obtained, or compare them"),
    "doctor": (f"{COMMANDS}.doctor", "Say what is there, what is missing and what to do"),
    "bundle": ("stackwright.cli.bundle", "Write all that a build downloads into one file"),
    "clean": (f"{COMMANDS}.clean", "Show what could be freed, then free it"),
    "init": ("stackwright.cli.start", "Write a first matrix.yaml with its lock"),
    "engine": ("stackwright.cli.start", "Bring up a container engine, as scripts/engine.sh does"),
    "completion": ("stackwright.cli.completion", "Print what makes a shell complete commands, options"),
}
"""Where a command is, as NAME_command, and its line in the list of commands, which imports none of them."""


def everywhere(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the group, which are taken before and after the name of a command."""
    command = click.option(*VERBOSE, is_flag=True, help="show each program that is started")(command)
    for name, text in reversed(PLACES.items()):
        command = click.option(f"--{name}", type=PATH, multiple=True, help=text)(command)
    return command


def _behind(command: click.Command) -> None:
    """Let a command and those below it take the options of the group. Its own of the same name stay."""
    if command.context_settings.get("ignore_unknown_options"):
        return  # it hands on all words to another program
    own = {text for option in command.params for text in option.opts}
    wanted = [click.Option([f"--{name}"], type=PATH, multiple=True) for name in PLACES]
    for option in (*wanted, click.Option(list(VERBOSE), is_flag=True)):
        option.expose_value, option.hidden = False, True
        if not own & set(option.opts):
            command.params.append(option)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _behind(below)


class Front(click.Group):
    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.commands = {name: click.Command(name, help=text) for name, (_, text) in LATER.items()}
        self._here: set[str] = set()

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        _behind(cmd)
        super().add_command(cmd, name)
        self._here.add(name or cmd.name or "")

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands and cmd_name not in self._here:
            module = import_module(LATER[cmd_name][0])
            self.add_command(getattr(module, f"{cmd_name}_command"), cmd_name)
        return self.commands.get(cmd_name)

    def every(self) -> dict[str, click.Command]:
        """All commands, imported."""
        found = {name: self.get_command(None, name) for name in sorted(self.commands)}
        return {name: command for name, command in found.items() if command}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, for which none of them is imported."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        lines = [(name, self.commands[name].get_short_help_str(limit)) for name in sorted(self.commands)]
        with formatter.section("Commands"):
            formatter.write_dl(lines)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, words, _ = self.make_parser(ctx).parse_args(list(args)) if args else (None, [], None)
        rest = super().parse_args(ctx, args)
        behind = list(self._behind_command(ctx, words))
        for name in PLACES:
            late = (Path(path) for more in behind for path in more.get(name) or ())
            ctx.params[name] = only_one(f"--{name}", (*(ctx.params[name] or ()), *late))
        ctx.params["verbose"] = ctx.params["verbose"] or any(more.get("verbose") is True for more in behind)
        ctx.meta[HELP_ASKED] = any(more[HELP_ASKED] for more in behind)
        return rest

    def _behind_command(self, ctx: click.Context, words: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield what is said after the name of each command on the line. The command reads it again."""
        command: click.Command | None = self
        while isinstance(command, click.Group) and words:
            command, words = command.get_command(ctx, words[0]), words[1:]
            if command is None:
                return
            inner = click.Context(command, parent=ctx, resilient_parsing=True, ignore_unknown_options=True)
            parser = command.make_parser(inner)
            values, words, _ = parser.parse_args(list(words))
            asked = command.get_help_option(inner)
            said = {name: value for name, value in values.items() if isinstance(value, list | bool)}
            yield {**said, HELP_ASKED: asked is not None and values.get(asked.name or "") is True}


def only_one(option: str, given: Sequence[Path]) -> Path | None:
    """Return the value of an option that may be said twice, but not with two values."""
    different = list(dict.fromkeys(given))
    if len(different) > 1:
        values = " and ".join(map(str, different))
        raise UsageError(f"{option} is given twice: {values}", hint="leave one out")
    return different[0] if different else None


def rows_like(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the rows of the matrix that begin so, for a shell. Without a matrix there is none."""
    from stackwright.host import project

    named = context.find_root().params.get("matrix")
    places = project.places(named, None, os.environ)
    with contextlib.suppress(StackwrightError, OSError):
        found = project.Project(root=ROOT, matrix=places.matrix, out=places.out)
        return [cell.id for cell in project.cells(found) if cell.id.startswith(incomplete)]
    return []


# -- the form of an answer ---------------------------------------------------------------------------

SHORT = "stackwright.json"
"""Where the context keeps that ``--json`` was given; click reads it first."""

Command = Callable[..., None]
HELP = "json: one document on stdout, nothing else there"


def form_option(*forms: str, text: str = HELP) -> Callable[[Command], Command]:
    """``--format`` with these forms, of which the first is the usual one, and ``--json``."""

    def both(command: Command) -> Command:
        short = click.option(
            "--json", is_flag=True, is_eager=True, expose_value=False, callback=_short,
            help="the same as --format json",
        )  # fmt: skip
        long = click.option(
            "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, callback=_form,
            help=text,
        )  # fmt: skip
        return long(short(command))

    return both


json_option = form_option("text", "json")


def _short(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        context.meta[SHORT] = True


def _form(context: click.Context, _: click.Parameter, form: str) -> str:
    if SHORT not in context.meta:
        return form
    named = context.get_parameter_source("form") is click.core.ParameterSource.COMMANDLINE
    if named and form != "json":
        raise UsageError(f"--json and --format {form} exclude each other", hint="leave one out")
    return "json"
