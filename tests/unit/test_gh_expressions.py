"""What runs our workflows in the tests must be right itself: its expressions, and that it refuses others."""

from __future__ import annotations

from typing import Any

import pytest
from gh_expressions import Unsupported, evaluate, interpolate

CONTEXTS: dict[str, Any] = {
    "inputs": {"row": "a"},
    "vars": {},
    "secrets": {"KEY": "s"},
    "needs": {"plan": {"result": "success", "outputs": {"count": "0", "matrix": '{"include": [1]}'}}},
    "github": {"ref": "refs/heads/main"},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("inputs.row", "a"),
        ("inputs.absent", None),
        ("vars.RUNNER || 'ubuntu-24.04'", "ubuntu-24.04"),
        ("secrets.KEY && 'yes' || 'no'", "yes"),
        ("needs.plan.outputs.count != '0'", False),
        ("!cancelled() && needs.plan.result == 'success'", True),
        ("!(needs.plan.result == 'success' || cancelled())", False),
        ("fromJSON(needs.plan.outputs.matrix)", {"include": [1]}),
        ("github.ref == 'it''s'", False),
        ("true", True),
    ],
)
def test_a_value(text: str, value: object) -> None:
    assert evaluate(text, CONTEXTS, {"cancelled": lambda: False}) == value


@pytest.mark.parametrize(
    "text",
    [
        "needs.plan.outputs.misspelt",
        "needs.other.result",
        "steps.x.outputs.y",
        "contains(inputs.row, 'a')",
        "inputs.row == ",
        "inputs.row inputs.row",
        "1 + 1",
        "needs.plan == true",
        "",
    ],
)
def test_what_is_not_known_is_an_error(text: str) -> None:
    with pytest.raises(Unsupported):
        evaluate(text, CONTEXTS)


def test_an_expression_alone_keeps_its_type_and_others_become_text() -> None:
    assert interpolate("${{ fromJSON(needs.plan.outputs.matrix) }}", CONTEXTS) == {"include": [1]}
    assert interpolate("rows of ${{ inputs.row }}${{ vars.NONE }}!", CONTEXTS) == "rows of a!"
    with pytest.raises(Unsupported):
        interpolate("x ${{ needs.plan.outputs }}", CONTEXTS)
