"""The command line, called in this process."""

from __future__ import annotations

import pytest

from stackwright.cli import main


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, what was printed, and what was said on stderr."""
    with pytest.raises(SystemExit) as leaving:
        main.main(list(arguments))
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err
