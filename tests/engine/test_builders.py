"""A remote builder of the site: a second engine's BuildKit, which has nothing of the first one's images."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import work_on_row
from own_engine import TINY, OwnEngine, StartEngine

from stackwright.build import row
from stackwright.build.solve import Inputs, build
from stackwright.core.errors import EngineError
from stackwright.core.model.record import Phase
from stackwright.core.model.row import Recipe
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.buildkit import builders
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = pytest.mark.engine
KEY = "fedcba9876543210" * 4
RECIPE = b"ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS final\nRUN --network=none echo made-elsewhere > /made\n"


def hand_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def serve(listener: socket.socket, path: Path) -> None:
    """An engine speaks BuildKit's protocol behind an upgrade of /grpc; a remote driver asks for none."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            inner = socket.socket(socket.AF_UNIX)
            inner.connect(str(path))
            inner.sendall(
                b"POST /grpc HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
            )
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += inner.recv(1)
            assert b" 101 " in answer
            for pair in ((client, inner), (inner, client)):
                threading.Thread(target=hand_on, args=pair, daemon=True).start()


@pytest.fixture
def remote(start_engine: StartEngine) -> Iterator[tuple[OwnEngine, str]]:
    """A second engine, and the address of a remote builder in it. Only this store of images exports them."""
    own = start_engine({"features": {"containerd-snapshotter": True}, "storage-driver": "overlayfs"})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, own.folder / "s"), daemon=True).start()
        yield own, f"tcp://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def own_builders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILDX_CONFIG", str(tmp_path / "buildx"))


def made(docker: Docker, runner: Runner, name: str, address: str) -> None:
    done = runner(docker.command("buildx", "create", "--name", name, "--driver", "remote", address))
    assert done.ok, done.stderr


@pytest.mark.long
@pytest.mark.usefixtures("own_builders")
def test_a_row_is_built_there_and_is_in_the_engine_here(
    remote: tuple[OwnEngine, str], tiny: str, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    own, address = remote
    made(docker, runner, "gone", "tcp://127.0.0.1:9")
    made(docker, runner, "farm", address)
    assert builders.answering(["gone", "farm"], docker, runner) == "farm"
    images = (("BASE_IMAGE", tiny),)
    skopeo = oci_tools.find(oci_tools.Name.SKOPEO, runner, docker, mirror=settings.apt_mirror(runner))
    (tmp_path / "handed").mkdir()
    handed = builders.contexts(images, tmp_path / "handed", docker=docker, runner=runner, skopeo=skopeo)
    engine.remove(own.docker, TINY)
    recipe = Recipe(id="built-elsewhere", key=KEY, files=(("Dockerfile", RECIPE),))
    built = build(
        recipe, tmp_path / "row",
        Inputs(images=images, options=(*builders.options("farm", "", recipe.id), *handed)),
        docker=docker, runner=runner, on_event=lambda event: None,
    )  # fmt: skip
    try:
        job = engine.Job(image=built.reference, argv=("cat", "/made"), network=False)
        assert engine.run(docker, job).stdout == "made-elsewhere\n"
        ours, base = (engine.inspect(docker, name) for name in (built.reference, tiny))
        assert ours and base and ours["RootFS"]["Layers"][0] == base["RootFS"]["Layers"][0]
        assert ours["Config"]["Labels"]["org.stackwright.key"] == KEY
    finally:
        engine.remove(docker, built.reference)


@pytest.mark.long
@pytest.mark.usefixtures("own_builders")
def test_a_run_takes_the_builder_that_the_site_names(
    remote: tuple[OwnEngine, str], docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    """From Debian's base, which only the engine here has."""
    made(docker, runner, "farm", remote[1])
    job = work_on_row.job(tmp_path / "out", "elsewhere")
    recipe = replace(job.row.recipe, key=secrets.token_hex(32), files=(("Dockerfile", RECIPE),))
    site = replace(job.site, builders=("farm",))
    job = replace(job, row=replace(job.row, recipe=recipe), site=site)
    try:
        done = row.work(job, (Phase.BASE, Phase.BUILD))
        found = engine.inspect(docker, job.reference)
        assert done.image and found and found["Id"] == done.image.id
        cat = engine.Job(image=job.reference, argv=("cat", "/made"), network=False)
        assert engine.run(docker, cat).stdout == "made-elsewhere\n"
    finally:
        engine.remove(docker, job.reference)


@pytest.mark.long
@pytest.mark.usefixtures("own_builders")
def test_where_none_answers_each_is_told_with_what_it_said(docker: Docker, runner: Runner) -> None:
    made(docker, runner, "gone", "tcp://127.0.0.1:9")
    with pytest.raises(EngineError, match=r"gone: .*; unknown: .*no builder \"unknown\" found"):
        builders.answering(["gone", "unknown"], docker, runner)


def test_a_cache_is_written_by_builders_that_can() -> None:
    assert builders.options("", "", "row") == ()
    assert builders.options("", "host/cache", "row") == ("--cache-from", "type=registry,ref=host/cache:row")
    words = builders.options("farm", "host/cache", "row")
    assert words[:3] == ("--builder", "farm", "--load")
    assert "type=registry,ref=host/cache:row,mode=max,ignore-error=true" in words
