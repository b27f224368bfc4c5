"""With what a distribution is compiled: its variables, and those packages of the lock that it requires."""

from __future__ import annotations

from collections.abc import Iterable

from stackwright.core.components.shared import sources
from stackwright.core.config.additions import name
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.added.image import Variable
from stackwright.core.model.row import Lock


def environment(
    which: str, wanted: Iterable[Addition], shared: Iterable[Variable] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the variables that its build reads: those of all builds of the row, those that are known, and
    those that the row has for it."""
    found = {variable.name: variable.value for variable in shared} | dict(sources.of(which).environment)
    for addition in wanted:
        found |= dict(addition.environment) if name(addition) == which else {}
    return tuple(sorted(found.items()))


def build_needs(which: str, lock: Lock) -> tuple[str, ...]:
    """Return the packages of the lock that it names, to be compiled or to run, and what those require.

    What nothing of it names is not there while it is compiled: another package of the row compiles nothing
    anew.
    """
    present = {package.name for package in (*lock.packages, *lock.builders)}
    found = set(dict(lock.needs).get(which, ()))
    while more := {needed for needed, askers in lock.asked_by if found & set(askers)} - found:
        found |= more
    return tuple(sorted((found & present) - {package.name for package in lock.compiled}))
