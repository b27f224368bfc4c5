"""Who may write, and what runs as another user: the modes of all names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stackwright.core.ledger.books import Books
from stackwright.core.ledger.declared import MODES, MODES_OF_A_DEFINITION, PRIVATE, Mode
from stackwright.core.ledger.entry import Entry, Kind
from stackwright.core.ledger.judges import Problem, problem
from stackwright.core.model.row import World

GROUP_OR_WORLD, SPECIAL, SETUID_OR_SETGID = 0o022, 0o7000, 0o6000


def runs_as_another(entry: Entry) -> bool:
    """Return whether it gives its user rights that the user lacks."""
    return entry.kind is Kind.FILE and (entry.mode & SETUID_OR_SETGID != 0 or entry.capability)


def odd_mode(entry: Entry, books: Books) -> Problem | None:
    if entry.kind is Kind.LINK:
        return None
    known = (*MODES_OF_A_DEFINITION, *MODES) if books.row.world is World.DEFINITION else MODES
    exception = next((mode for mode in known if mode.path.fullmatch(entry.path)), None)
    problems = list(_odd(entry, exception, books.names))
    return problem("modes", entry, " and ".join(problems)) if problems else None


def _odd(entry: Entry, exception: Mode | None, names: Mapping[str, Mapping[int, str]]) -> Iterator[str]:
    owner, group = (
        names["passwd"].get(entry.uid, str(entry.uid)),
        names["group"].get(entry.gid, str(entry.gid)),
    )
    wanted = (exception.owner, exception.group) if exception else ("root", "root")
    if not (re.fullmatch(wanted[0], owner) and re.fullmatch(wanted[1], group)):
        yield f"belongs to {owner}:{group}"
    if entry.capability:
        yield "has capabilities"
    if exception and exception.modes:
        if entry.mode not in exception.modes:
            yield f"has the mode {entry.mode:04o} and not {exception.modes[0]:04o}"
        return
    if entry.mode & SPECIAL:
        special = {0o4000: "setuid", 0o2000: "setgid", 0o1000: "sticky"}
        yield "is " + " and ".join(name for bit, name in special.items() if entry.mode & bit)
    if entry.mode & GROUP_OR_WORLD:
        yield f"can be written by {'everyone' if entry.mode & 0o002 else f'the group {group}'}"
    needed = 0o555 if entry.kind is Kind.FOLDER else 0o444
    if entry.mode & needed != needed and not PRIVATE.fullmatch(entry.path):
        yield f"cannot be read by everyone ({entry.mode:04o})"
