"""doctor and clean on real engines: what they see is there, and what is freed is ours alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from own_engine import TINY, StartEngine

from stackwright import clean, doctor
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Job
from stackwright.runner import Runner

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[2]
KEY = "0123456789ab" + "0" * 52
NAMES = [
    "engine",
    "buildx",
    "apptainer",
    "GPU runtime",
    "disk",
    "mirror",
    "CA bundle",
    "registry",
    "mmdebstrap",
    "Python",
]


def test_a_host_that_has_everything(runner: Runner) -> None:
    findings = {finding.name: finding for finding in doctor.examine(runner, ROOT)}
    assert list(findings) == NAMES
    assert [name for name, finding in findings.items() if finding.state == "missing"] == []
    assert all(finding.todo for finding in findings.values() if finding.state != "ok")


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
    findings = {finding.name: finding for finding in doctor.examine(runner, ROOT, environ)}
    assert list(findings) == NAMES
    missing = {name for name, finding in findings.items() if finding.state == "missing"}
    assert missing - {"apptainer"} == {"engine", "mirror", "CA bundle", "registry"}
    assert all(findings[name].todo for name in missing)


def _labelled(docker: Docker, runner: Runner, folder: Path, name: str, **labels: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(f"FROM {TINY}\nRUN echo {name} > /tmp/name\n")
    marked = (word for key, value in labels.items() for word in ("--label", f"org.stackwright.{key}={value}"))
    done = runner(docker.command("buildx", "build", "--network=none", *marked, "--tag", name, folder))
    assert done.ok, done.stderr


def test_images_and_containers_of_ours_are_freed_and_no_other(
    runner: Runner, start_engine: StartEngine, tmp_path: Path
) -> None:
    docker = start_engine().docker
    _labelled(docker, runner, tmp_path / "a", "stackwright/row:0123456789ab", row="row", key=KEY)
    _labelled(docker, runner, tmp_path / "b", "stackwright/row:old", row="row", key="f" * 64)
    _labelled(docker, runner, tmp_path / "c", "stackwright/gone:1", row="gone", key=KEY)
    _labelled(docker, runner, tmp_path / "d", "stackwright/used:1", row="used", key=KEY)
    _labelled(docker, runner, tmp_path / "e", "site/kept:1", row="gone", key=KEY)
    _labelled(docker, runner, tmp_path / "f", "somebody/else:1")

    with engine.started(
        docker, Job(image="stackwright/used:1", argv=("sleep", "300"), network=False)
    ) as alive:
        orphan = ("--label", f"{engine.MADE_BY_US}=4194999", "--network=none", TINY, "true")
        left = runner(docker.command("create", *orphan)).stdout.strip()
        items = clean.survey(docker, tmp_path / "out", {"row": KEY})
        named = {item.name for item in items if not item.todo}
        assert named == {"stackwright/row:old", "stackwright/gone:1", "stackwright/used:1", left}
        gone = {item.name for item in clean.free(docker, tmp_path / "out", items)}
        assert gone == named - {"stackwright/used:1"}
        assert engine.execute(docker, alive, ("true",)).ok

    for name in (
        "stackwright/row:0123456789ab",
        "stackwright/used:1",
        "site/kept:1",
        "somebody/else:1",
        TINY,
    ):
        assert engine.image_exists(docker, name), name
    assert not engine.image_exists(docker, "stackwright/row:old")
    again = clean.survey(docker, tmp_path / "out", {"row": KEY})
    assert [item.name for item in again if not item.todo] == ["stackwright/used:1"]
