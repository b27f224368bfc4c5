"""doctor on a real host: what it reports is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackwright.build import doctor
from stackwright.host.runner import Runner

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[2]
KEY = "0123456789ab" + "0" * 52
NAMES = [
    "engine",
    "builder",
    "without root",
    "apptainer",
    "GPU runtime",
    "disk",
    "mirror",
    "CA bundle",
    "registry",
    "mmdebstrap",
    "platforms",
    "Python",
]


def test_a_host_that_has_everything(runner: Runner) -> None:
    findings = {finding.name: finding for finding in doctor.examine(runner, ROOT / "out", os.environ)}
    assert list(findings) == NAMES
    assert [name for name, finding in findings.items() if finding.state == "missing"] == []
    assert all(finding.todo for finding in findings.values() if finding.state != "ok")


@pytest.mark.long
def test_a_host_that_lacks_all_that_can_be_taken_away(runner: Runner, tmp_path: Path) -> None:
    """Each state is seen to change with the thing itself: no engine, no mirror, no usable certificates."""
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate\n")
    environ = {
        **os.environ,
        "DOCKER_HOST": f"unix://{tmp_path}/nothing",
        "STACKWRIGHT_APT_MIRROR": "http://127.0.0.1:9/debian",
        "STACKWRIGHT_CA_BUNDLE": str(empty),
        "STACKWRIGHT_REGISTRY": "127.0.0.1:9/images",
        "STACKWRIGHT_REGISTRY_PLAIN": "1",
    }
    findings = {finding.name: finding for finding in doctor.examine(runner, ROOT / "out", environ)}
    assert list(findings) == NAMES
    missing = {name for name, finding in findings.items() if finding.state == "missing"}
    assert missing - {"apptainer"} == {"engine", "mirror", "CA bundle", "registry"}
    assert all(findings[name].todo for name in missing)
