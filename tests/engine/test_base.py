"""The base that the debian provider makes: the same image to its id, whenever and wherever it is made."""

from __future__ import annotations

import time
from dataclasses import replace
from uuid import uuid4

import pytest
from own_engine import StartEngine

from stackwright.engines import docker as engine
from stackwright.engines.bases import debian
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


def made(docker: Docker, runner: Runner, name: str) -> str:
    mirror = settings.apt_mirror(runner)
    assert mirror
    site = replace(settings.site(runner, {}), mirror=mirror)
    means = BaseTools(docker=docker, runner=runner, site=site, say=print)
    debian._make("trixie", name, "20240102T030405Z", means, mirror)
    found = engine.inspect(docker, name)
    assert found
    assert found["Config"]["Labels"] == {"org.stackwright.provider": "debian"}
    return str(found["Id"])


def test_two_engines_make_the_same_image(docker: Docker, runner: Runner, start_engine: StartEngine) -> None:
    name = f"stackwright-test/base-{uuid4().hex[:12]}:1"
    try:
        first = made(docker, runner, name)
        files = runner(docker.command("run", "--rm", name, "find", "/usr", "-newermt", "2024-01-02 03:04:06"))
        assert files.ok and not files.stdout
    finally:
        engine.remove(docker, name)
    time.sleep(1.1)  # a time that is noted is another one
    assert made(start_engine().docker, runner, name) == first
