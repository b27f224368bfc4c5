"""Tools of a row: servers for a browser."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as it was locked, and the port that it is served on."""

    name: str
    version: str
    port: int

    @property
    def exposed(self) -> str:
        """Return its port as an image names it."""
        return f"{self.port}/tcp"
