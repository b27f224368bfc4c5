"""scripts/engine.sh against real engines. What it installs is proven by tests/e2e/bare_host.sh."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from own_engine import StartEngine

from stackwright.engines import docker as engine
from stackwright.engines.gpu import GpuAccess, NoGpu, Way, look_for_gpu
from stackwright.host.runner import Completed, Runner
from stackwright.host.site import settings

pytestmark = pytest.mark.engine

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "engine.sh"


def _engine_sh(runner: Runner, *options: str, **env: str) -> Completed:
    return runner([SCRIPT, *options], env=env, timeout=60)


def _program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_an_engine_that_answers_is_used_at_once(runner: Runner, docker: engine.Docker) -> None:
    done = _engine_sh(runner)
    assert done.ok, done.stderr
    assert done.stdout == f"engine: ready: {docker.program}, engine {docker.version}\n"


def test_check_says_what_is_missing(runner: Runner, tmp_path: Path) -> None:
    done = _engine_sh(runner, "--check", DOCKER_HOST=f"unix://{tmp_path}/nothing")
    assert done.returncode == 1
    assert done.stdout == "engine: missing: an engine that answers\n"


def test_an_unknown_option_is_refused(runner: Runner) -> None:
    done = _engine_sh(runner, "--chekc")
    assert done.returncode == 2
    assert "--check" in done.stderr


def test_an_engine_elsewhere_that_is_down_is_not_replaced(runner: Runner) -> None:
    """DOCKER_HOST names another machine's engine: installing one here would not help."""
    done = _engine_sh(runner, DOCKER_HOST="tcp://127.0.0.1:1")
    assert done.returncode == 6
    assert "next:" in done.stderr


def test_an_engine_that_is_too_old_is_refused(runner: Runner, tmp_path: Path) -> None:
    """The client is a stand-in, since no such engine can be had: it has buildx and says 20.10."""
    program = 'case "$1" in buildx) echo v0.10 ;; info) echo 20.10.24 ;; *) exit 1 ;; esac'
    _program(tmp_path / "bin", "docker", program)
    done = _engine_sh(runner, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert done.returncode == 6
    assert "20.10.24" in done.stderr
    assert "upgrade it" in done.stderr


def test_a_client_without_buildx_is_passed_over(runner: Runner, tmp_path: Path) -> None:
    bare = _program(tmp_path / "bin", "docker", 'echo "unknown command: $1" >&2; exit 1')
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = _engine_sh(runner, PATH=path)
    assert done.ok, done.stderr
    assert str(bare) not in done.stdout
    assert settings.docker_program(runner, {"PATH": path}) != str(bare)


def test_a_dry_run_changes_nothing(runner: Runner, tmp_path: Path) -> None:
    config = tmp_path / "daemon.json"
    config.write_text('{"debug": false}')
    _program(tmp_path / "bin", "nvidia-container-runtime", "exec runc")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = _engine_sh(runner, "--dry-run", PATH=path, STACKWRIGHT_DAEMON_JSON=str(config))
    assert done.ok, done.stderr
    assert "nvidia-container-runtime" in done.stdout
    assert config.read_text() == '{"debug": false}'
    assert list(tmp_path.glob("daemon.json.*")) == []


def test_the_engine_is_told_of_nvidias_runtime(
    runner: Runner, start_engine: StartEngine, tmp_path: Path
) -> None:
    """The user's settings stay, a copy of them is kept, the change is shown, and the engine has read it."""
    own = start_engine(config={"max-concurrent-downloads": 2})
    _program(tmp_path / "bin", "nvidia-container-runtime", 'exec runc "$@"')
    config = own.folder / "daemon.json"
    before = config.read_text()
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "DOCKER_HOST": own.docker.host,
        "STACKWRIGHT_DAEMON_JSON": str(config),
        "STACKWRIGHT_DOCKER_PIDFILE": str(own.folder / "pid"),
    }
    assert _engine_sh(runner, "--check", **environment).returncode == 1
    done = _engine_sh(runner, **environment)
    assert done.ok, done.stderr
    assert '+    "runtimes": {' in done.stdout
    assert json.loads(config.read_text()) == {
        **json.loads(before),
        "runtimes": {"nvidia": {"path": f"{tmp_path}/bin/nvidia-container-runtime", "args": []}},
    }
    (copy,) = own.folder.glob("daemon.json.before-stackwright.*")
    assert copy.read_text() == before
    with engine.connected(own.docker) as client:
        found = look_for_gpu(client)
    assert isinstance(found, GpuAccess), found
    assert found.way is Way.RUNTIME
    assert _engine_sh(runner, "--check", **environment).ok
    assert _engine_sh(runner, **environment).stdout.count("\n") == 1


def test_cdi_specifications_are_made(runner: Runner, start_engine: StartEngine, tmp_path: Path) -> None:
    own = start_engine()
    text = 'for last; do :; done; exec cp "$SPEC" "${last#--output=}"'
    _program(tmp_path / "bin", "nvidia-ctk", text)
    spec = tmp_path / "spec"
    spec.write_text(
        "cdiVersion: '0.5.0'\nkind: nvidia.com/gpu\n"
        "devices: [{name: all, containerEdits: {env: [GPU_MARK=cdi]}}]\n"
    )
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "DOCKER_HOST": own.docker.host,
        "SPEC": str(spec),
    }
    with engine.connected(own.docker) as client:
        assert isinstance(look_for_gpu(client), NoGpu)
        done = _engine_sh(runner, **environment)
        assert done.ok, done.stderr
        found = look_for_gpu(client)
    assert isinstance(found, GpuAccess), found
    assert found.way is Way.CDI


def test_broken_settings_are_left_alone(runner: Runner, start_engine: StartEngine, tmp_path: Path) -> None:
    own = start_engine()
    _program(tmp_path / "bin", "nvidia-container-runtime", "exec runc")
    config = tmp_path / "daemon.json"
    config.write_text('{"debug": }')
    done = _engine_sh(
        runner,
        PATH=f"{tmp_path}/bin:{os.environ['PATH']}",
        DOCKER_HOST=own.docker.host,
        STACKWRIGHT_DAEMON_JSON=str(config),
    )
    assert done.returncode == 6
    assert "not valid JSON" in done.stderr
    assert "Traceback" not in done.stderr
    assert config.read_text() == '{"debug": }'
