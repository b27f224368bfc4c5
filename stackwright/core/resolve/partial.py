"""Rules asked of a row that is still being chosen, field by field: what already clashes is not gone into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import CellRule, Ruling, weigh


class Partial:
    """``fields`` are chosen in this order; all others are those of ``rest``.

    A rule is due when the last field that it reads is chosen. It is asked once for the values that it
    reads; ``asked`` counts the questions. Rules in ``late`` wait until every field is chosen.
    """

    def __init__(
        self, rest: Cell, fields: Sequence[str], rules: Sequence[CellRule], late: Sequence[CellRule] = ()
    ) -> None:
        self.asked = 0
        self._rest, self._fields = rest, tuple(fields)
        self._known: dict[tuple[str, tuple[Any, ...]], bool] = {}
        self._due: list[list[tuple[CellRule, tuple[int, ...]]]] = [[] for _ in fields]
        for rule in (*rules, *late):
            places = tuple(sorted(self._fields.index(name) for name in rule.fields if name in self._fields))
            due = len(self._fields) - 1 if rule in late else max(places, default=0)
            self._due[due].append((rule, places))

    def clash(self, values: Sequence[Any]) -> CellRule | None:
        """Return the first rule that refuses, of those that are due at the last of the values chosen so
        far."""
        for rule, places in self._due[len(values) - 1]:
            key = (rule.name, tuple([values[place] for place in places]))
            refused = self._known.get(key)
            if refused is None:
                refused = self._known[key] = self._ask(rule, places, key[1])
            if refused:
                return rule
        return None

    def _ask(self, rule: CellRule, places: tuple[int, ...], values: tuple[Any, ...]) -> bool:
        self.asked += 1
        chosen = {self._fields[place]: value for place, value in zip(places, values, strict=True)}
        return weigh(rule, rule.ask(self._rest.changed(chosen)), self._rest.allow) in (
            Ruling.REFUSES,
            Ruling.UNKNOWN,
        )
