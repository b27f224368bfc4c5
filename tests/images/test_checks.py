"""Every check of the table, one test each, over the facts that the probes left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stackwright.core.model.row import Outcome, Verdict


def test_check(rule_id: str, verdict: Verdict, record_property: Callable[[str, object], None]) -> None:
    check = next(check for check in verdict.checks if check.id == rule_id)
    record_property("tier", str(check.tier))
    record_property("why", check.why)
    record_property("detail", check.detail)
    if check.outcome is Outcome.NOT_RUN:
        pytest.skip(f"tier {check.tier} was not run: {check.detail}")
    if check.outcome is Outcome.FAILED:
        pytest.fail(f"{check.detail}\nThe check is there because: {check.why}", pytrace=False)
