"""`build.py lock` against a package index on loopback: what it cannot find ends with an error."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_project
from command import call
from upstream_server import UpstreamServer

from stackwright.core.resolve import lockfile


def test_a_version_that_does_not_exist_is_an_error_and_the_other_rows_are_locked(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_project.write_matrix(tmp_path, {"small-a": ""})
    path = tmp_path / "matrix.yaml"
    path.write_text(path.read_text() + '  - id: small-b\n    torch: "99.0"\n')
    code, out, err = call(capsys, "--matrix", str(path), "lock", "--format", "json")
    assert code == 5
    assert "error: small-b (matrix.yaml:" in err
    assert "torch" in err.partition("error: small-b")[2].partition("next: ")[0]
    assert "./build.py plan small-b" in err.partition("next: ")[2]
    assert '"small-a"' in out
    assert lockfile.read(tmp_path / "locks" / "small-a.txt").refused == ""
    assert lockfile.read(tmp_path / "locks" / "small-b.txt").refused
