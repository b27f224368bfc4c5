"""A repository of one's own as `init` writes it: its matrix can work, and its files of CI are up to date."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from command import call
from rows import ROOT

from stackwright import __version__
from stackwright.core.errors import DriftError
from stackwright.nightly.ci import files, listing
from stackwright.nightly.ci.shards import Shard

OWN = files.files(files.OWN, own=True)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The current folder."""
    code, _, said = call(capsys, "init", str(tmp_path))
    assert code == 0, said
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_init_writes_can_work_and_is_up_to_date(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "plan", "--strict")[0] == 0
    assert call(capsys, "ci", "--check")[0] == 0
    assert {file.path for file in OWN} <= {str(path.relative_to(own)) for path in own.rglob("*")}
    assert (own / "requirements.txt").read_text().splitlines()[-1] == f"stackwright=={__version__}"


def test_a_line_that_was_edited_by_hand_is_found(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own / ".gitlab-ci.yml"
    path.write_text(path.read_text().replace("15 minutes", "1 minute"))
    code, _, said = call(capsys, "ci", "--check")
    assert code == DriftError.exit_code
    assert re.search(r"\.gitlab-ci\.yml:\d+: differs", said)
    assert call(capsys, "ci", "--gitlab")[0] == call(capsys, "ci", "--check")[0] == 0


def test_the_service_that_is_not_used_can_be_deleted(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own / ".gitlab-ci.yml").unlink()
    assert call(capsys, "ci", "--check")[0] == 0
    assert call(capsys, "ci", "--check", "--gitlab")[0] == DriftError.exit_code
    for path in (own / ".github" / "workflows").iterdir():
        path.unlink()
    code, _, said = call(capsys, "ci", "--check")
    assert (code, "no file of CI is here" in said) == (2, True)


def test_they_call_the_installed_program_and_nothing_of_a_checkout() -> None:
    night = listing.pipeline([Shard(rows=("a",), minutes=20)], own=True)
    for text in (night, *(file.text for file in OWN if file.path.endswith(".yml"))):
        assert "build.py" not in text and "make " not in text
        assert ".venv/bin/stackwright " in text


def test_each_command_is_one_of_ours_with_these_options(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that does not exist is refused before anything is done; --help comes after the options."""
    night = listing.pipeline([Shard(rows=("a",), minutes=20)], own=True)
    texts = (night, *(file.text for file in OWN if file.path.endswith(".yml")))
    lines = {line for text in texts for line in re.findall(r"\.venv/bin/stackwright ([^\n>]*)", text)}
    assert len(lines) > 6
    for line in lines - {"engine"}:  # which becomes the script that it is
        words = [word for word in line.split(" -- ")[0].replace('"', "").split() if not word.startswith("${")]
        words = [word for word in words if not word.endswith("}")]
        code, out, said = call(capsys, *words, "--help")
        assert code == 0, (line, said)
        assert all(word in out for word in words if word.startswith("--")), line


def test_the_script_that_logs_in_can_be_executed(own: Path) -> None:
    done = subprocess.run([own / "scripts" / "registry-login.sh"], env={"PATH": "/usr/bin:/bin"}, check=True)
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["matrix", "site"])
def test_an_editor_finds_the_schema_that_the_first_line_names(own: Path, name: str) -> None:
    path = own / f"{name}.yaml"
    first = path.read_text().splitlines()[0]
    schema = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert schema, first
    read = json.loads((own / schema[1]).read_text())
    jsonschema.Draft202012Validator.check_schema(read)
    jsonschema.validate(yaml.safe_load(path.read_text()), read)
    assert read == json.loads((ROOT / "docs" / schema[1]).read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"includes": []}, read)
