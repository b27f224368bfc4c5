"""The names of all rules, as --allow knows them."""

from __future__ import annotations

from stackwright.rules.cell import CELL_RULES
from stackwright.rules.extra import EXTRA_RULES
from stackwright.rules.lock import LOCK_RULES

NAMES = (
    *(rule.name for rule in CELL_RULES),
    *(rule.name for rule in LOCK_RULES),
    *(rule.name for rule in EXTRA_RULES),
)
