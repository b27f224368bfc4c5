"""Tables on stdout. What reads them may end first, as `head` does; rich would then exit with 1 by itself."""

from __future__ import annotations

from rich.console import Console


class Output(Console):
    """A console that leaves it to the command line what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError
