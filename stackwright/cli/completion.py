"""The command ``completion``: what makes a shell complete commands, options and the names of rows."""

from __future__ import annotations

import click
from click import shell_completion

from stackwright.cli.app import example
from stackwright.cli.front import NAME, VARIABLE

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", epilog=example("./build.py completion bash", "./build.py completion fish"))
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options, and the names of rows.

    For bash, put this line into ~/.bashrc: eval "$(build.py completion bash)", with the path of build.py. In
    ~/.zshrc it is the same with zsh. For fish, write it to ~/.config/fish/completions/build.py.fish
    """
    found = shell_completion.get_completion_class(shell)
    assert found, "click knows each of SHELLS"
    maker = found(context.find_root().command, {}, NAME, VARIABLE)
    click.echo(maker.source_template % maker.source_vars())
