"""Exit codes are distinct, and the same in the docs and in --help."""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

import pytest
from rows import ROOT

from stackwright.cli import entry
from stackwright.cli.main import cli, main
from stackwright.core.errors import EXIT_INTERRUPTED, StackwrightError
from stackwright.host.defects import internal_error
from stackwright.host.runner import Runner

OTHERS = {0: "done", 130: "interrupted", 141: "the program that read the output ended first, as `head` does"}


def kinds(kind: type[StackwrightError] = StackwrightError) -> list[type[StackwrightError]]:
    """All kinds but the base, which is never raised. Errors that a module catches itself are no kinds."""
    known = (sub for sub in kind.__subclasses__() if sub.__module__ == kind.__module__)
    return [error for sub in known for error in (sub, *kinds(sub))]


def documented(text: str, pattern: str) -> dict[int, str]:
    return {int(code): meaning for code, meaning in re.findall(pattern, text, re.MULTILINE)}


def test_each_kind_of_failure_has_its_own_code_and_meaning() -> None:
    codes = [kind.exit_code for kind in kinds()]
    assert len(set(codes)) == len(codes)
    assert not OTHERS.keys() & set(codes)
    assert (entry.INTERRUPTED, EXIT_INTERRUPTED) == (130, 130)
    assert len({kind.meaning for kind in kinds()}) == len(codes)
    assert sorted(codes) == list(range(1, len(codes) + 1)), "without gaps, so that the next one is known"


def test_the_docs_list_every_code() -> None:
    table = documented((ROOT / "docs" / "cli.md").read_text(), r"^\| (\d+) \| (.+) \|$")
    assert table == {kind.exit_code: kind.meaning for kind in kinds()} | OTHERS


def test_the_help_lists_every_code() -> None:
    assert cli.epilog
    table = documented(cli.epilog, r"^ +(\d+)  (.+)$")
    assert table == {kind.exit_code: kind.meaning for kind in kinds()} | OTHERS


def test_a_defect_is_one_message_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        raise KeyError("x")
    except KeyError as defect:
        error = internal_error(defect)
    assert str(error).startswith("internal error: KeyError: 'x'\n  next: please report it, with ")
    (file,) = tmp_path.iterdir()
    assert "Traceback" in file.read_text()


def test_a_password_in_an_error_or_a_command_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    log = io.StringIO()
    Runner(show=True, log=log)(["echo", "--password=Vq8tGm2xHunter2"])
    assert "[redacted" in log.getvalue()
    assert "Vq8tGm2xHunter2" not in log.getvalue()

    with pytest.raises(SystemExit):
        main(["password=Vq8tGm2xHunter2"])
    said = capsys.readouterr().err
    assert "[redacted" in said
    assert "Vq8tGm2xHunter2" not in said


def test_a_message_says_cause_place_and_next_step() -> None:
    error = StackwrightError("it broke", place="here", hint="mend it")
    assert str(error) == "here: it broke\n  next: mend it"
