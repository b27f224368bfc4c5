"""What a history tells of how an image was made."""

from __future__ import annotations

import pytest

from stackwright.core.checks import origin


@pytest.mark.parametrize("before", ["", "/bin/sh -c #(nop) ", "/bin/sh -c #(nop)  "])
def test_instructions_of_an_engine_without_buildkit_are_read_as_any_others(before: str) -> None:
    lines = [f"{before}ENV A=1", f'{before}CMD ["bash"]', "/bin/sh -c true"]
    assert origin.most_layers(lines) == 1
