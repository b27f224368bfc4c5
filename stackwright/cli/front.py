"""The group of all commands: each is imported when it is asked for, and takes the options of the group too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from stackwright.core.errors import UsageError

PATH = click.Path(path_type=Path)

PLACES = {
    "matrix": "the rows  [default: $STACKWRIGHT_MATRIX, or matrix.yaml here]",
    "site": "where mirrors, registry and keys are  [default: site.yaml]",
    "out": "where everything made goes  [default: out next to the matrix]",
}
"""Options that name a file or a folder, with their help."""

VERBOSE = ("-v", "--verbose")

COMMANDS = "stackwright.cli.commands"
LATER = {
    "launch": (f"{COMMANDS}.launch", "Print what starts training over several ranks, or a tool"),
    "layer": (f"{COMMANDS}.layer", "Add packages to a finished image or .sif"),
    "publish": (f"{COMMANDS}.publish", "Push images to the site's registry by digest, and tag them"),
    "verify": (f"{COMMANDS}.verify", "Check that an image is what its row says"),
    "nightly": (f"{COMMANDS}.nightly", "Ask upstream afresh, build only what changed, prove it, report"),
    "history": (f"{COMMANDS}.nightly", "Show the history of nightly builds, or merge histories"),
    "shards": (f"{COMMANDS}.shards", "A night on several machines"),
    "ci": (f"{COMMANDS}.ci", "Write the workflows of a CI service"),
    "facts": (f"{COMMANDS}.facts", "Show how the rules' tables were obtained, or compare them"),
    "doctor": (f"{COMMANDS}.doctor", "Say what is there, what is missing and what to do"),
    "clean": (f"{COMMANDS}.clean", "Show what could be freed, then free it"),
    "init": ("stackwright.cli.start", "Write a first matrix.yaml with its lock, and site.yaml"),
    "engine": ("stackwright.cli.start", "Bring up a container engine, as scripts/engine.sh does"),
    "completion": ("stackwright.cli.completion", "Print what makes a shell complete commands and rows"),
}
"""Where a command is, as NAME_command, and its line in the list of commands: that list imports none of them."""


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
            given = [*(ctx.params[name] or ()), *(Path(one) for more in behind for one in more.get(name) or ())]
            ctx.params[name] = only_one(f"--{name}", given)
        ctx.params["verbose"] = ctx.params["verbose"] or any(more.get("verbose") is True for more in behind)
        return rest

    def _behind_command(self, ctx: click.Context, words: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield what is said after the name of each command on the line. The command reads all of it again."""
        command: click.Command | None = self
        while isinstance(command, click.Group) and words:
            command, words = command.get_command(ctx, words[0]), words[1:]
            if command is None:
                return
            inner = click.Context(command, parent=ctx, resilient_parsing=True, ignore_unknown_options=True)
            parser = command.make_parser(inner)
            values, words, _ = parser.parse_args(list(words))
            yield {name: value for name, value in values.items() if isinstance(value, list | bool)}


def only_one(option: str, given: Sequence[Path]) -> Path | None:
    """Return the value of an option that may be said twice, but not with two values."""
    different = list(dict.fromkeys(given))
    if len(different) > 1:
        raise UsageError(f"{option} is given twice: {' and '.join(map(str, different))}", hint="leave one out")
    return different[0] if different else None
