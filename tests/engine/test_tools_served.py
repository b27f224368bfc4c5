"""The real TensorBoard and the real JupyterLab in an image, served to who has the token and to no other."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from faults import harness
from rows import ROOT

from stackwright.build.sif import convert
from stackwright.core.checks import probes
from stackwright.core.checks.stranger import STRANGER
from stackwright.core.checks.tables import additions
from stackwright.core.checks.tables import tools as checks
from stackwright.core.checks.tables.declared import normal
from stackwright.core.components.table import TOOLS
from stackwright.core.model.added.distributions import Added
from stackwright.core.model.added.tools import Tool
from stackwright.core.model.row import Package, Stack
from stackwright.core.render.configuration import WITH_HOME
from stackwright.core.render.own_files import SERVE_TOOL, minor
from stackwright.core.resolve.requirements import platform
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Mount
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.probe.run import PYTHON, gather

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.xdist_group("planted-faults")]

DOCKERFILE = """
ARG BASE
FROM ${BASE}
RUN python3 -m venv /opt/stack && useradd --create-home --uid 1000 train
COPY site /opt/stack/lib/pythonMINOR/site-packages
RUN cd /opt/stack/lib/pythonMINOR/site-packages && mv share etc /opt/stack/
COPY own /tmp/own
RUN bash -euo pipefail /tmp/own/install.sh && rm -r /tmp/own
ENV PATH=/opt/stack/bin:$PATH HOME=/home/train
USER train
"""
OPEN = """
c.ServerApp.ip = "0.0.0.0"
c.ServerApp.allow_unauthenticated_access = True
c.ServerApp.allow_remote_access = True
c.IdentityProvider.token = ""
c.PasswordIdentityProvider.token = ""
c.PasswordIdentityProvider.hashed_password = "argon2:x"
"""
"""Settings of a user who wants no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The image with both tools; ``run`` is the probe in it, as an unknown user and with a read-only root."""

    docker: Docker
    runner: Runner
    image: str
    stack: Stack

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(f"tool={tool.name}" for tool in self.stack.tools)

    def start(self, *argv: str, mounts: tuple[Mount, ...] = ()) -> tuple[bool, str]:
        job = engine.Job(
            image=self.image, entrypoint=(WITH_HOME,), argv=argv, mounts=mounts, network=False, user=STRANGER,
            read_only=True,
        )  # fmt: skip
        done = engine.run(self.docker, job, timeout=400)
        return done.ok, done.stdout + done.stderr

    def probed(self, folder: Path, *more: Mount, asked: tuple[str, ...] = ()) -> dict[str, str]:
        """Return what each check that failed says; ``asked`` are more words for the probe."""
        folder.chmod(0o777)
        mounts = (
            Mount(source=harness.PROBES, target="/p"), Mount(source=folder, target="/f", read_only=False),
            *more,
        )  # fmt: skip
        ok, said = self.start(PYTHON, "-B", "/p/run.py", "/f", *self.words, *asked, mounts=mounts)
        assert ok, said
        return judged(self.stack, {"sealed": gather(folder)})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runner = Runner()
    docker = engine.find(runner)
    base = harness.base_image(docker, runner, tmp_path_factory.mktemp("base"))
    versions = {tool.name: tool.field.example for tool in TOOLS}
    context = tmp_path_factory.mktemp("context")
    stack = harness.stack_of(docker, base)
    install(runner, context / "site", stack, versions)
    stack = replace(
        stack,
        tools=tuple(Tool(name=name, version=version, port=7000) for name, version in versions.items()),
        pip=tuple(Added(name=name, version=version) for name, version in versions.items()),
        lock=replace(stack.lock, added=tuple(installed(context / "site")), compiled=()), compiled=(),
    )  # fmt: skip
    harness.write_own(context, stack)
    (context / "Dockerfile").write_text(DOCKERFILE.replace("MINOR", minor(stack)))
    name = f"stackwright/tools-{os.getpid()}:test"
    argv = docker.command("buildx", "build", "--provenance=false", "--network", "none", "--tag", name)
    done = runner([*argv, "--build-arg", f"BASE={base}", "--output", "type=docker", context], timeout=600)
    shutil.rmtree(context)
    assert done.ok, done.stderr[-3000:]
    try:
        yield Served(docker=docker, runner=runner, image=name, stack=stack)
    finally:
        runner(docker.command("image", "rm", "--force", name))


def install(runner: Runner, folder: Path, stack: Stack, versions: dict[str, str]) -> None:
    """The wheels of the index, as uv unpacks them for the Python of the image."""
    asked = [f"{name}=={version}" for name, version in versions.items()]
    done = runner(
        [settings.UV, "pip", "install", "--quiet", "--no-config", "--only-binary", ":all:",
         "--target", folder, "--python-version", minor(stack), "--python-platform", platform(stack.os),
         *asked],
        env=dict(settings.site(runner).uv), timeout=600,
    )  # fmt: skip
    assert done.ok, done.stderr


def installed(folder: Path) -> Iterator[Package]:
    """Setuptools is in every row, and none of its additions."""
    for path in sorted(folder.glob("*.dist-info")):
        name, version = path.name.removesuffix(".dist-info").split("-")
        if name != "setuptools":
            yield Package(name=normal(name), version=version)


def test_both_are_served_to_who_has_the_token_alone(served: Served, tmp_path: Path) -> None:
    assert served.probed(tmp_path) == {}
    facts = gather(tmp_path)["tool"]
    assert [facts[tool.name]["page"]["title"] for tool in TOOLS] == ["TensorBoard", "JupyterLab"]
    assert {facts[tool.name]["uid"] for tool in TOOLS} == {12345}


def test_their_wheels_are_good_additions(served: Served, tmp_path: Path) -> None:
    """Each imports, finds its libraries, and takes over no name of what an image has."""
    (word,) = probes.additions_words(served.stack)
    assert served.probed(tmp_path, asked=(word,)) == {}
    facts = gather(tmp_path)
    answers = {
        rule.id: rule.judge(served.stack, facts).problems
        for rule in additions.RULES
        if rule.id != "added.apt"
    }
    assert {name: problems for name, problems in answers.items() if problems} == {}


def test_both_are_served_from_a_sif(served: Served, tmp_path: Path) -> None:
    runner = served.runner
    apptainer = apptainers.find(runner, served.docker, mirror=settings.apt_mirror(runner))
    sif, facts = tmp_path / "tools.sif", tmp_path / "facts"
    convert.to_sif(
        served.image, sif, docker=served.docker, runner=runner, apptainer=apptainer, image_bytes=10**9
    )
    facts.mkdir()
    facts.chmod(0o777)
    mounts = (
        Mount(source=harness.PROBES, target="/p"), Mount(source=facts, target="/f", read_only=False),
    )  # fmt: skip
    argv = (WITH_HOME, PYTHON, "-B", "/p/run.py", "/f", *served.words)
    done = convert.execute(apptainer, sif, argv, mounts=mounts, timeout=400, user=STRANGER)
    sif.unlink()
    assert done.ok, done.stderr
    found = gather(facts)
    assert judged(served.stack, {"sealed": found}) == {}
    assert found["tool"]["jupyterlab"]["uid"]


def judged(stack: Stack, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what each check that failed says."""
    answers = {rule.id: rule.judge(stack, facts).problems for rule in checks.RULES}
    return {name: "; ".join(problems) for name, problems in answers.items() if problems}


def test_settings_in_the_home_open_nothing(served: Served, tmp_path: Path) -> None:
    settings_of_user, facts = tmp_path / "jupyter", tmp_path / "facts"
    facts.mkdir()
    settings_of_user.mkdir()
    (settings_of_user / "jupyter_server_config.py").write_text(OPEN)
    assert served.probed(facts, Mount(source=settings_of_user, target="/etc/jupyter")) == {}


@pytest.mark.parametrize(
    ("old", "new", "red", "says"),
    [
        ('"ServerApp.ip": asked.address', '"ServerApp.ip": "0.0.0.0"', "tool.listens",
         "JupyterLab listens on 0.0.0.0:"),
        ("server.start()", "print(token, flush=True), server.start()", "tool.token-hidden",
         "JupyterLab prints the token"),
        ('"load_fast": "false"', '"load_fast": "true"', "tool.listens", "TensorBoard listens on "),
    ],
)  # fmt: skip
def test_a_fault_in_the_server_is_seen(
    old: str, new: str, red: str, says: str, served: Served, tmp_path: Path
) -> None:
    facts, program = tmp_path / "facts", tmp_path / "serve-tool"
    facts.mkdir()
    text = (ROOT / "image" / "serve_tool.py").read_text()
    program.write_text(text.replace(old, new))
    program.chmod(0o755)
    failed = served.probed(facts, Mount(source=program, target=SERVE_TOOL))
    assert set(failed) == {red} and says in failed[red], failed


SHOWN = """
import argparse, json, os, subprocess, sys, time, urllib.request
from http.cookiejar import CookieJar
sys.path.insert(0, "/examples")
import common
class Ranks:
    def rank(self):
        return 0
given, clock = argparse.Namespace(logs="/tmp/logs"), common.EpochClock()
logs = common.Logs(given, Ranks())
for epoch in range(2):
    clock.start(); clock.stop()
    logs.epoch(epoch, clock, 1.0 / (epoch + 1))
token = "abcdefghijklmnopqrst"
environ = dict(os.environ, STACKWRIGHT_TOKEN=token)
server = subprocess.Popen(["serve-tool", "tensorboard", "/tmp/logs"], env=environ)
browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
for _ in range(120):
    time.sleep(0.5)
    try:
        browser.open("http://127.0.0.1:7000/?token=" + token).read()
        found = json.load(browser.open("http://127.0.0.1:7000/data/plugin/scalars/tags"))
    except OSError:
        continue
    if found:
        break
server.terminate()
print(json.dumps([sorted(tags) for tags in found.values()]))
"""


def test_it_shows_what_the_examples_write(served: Served) -> None:
    examples = Mount(source=ROOT / "examples", target="/examples")
    ok, said = served.start(PYTHON, "-B", "-c", SHOWN, mounts=(examples,))
    assert ok, said
    assert [["loss", "seconds"]] in [json.loads(line) for line in said.splitlines() if line[:2] == "[["]
