"""Python distributions that a row adds: as a person wrote them, as they were locked, and from source."""

from __future__ import annotations

from dataclasses import dataclass

EXTRA = "@extra"
"""Ends the text of a requirement that only an extra index may answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A requirement of the row's own, as PEP 508 has it in its normal form.

    ``modules`` are imported to prove it; empty: those that the distribution itself names. ``extra``: it is of
    one of the site's extra indexes, and of no other. ``environment`` are variables that one which is compiled
    from source reads while it is, and ``needs`` are requirements of its compiling that it does not name.
    """

    requirement: str
    modules: tuple[str, ...] = ()
    extra: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        asked = EXTRA if self.extra else ""
        asked += "".join(f"[{name}={value}]" for name, value in self.environment)
        asked += "".join(f"{{{need}}}" for need in self.needs)
        return self.requirement + (f":{'+'.join(self.modules)}" if self.modules else "") + asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A distribution that the row names, as it was locked; ``modules`` are those of its Addition."""

    name: str
    version: str
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled(Added):
    """A distribution that is compiled from source for the row.

    ``sha256`` is that of its source. ``needs`` are packages of the lock that it is compiled with: what it
    requires itself, and what that requires.
    """

    sha256: str
    environment: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
