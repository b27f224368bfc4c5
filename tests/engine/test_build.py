"""A solve on the real engine: steps and times, a failure explained, the site's settings gone, work kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from stackwright.build.solve import Built, Inputs, build
from stackwright.core.errors import BuildError
from stackwright.core.model.row import Recipe
from stackwright.core.model.site import Secret
from stackwright.core.render.dockerfile import reference
from stackwright.engines import docker as engine
from stackwright.engines.buildkit.progress import Event
from stackwright.engines.docker import Docker
from stackwright.host.files import row_lock
from stackwright.host.runner import Runner

Solve = Callable[..., Built]


def recipe(dockerfile: str, salt: str) -> Recipe:
    text = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}} AS final\nENV SALT={salt}\n{dockerfile}"
    return Recipe(id="build-test", key=f"{abs(hash(text)):064x}"[:64], files=(("Dockerfile", text.encode()),))


@pytest.fixture
def solve(docker: Docker, runner: Runner, tiny: str, tmp_path: Path) -> Solve:
    salt = uuid4().hex  # the engine remembers the steps of yesterday's tests

    def run(
        dockerfile: str,
        *,
        secrets: tuple[Secret, ...] = (),
        proxies: tuple[tuple[str, str], ...] = (),
        events: list[Event] | None = None,
    ) -> Built:
        made = recipe(dockerfile, salt)
        seen = events if events is not None else []
        return build(
            made, tmp_path / "out",
            Inputs(images=(("BASE_IMAGE", tiny),), secrets=secrets, proxies=proxies),
            docker=docker, runner=runner, on_event=seen.append,
        )  # fmt: skip

    return run


def test_a_builder_that_somebody_has_chosen_is_not_asked(
    solve: Solve, docker: Docker, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it builds is not in the engine, where the row is probed."""
    monkeypatch.setenv("BUILDX_CONFIG", str(tmp_path / "buildx"))
    chosen = ("create", "--name", "chosen", "--driver", "remote", "--use", "tcp://127.0.0.1:9")
    assert runner(docker.command("buildx", *chosen)).ok
    assert engine.inspect(docker, solve("RUN echo built-here\n").reference)


def test_a_solve_ends_with_an_image_steps_and_a_log(solve: Solve, docker: Docker) -> None:
    events: list[Event] = []
    built = solve("RUN echo a-line-of-output && sleep 1\n", events=events)
    found = engine.inspect(docker, built.reference)
    assert found
    assert found["Config"]["Labels"]["org.stackwright.key"]
    (step,) = [step for step in built.steps if "a-line-of-output" in step.name]
    assert 1.0 <= step.seconds < 20
    assert "a-line-of-output" in built.log.read_text()
    assert {"started", "done", "log"} <= {event.kind for event in events}


def test_a_failed_step_is_named_with_its_last_lines(solve: Solve) -> None:
    with pytest.raises(BuildError) as failure:
        solve("RUN echo first; echo the-last-words; exit 3\n")
    message = str(failure.value)
    assert "exit code: 3" in message
    assert "the-last-words" in message
    assert "RUN echo first" in message
    assert "build.log" in message


def test_the_line_that_reproduces_an_unknown_failure_does_so(solve: Solve, runner: Runner) -> None:
    with pytest.raises(BuildError) as failed:
        solve("RUN echo first; exit 3\n")
    assert failed.value.failure and failed.value.failure.log
    (line,) = re.findall(r"docker build --target final .*", failed.value.hint)
    assert failed.value.failure.log.read_text().endswith(f"--- to reproduce it: {line}\n")
    done = runner(["bash", "-c", line], timeout=60)
    assert not done.ok and "exit code: 3" in done.stderr


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("tar: x: Cannot write: No space left on device", "the disk is full"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED]", "certificate"),
        ('error: #error "You need C++17 to compile PyTorch"', "C++17"),
    ],
)
def test_a_known_cause_is_told_with_what_to_change(solve: Solve, said: str, cause: str) -> None:
    with pytest.raises(BuildError) as failure:
        solve(f"RUN echo '{said}' >&2; exit 1\n")
    assert cause in failure.value.cause
    assert failure.value.hint


def test_a_password_that_a_step_prints_is_not_in_the_log(solve: Solve, tmp_path: Path) -> None:
    with pytest.raises(BuildError):
        solve("RUN echo password=Vq8tGm2xHunter2; exit 3\n")
    (log,) = tmp_path.rglob("build.log")
    assert "[redacted: password]" in log.read_text()
    assert "Vq8tGm2xHunter2" not in log.read_text()


def test_a_dockerfile_that_cannot_be_read_is_a_build_error(solve: Solve) -> None:
    with pytest.raises(BuildError, match="unknown instruction"):
        solve("NONSENSE here\n")


def test_a_secret_reaches_the_step_and_stays_out_of_the_image(
    solve: Solve, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    (tmp_path / "ca").write_text("a-private-certificate")
    built = solve(
        "RUN --mount=type=secret,id=ca cat /run/secrets/ca | wc -c && test -s /run/secrets/ca\n",
        secrets=(Secret(id="ca", path=tmp_path / "ca"),),
    )
    archive = engine.save(docker, runner, built.reference, tmp_path / "image.tar")
    assert b"a-private-certificate" not in archive.read_bytes()
    history = " ".join(layer.created_by for layer in engine.layers(docker, built.reference))
    assert "a-private-certificate" not in history


def test_a_proxy_reaches_the_step_and_stays_out_of_the_image(
    solve: Solve, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    address = "http://someone:a-password@proxy.example:3128"
    seen = f'RUN test "$(echo "$http_proxy" | wc -c)" -eq {len(address) + 1}'
    built = solve(f"{seen} && touch /with\n", proxies=(("http_proxy", address),))
    archive = engine.save(docker, runner, built.reference, tmp_path / "image.tar")
    assert b"a-password" not in archive.read_bytes()
    with pytest.raises(BuildError):
        solve(f"{seen} && touch /without\n")


def test_finished_steps_are_kept_after_a_failure(solve: Solve) -> None:
    slow = "RUN echo slow > /tmp/slow && sleep 1\n"
    with pytest.raises(BuildError):
        solve(slow + "RUN exit 1\n")
    built = solve(slow + "RUN exit 0\n")
    (step,) = [step for step in built.steps if "echo slow" in step.name]
    assert step.cached


def test_two_runs_on_one_row_wait_for_each_other(tmp_path: Path) -> None:
    said: list[str] = []
    order: list[str] = []

    def other() -> None:
        with row_lock(tmp_path, said.append):
            order.append("second")

    with row_lock(tmp_path, said.append):
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.3)
        order.append("first")
    thread.join(timeout=5)
    assert order == ["first", "second"]
    assert "another run" in said[0]


HOLDER = """
import sys, time
from pathlib import Path
from uuid import uuid4
from stackwright.host.files import row_lock
with row_lock(Path(sys.argv[1]), print):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_run_that_was_killed_holds_no_row(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        os.kill(child.pid, signal.SIGKILL)
    said: list[str] = []
    with row_lock(tmp_path, said.append):
        assert said == []


@pytest.fixture(autouse=True)
def _no_image_is_left(docker: Docker) -> object:
    yield
    with engine.connected(docker) as client:
        for image in client.images.list(name=reference(recipe("", "")).split(":")[0]):
            client.images.remove(str(image.id), force=True)
