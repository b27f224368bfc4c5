"""Tables on stdout. What reads them may end first, as `head` does; rich would then exit with 1 by itself."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table


class Output(Console):
    """A console that leaves it to the command line what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError


NAME = 30
"""Columns that a name is given in any case: half of a narrow terminal."""


def name_column(table: Table, heading: str, names: Iterable[str]) -> None:
    """Add the column of the names of rows, which stay whole where a terminal is narrow: the others fold."""
    longest = max(map(len, names), default=0)
    table.add_column(heading, overflow="fold", no_wrap=longest <= NAME, min_width=min(longest, NAME))
