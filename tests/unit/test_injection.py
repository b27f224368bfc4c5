"""A string that would run as a command is refused at the door: no recipe and no shell sees it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from rows import ROOT

from stackwright.cli import main

FIELDS = ("python", "gcc", "cuda", "torch", "horovod", "version", "id")
WAYS_OUT = (
    "{}; touch x",
    "$(touch x)",
    "`touch x`",
    "{}\\nRUN touch x",
    "{}' || touch x",
    "{} && touch x",
    "{}\\r",
    "-{}",
    "{}\\n%post\\n    touch x",
    "{{{{ touch }}}}",
)


def render(tmp_path: Path, field: str, value: str) -> int:
    """The exit code of `build.py render` over the shipped matrix with one value replaced."""
    text = (ROOT / "matrix.yaml").read_text()
    changed, count = re.subn(
        rf'^( *- | *|.*[{{,] )({field}: )"?([\w.-]+)"?', rf'\1\2"{value}"', text, count=1, flags=re.M
    )
    assert count == 1
    path = tmp_path / "matrix.yaml"
    path.write_text(changed.replace("select: [cuda12-torch]", "select: ['*']"))
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    with pytest.raises(SystemExit) as leaving:
        main.main(["--matrix", str(path), "--out", str(tmp_path / "out"), "render"])
    return int(leaving.value.code or 0)


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("field", FIELDS)
def test_it_is_refused_and_nothing_is_written(
    field: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = {"id": "cuda12-torch", "python": "3.13", "gcc": "13", "cuda": "12.4"}.get(field, "2.6.0")
    assert render(tmp_path, field, way.format(plain)) == 3
    error = capsys.readouterr().err
    assert re.search(rf"matrix\.yaml:\d+:\d+: .*{field}", error)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("field", "value"), [("gcc", "13"), ("torch", "2.6.0"), ("id", "cuda12-torch")])
def test_the_same_way_a_good_value_is_rendered(field: str, value: str, tmp_path: Path) -> None:
    assert render(tmp_path, field, value) == 0
    assert list((tmp_path / "out").rglob("Dockerfile"))
    assert list((tmp_path / "out").rglob("*.def"))
