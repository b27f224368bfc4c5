"""The names of all rules, as --allow knows them."""

from __future__ import annotations

from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.table import CELL_RULES

NAMES = (
    *(rule.name for rule in CELL_RULES),
    *(rule.name for rule in LOCK_RULES),
    *(rule.name for rule in EXTRA_RULES),
)
