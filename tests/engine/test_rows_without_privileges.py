"""Small rows by buildah in a container without privileges. `make unprivileged` starts such containers."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import bundled_row
import pytest
import small_project
from nightly_on_rows import project, work
from rich.console import Console
from upstream_server import UpstreamServer

from stackwright.build import doctor, phases, rows
from stackwright.build.job import Request
from stackwright.core.errors import EngineError
from stackwright.core.model.night import State
from stackwright.core.model.record import Phase
from stackwright.core.model.row import Lock, World
from stackwright.engines import docker as engine
from stackwright.engines.buildah import confined
from stackwright.engines.buildah.confined import Place
from stackwright.engines.docker import Docker
from stackwright.host.project import cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.nightly.upstream import Upstream, fresh_locks
from stackwright.probe import site_leaks
from stackwright.probe.outside import layers
from stackwright.records import files as files_of_records

pytestmark = [pytest.mark.engine, pytest.mark.unprivileged]

MESSAGE = "no container can be started here, so that nothing is proven"
NO_ENGINE = 6
OF_PIP = "/certifi/cacert.pem"
"""Authorities that pip of the distribution brings along; some are in a host's bundle alone otherwise."""


@pytest.fixture(autouse=True)
def place(runner: Runner, docker: Docker) -> Place:
    """Where the tests run, which is nowhere else than in such a container."""
    found = confined.look(runner, os.environ)
    assert found and docker.builder and not Path("/var/run/docker.sock").exists(), "make unprivileged"
    assert not any(lack.stops for lack in confined.lacking(found))
    return found


@pytest.fixture
def root(tmp_path: Path, docker: Docker, tiny: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(phases, "BUILD_NEEDS", 10**9)  # small rows
    engine.tag(docker, tiny, small_project.BASE)
    yield small_project.make(tmp_path / "project", uuid4().hex)
    forget(docker, "/small-")


def forget(docker: Docker, part: str) -> None:
    with engine.connected(docker) as client:
        for image in client.images.list():
            if any(part in name for name in image.tags):
                client.images.remove(str(image.id), force=True)


def files(docker: Docker, runner: Runner, image: str) -> set[str]:
    """Every path of an image, of which no file may hold what a site alone knows."""
    found = engine.inspect(docker, image)
    assert found
    site = settings.site(runner)
    left = site_leaks.facts(docker, image, site)["left"]
    assert [found for found in left if not found["path"].endswith(OF_PIP)] == []
    read = layers.read(docker, image, found, site_leaks.search(site))
    return {entry.path for layer in read for entry in layer.layer.entries}


def test_small_rows_are_built_and_probe_says_what_stops_it(
    root: Path, place: Place, upstream: UpstreamServer, docker: Docker, runner: Runner
) -> None:
    small, site = project(root), settings.site(runner)
    asked = Upstream(site=site, runner=runner, kept=small.out / "cache", digest=str, same_night=0)
    answers = fresh_locks(asked, cells(small))
    planned = plan(
        small, cells(small), {row: lock for row, lock in answers.items() if isinstance(lock, Lock)}
    )

    def worked(*names: Phase) -> rows.Session:
        request = Request(phases=names)
        return rows.work_rows(small, planned, request, site=site, runner=runner, console=Console(stderr=True))

    built = worked(Phase.BASE, Phase.BUILD)
    assert built.failed == () and len(built.records) == len(small_project.ROWS)
    for record in built.records:
        assert record.image
        assert {"/wheel", "/row.json"} <= files(docker, runner, record.image.reference)
    if place.hidden:
        failed = worked(Phase.BASE, Phase.BUILD, Phase.PROBE_DOCKER).errors
        assert [error.exit_code for error in failed] == [NO_ENGINE] * len(small_project.ROWS)
        assert all(isinstance(error, EngineError) and MESSAGE in error.cause for error in failed)
    else:
        assert [row.state for row in work(root).rows] == [State.UNCHANGED] * len(small_project.ROWS)
        newest = files_of_records.newest(files_of_records.load_all(small.records).records)
        verdicts = [record.verdict(World.DOCKER) for record in newest]
        assert len(verdicts) == len(small_project.ROWS)
        assert all(verdict and verdict.checks and not verdict.failed for verdict in verdicts)


def test_packages_of_the_distribution_and_a_wheel_are_installed_by_the_command_line(
    tmp_path: Path, place: Place, docker: Docker, runner: Runner
) -> None:
    """On a base that is made here, with certificates and mirror as secrets of the build."""
    repository = bundled_row.repository(tmp_path / "repository", python=True)
    try:
        done = bundled_row.build_py(repository, "build", bundled_row.ROW, environ=os.environ)
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = (repository / "out" / "records").rglob("*.json")
        found = files(docker, runner, json.loads(path.read_text())["image"]["reference"])
        assert "/usr/bin/patch" in found
        assert any(re.search(r"/opt/stack/lib/.*/setuptools/__init__\.py", name) for name in found)
        done = bundled_row.build_py(repository, "probe", bundled_row.ROW, environ=os.environ)
        assert done.returncode == (NO_ENGINE if place.hidden else 0), done.stderr
        if place.hidden:
            assert MESSAGE in done.stderr
            assert docker.host in done.stderr and "procMount: Unmasked" in done.stderr
    finally:
        forget(docker, f"/{bundled_row.ROW}:")


def test_doctor_says_what_this_place_is(place: Place, docker: Docker, runner: Runner, tmp_path: Path) -> None:
    findings = {finding.name: finding for finding in doctor.examine(runner, tmp_path, os.environ)}
    said = findings["without root"]
    assert "of a container without privileges, who builds by chroot" in said.seen
    assert ("no container starts" in said.seen) == ("procMount" in said.todo) == bool(place.hidden)
    assert findings["engine"].seen.startswith(docker.title)
    assert findings["builder"].seen.startswith("buildah version ")
    assert socket.gethostname() not in said.seen
