"""Real wheels with something wrong, installed by the real step in one image: each is named by its checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from faults import harness
from faults.ledger import GOOD
from hostile_wheels import FRAMEWORK, HOSTILE, OUTSIDE, Hostile, wheel
from rows import SOURCES

from stackwright.core.checks.check import Facts
from stackwright.core.checks.tables import additions, ledger
from stackwright.core.ledger.books import Row
from stackwright.core.model.added.distributions import Added
from stackwright.core.model.row import Package, Stack
from stackwright.core.model.site import Site
from stackwright.core.render.dockerfile import as_run, environment
from stackwright.core.render.own_files import digests
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.probe.outside import read

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.xdist_group("planted-faults")]
SITE = Site(mirror=None, ca=None, pip=(), proxies=())
START = b"#!/bin/sh\n"
NOT_ASKED = ("added.apt", "added.origin", "ledger.same-files")
"""Of packages of the distribution; of modules, all of which import; of a SIF."""
JUDGES = tuple(rule for rule in (*additions.RULES, *ledger.RULES) if rule.id not in NOT_ASKED)
SHELL = 'SHELL ["/bin/bash", "-euo", "pipefail", "-c"]\n'
STEP = """\
RUN --mount=type=bind,source=wheels,target=/additions \\
    --mount=type=bind,source={list},target=/tmp/additions.txt \\
{step}
"""


def install() -> str:
    """The step that installs additions, as a rendered Dockerfile has it."""
    text = '{% import "steps/additions.j2" as a %}{{ a.install("/tmp/additions.txt", "/additions") }}'
    return as_run(environment(SOURCES).from_string(text).render())


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    docker: Docker
    runner: Runner
    folder: Path
    facts: Facts
    stack: Stack


def context(folder: Path, base: str, gcc: str) -> None:
    """The good image of the ledger with a framework in it, and one step that installs all hostile wheels."""
    (folder / "start").write_bytes(START)
    (folder / "wheels").mkdir()
    pins: dict[str, str] = {}
    made = [
        wheel("torch", FRAMEWORK, "2.6.0"),
        OUTSIDE,
        *(wheel(package.name, package.files) for package in HOSTILE),
    ]
    for file, content in made:
        (folder / "wheels" / file).write_bytes(content)
        name, version, *_ = file.split("-")
        digest = hashlib.sha256(content).hexdigest()
        pins[name.replace("_", "-")] = f"{name}=={version} --hash=sha256:{digest}\n"
    names = {package.name for package in HOSTILE}
    (folder / "torch.txt").write_text(pins["torch"])
    (folder / "outside.txt").write_text(pins["outside"])
    (folder / "hostile.txt").write_text("".join(line for name, line in pins.items() if name in names))
    good = GOOD.replace("GCC", gcc).replace("BASE_IMAGE", base).replace("\nRUN", f"\n{SHELL}RUN", 1)
    steps = [STEP.format(list=f"{name}.txt", step=install()) for name in ("torch", "hostile", "outside")]
    (folder / "Dockerfile").write_text(f"{good}{steps[0]}{steps[1]}")
    (folder / "Outside").write_text(f"{good}{steps[2]}")


def build(docker: Docker, runner: Runner, folder: Path, name: str, file: str) -> str:
    """Return what BuildKit said; its end where the build failed."""
    argv: list[str | Path] = [
        "--progress=plain",
        "--provenance=false",
        "--network=none",
        "--file",
        folder / file,
    ]
    argv += ["--tag", harness.reference(name), folder]
    done = runner(docker.command("buildx", "build", *argv), timeout=300)
    return "" if done.ok else f"{done.stdout}{done.stderr}"


def probed(docker: Docker, runner: Runner, folder: Path) -> dict[str, object]:
    job = engine.Job(
        image=harness.reference("hostile"),
        argv=("/opt/stack/bin/python", "-B", "/probes/additions.py", "/dev/stdout",
              *(package.name for package in HOSTILE)),
        mounts=(engine.Mount(source=harness.PROBES, target="/probes"),), network=False,
    )  # fmt: skip
    done = engine.run(docker, job)
    assert done.ok, done.stderr
    found: dict[str, object] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    runner, folder = Runner(), tmp_path_factory.mktemp("hostile")
    docker = engine.find(runner)
    base = harness.base_image(docker, runner, tmp_path_factory.mktemp("base"))
    stack = harness.stack_of(docker, base)
    gcc = stack.gcc.split(".")[0]
    own = harness.write_own(folder, stack)
    context(folder, base, gcc)
    try:
        assert build(docker, runner, folder, "hostile", "Dockerfile") == ""
        copied = dict.fromkeys(("/opt/ours/start", "/opt/ours/settings"), hashlib.sha256(START).hexdigest())
        row = Row(gcc=gcc, files=digests(stack, own) | copied)
        documents = read.of_image(docker, harness.reference("hostile"), SITE, row)
        facts: Facts = {
            "additions": probed(docker, runner, folder),
            "ledger": documents.ledger,
            "files": documents.files,
        }
        added = tuple(Package(name=package.name, version="1.0") for package in HOSTILE)
        stack = replace(
            stack,
            compiled=(),
            pip=tuple(Added(name=package.name, version="1.0") for package in HOSTILE),
            lock=replace(stack.lock, packages=(*stack.lock.packages, *added), added=added),
        )
        yield Built(docker=docker, runner=runner, folder=folder, facts=facts, stack=stack)
    finally:
        harness.remove_all(docker, runner, ["hostile", "outside"])


def details(built: Built) -> dict[str, str]:
    return {rule.id: "; ".join(rule.judge(built.stack, built.facts).problems) for rule in JUDGES}


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_each_is_named_by_its_check(hostile: Hostile, built: Built) -> None:
    found = details(built)
    for check, says in hostile.red.items():
        assert says in found[check], found


def test_no_other_check_has_a_word_about_them(built: Built) -> None:
    meant = {check for package in HOSTILE for check in package.red}
    assert {check: said for check, said in details(built).items() if said and check not in meant} == {}


def test_a_file_for_another_folder_of_the_system_is_refused_by_the_step(built: Built) -> None:
    said = build(built.docker, built.runner, built.folder, "outside", "Outside")
    assert "outside-1.0-py3-none-any.whl" in said and "outside the target directory" in said, said[-2000:]
