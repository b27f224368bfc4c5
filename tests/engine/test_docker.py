"""Containers and images through stackwright/engines/docker.py, on the engine that answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from stackwright.core.errors import EngineError
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.host.runner import Runner

pytestmark = pytest.mark.engine


def _left(docker: Docker, runner: Runner, name: str) -> str:
    return runner(docker.command("ps", "--all", "--quiet", "--filter", f"name={name}")).stdout


def test_output_and_exit_code_are_kept_apart(docker: Docker, tiny: str) -> None:
    done = engine.run(docker, Job(image=tiny, argv=("sh", "-c", "echo out; echo err >&2; exit 7")))
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_what_cannot_start_is_told_from_what_fails(docker: Docker, tiny: str) -> None:
    absent = engine.run(docker, Job(image=tiny, argv=("no-such-program",)))
    assert absent.returncode == 127
    assert "no-such-program" in absent.stderr


def test_user_workdir_environment_and_mounts(docker: Docker, tiny: str, tmp_path: Path) -> None:
    readable, writable = tmp_path / "r", tmp_path / "w"
    readable.mkdir()
    writable.mkdir(mode=0o777)
    writable.chmod(0o777)
    (readable / "given").write_text("from the host\n")
    script = 'id -u; echo "$SAID"; cat given; echo no > /r/x; echo kept > /w/made'
    job = Job(
        image=tiny,
        argv=("sh", "-c", script),
        user="user",
        workdir="/r",
        env=(("SAID", 'as it is: $HOME "`id`'),),
        mounts=(
            Mount(source=readable, target="/r"),
            Mount(source=writable, target="/w", read_only=False),
        ),
    )
    done = engine.run(docker, job)
    assert done.ok, done.stderr
    assert done.stdout.splitlines() == ["1000", 'as it is: $HOME "`id`', "from the host"]
    assert "Read-only file system" in done.stderr
    assert (writable / "made").read_text() == "kept\n"
    assert not (readable / "x").exists()


def test_no_network(docker: Docker, tiny: str) -> None:
    listed = engine.run(docker, Job(image=tiny, argv=("ls", "/sys/class/net"), network=False))
    assert listed.stdout.split() == ["lo"]


def test_shared_memory(docker: Docker, tiny: str) -> None:
    done = engine.run(docker, Job(image=tiny, argv=("df", "-k", "/dev/shm"), shm=128 * 2**20))
    assert done.stdout.splitlines()[-1].split()[1] == str(128 * 1024)


def test_a_container_that_does_not_end_is_ended(docker: Docker, runner: Runner, tiny: str) -> None:
    name = f"stackwright-test-timeout-{os.getpid()}"
    job = Job(image=tiny, argv=("sh", "-c", "echo begun; sleep 300"), name=name)
    done = engine.run(docker, job, timeout=1)
    assert (done.returncode, done.stdout) == (124, "begun\n")
    assert "no end after 1 s" in done.stderr
    assert _left(docker, runner, name) == ""


def test_interrupting_removes_the_container(docker: Docker, runner: Runner, tiny: str) -> None:
    name = f"stackwright-test-interrupt-{os.getpid()}"
    program = (
        "from stackwright.engines import docker as d; from stackwright.host.runner import Runner;"
        f"d.run(d.find(Runner()), d.Job(image={tiny!r}, argv=('sleep', '300'), name={name!r}))"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    for _ in range(100):
        if _left(docker, runner, name):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the container was never started")
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in stderr
    assert _left(docker, runner, name) == ""


def test_a_container_for_testinfra(docker: Docker, runner: Runner, tiny: str) -> None:
    with engine.started(docker, Job(image=tiny, argv=("sleep", "300"))) as container:
        assert engine.execute(docker, container, ("id", "-un"), user="user").stdout == "user\n"
        failed = engine.execute(docker, container, ("sh", "-c", "echo e >&2; exit 3"))
        assert (failed.returncode, failed.stdout, failed.stderr) == (3, "", "e\n")
    assert runner(docker.command("inspect", container)).returncode == 1


def test_images(docker: Docker, tiny: str) -> None:
    name = f"localhost:5000/stackwright-test/copy-{os.getpid()}"
    assert not engine.image_exists(docker, name)
    engine.tag(docker, tiny, name)
    found = engine.inspect(docker, f"{name}:latest")
    assert found is not None
    assert found["Config"]["Env"] == ["PATH=/bin"]
    engine.remove(docker, name)
    engine.remove(docker, name)
    assert not engine.image_exists(docker, name)
    assert engine.image_exists(docker, tiny)


def test_layers(docker: Docker, tiny: str, tiny_tar: Path) -> None:
    (layer,) = engine.layers(docker, tiny)
    assert 0.5 < layer.size / tiny_tar.stat().st_size <= 1.0


def test_save_leaves_a_whole_archive_or_none(
    docker: Docker, runner: Runner, tiny: str, tmp_path: Path
) -> None:
    archive = engine.save(docker, runner, tiny, tmp_path / "image.tar")
    with tarfile.open(archive) as members:
        assert "manifest.json" in members.getnames()
    with pytest.raises(EngineError, match="no-such-image"):
        engine.save(docker, runner, "no-such-image:1", tmp_path / "other.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["image.tar"]


def test_no_engine_is_one_clear_error(runner: Runner, tmp_path: Path) -> None:
    environ = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nothing"}
    with pytest.raises(EngineError) as caught:
        engine.find(runner, environ)
    assert caught.value.cause == "no container engine answers"
    assert "scripts/engine.sh" in caught.value.hint
