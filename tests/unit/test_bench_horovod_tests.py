"""What pytest said of Horovod's own tests becomes a row of a table."""

from __future__ import annotations

from bench.horovod_tests import Outcome, outcome, table


def test_the_summary_of_pytest_is_read() -> None:
    assert outcome("....s  [100%]\n57 passed, 1 skipped, 2 warnings in 4.16s") == Outcome(
        passed=57, skipped=1, failed=()
    )
    said = "FAILED x.py::Cases::test_a - assert\nERROR ../test_y.py\n1 failed, 3 passed, 1 error in 1s"
    assert outcome(said) == Outcome(passed=3, skipped=0, failed=("test_a", "../test_y.py"))


def test_a_failure_is_in_the_table() -> None:
    good, bad = Outcome(passed=3, skipped=0, failed=()), Outcome(passed=2, skipped=1, failed=("test_a",))
    assert table([("x.py", good, bad)]).splitlines()[-1] == (
        "| `x.py` | 3 passed | 2 passed, 1 skipped, failed: test_a |"
    )
