"""The cheapest row that no rule refuses: exact, by branch and bound over the fields of a row.

Whenever a value is chosen, the values of each field that is still open are narrowed to those that no rule
refuses with the values chosen so far. The cheapest of them bound what a row can cost from there on. What
was narrowed is kept for later rows: it depends on no more than the values that rules read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import CellRule, Ruling, weigh

Choices = tuple[tuple[Any, float], ...]
"""Values of a field, each with its cost, the cheapest first."""

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Narrows a field once all fields up to some depth are chosen: by the rules that are due then.

    ``places`` are those of all fields that narrowed it so far. ``known`` has, by the choices that there were
    at first, those that are left with the values at these places.
    """

    rules: tuple[tuple[CellRule, tuple[int, ...], dict[Values, bool]], ...]
    places: tuple[int, ...]
    known: dict[Choices, dict[Values, Choices]] = field(default_factory=dict)


class Rules:
    """Some rules in the order of some fields, with every answer that they gave. ``asked`` counts these."""

    def __init__(self, fields: Sequence[str], rules: Sequence[CellRule], allowed: tuple[str, ...]) -> None:
        self.fields, self.asked, self._allowed = tuple(fields), 0, allowed
        answers: dict[str, dict[Values, bool]] = {rule.name: {} for rule in rules}
        stages = [self._stages(place, rules, answers) for place in range(len(self.fields))]
        self._at = [
            [[stage for depth, stage in sorted(every.items()) if depth <= now] for every in stages]
            for now in range(-1, len(self.fields))
        ]

    def _stages(
        self, place: int, rules: Sequence[CellRule], answers: Mapping[str, dict[Values, bool]]
    ) -> dict[int, Stage]:
        """By the depth from which on it applies; -1 is before anything is chosen."""
        due: dict[int, list[tuple[CellRule, tuple[int, ...], dict[Values, bool]]]] = {}
        for rule in rules:
            places = tuple(self.fields.index(name) for name in rule.fields)
            if max(places) == place:
                depth = max((other for other in places if other != place), default=-1)
                due.setdefault(depth, []).append((rule, places, answers[rule.name]))
        stages: dict[int, Stage] = {}
        read: set[int] = set()
        for depth in sorted(due):
            read |= {other for _, places, _ in due[depth] for other in places if other != place}
            stages[depth] = Stage(tuple(due[depth]), tuple(sorted(read)))
        return stages

    def left(self, place: int, choices: Choices, values: Sequence[Any], rest: Cell) -> Choices:
        """Return the choices of a field that no rule refuses together with the values chosen so far."""
        return self._left(self._at[len(values)][place], place, choices, values, rest)

    def _left(
        self, stages: list[Stage], place: int, choices: Choices, values: Sequence[Any], rest: Cell
    ) -> Choices:
        if not stages:
            return choices
        stage = stages[-1]
        kept = stage.known.get(choices)
        if kept is None:
            kept = stage.known[choices] = {}
        key = tuple([values[place] for place in stage.places])
        known = kept.get(key)
        if known is None:
            before = self._left(stages[:-1], place, choices, values, rest)
            known = kept[key] = tuple(
                choice for choice in before if self._fits(stage, place, choice[0], values, rest)
            )
        return known

    def _fits(self, stage: Stage, place: int, value: Any, values: Sequence[Any], rest: Cell) -> bool:
        for rule, places, kept in stage.rules:
            key = tuple([value if index == place else values[index] for index in places])
            refused = kept.get(key)
            if refused is None:
                refused = kept[key] = self._ask(rule, key, rest)
            if refused:
                return False
        return True

    def _ask(self, rule: CellRule, values: Values, rest: Cell) -> bool:
        self.asked += 1
        cell = rest.changed(dict(zip(rule.fields, values, strict=True)))
        return weigh(rule, rule.ask(cell), self._allowed) in (Ruling.REFUSES, Ruling.UNKNOWN)


class Search:
    """``choices`` are in the order of the rules' fields."""

    def __init__(self, rest: Cell, choices: Sequence[Choices], rules: Rules) -> None:
        self.visited = 0
        self._rest, self._choices, self._rules = rest, choices, rules
        self._best: Values | None = None
        self._cost = float("inf")

    def best(self) -> Cell | None:
        """Return the cheapest row, or None where every row is refused."""
        if self._bound([], 0.0) is not None:
            self._go([], 0.0)
        if self._best is None:
            return None
        return self._rest.changed(dict(zip(self._rules.fields, self._best, strict=True)))

    def _bound(self, values: Sequence[Any], cost: float) -> float | None:
        """Return what a row with these values costs at least; None where there is none, or no cheaper one."""
        for place in range(len(values), len(self._choices)):
            choices = self._rules.left(place, self._choices[place], values, self._rest)
            if not choices:
                return None
            cost += choices[0][1]
            if cost >= self._cost:
                return None
        return cost

    def _go(self, values: list[Any], cost: float) -> None:
        place = len(values)
        if place == len(self._choices):
            self._best, self._cost = tuple(values), cost
            return
        ways: list[tuple[float, int, Any, float]] = []
        for rank, (value, more) in enumerate(
            self._rules.left(place, self._choices[place], values, self._rest)
        ):
            if cost + more >= self._cost:
                break
            values.append(value)
            bound = self._bound(values, cost + more)
            values.pop()
            if bound is not None:
                ways.append((bound, rank, value, cost + more))
        for bound, _, value, spent in sorted(ways, key=lambda way: way[:2]):
            if bound >= self._cost:
                return
            self.visited += 1
            values.append(value)
            self._go(values, spent)
            values.pop()
