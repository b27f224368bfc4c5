"""What a SIF says of itself, by the Apptainer that makes and runs it: green as rendered, each plant named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from image_facts import docker_facts, stack

from stackwright.build.sif import convert
from stackwright.core import credentials
from stackwright.core.checks.judge import verify
from stackwright.core.checks.tables import settings
from stackwright.core.model.labels import KEY, PROVIDER, VERSION
from stackwright.core.render import configuration, dockerfile
from stackwright.engines import apptainer as apptainers
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings as host

pytestmark = [pytest.mark.engine, pytest.mark.long]
ROW = stack()
SECRET = "Vq8tGm2x-hunter2"
OURS = {rule.id for rule in settings.RULES if "sif" in rule.worlds}


def rendered() -> Iterator[str]:
    """The settings of the row's image, as instructions."""
    yield from (f'ENV {name}="{value}"' for name, value in configuration.environment(ROW).items())
    labels = {PROVIDER: ROW.provider, KEY: "5e" * 32, VERSION: "5e" * 6, **dict(dockerfile.labels(ROW))}
    yield from (f"LABEL {name}={dockerfile.dockerfile_literal(value)}" for name, value in labels.items())
    yield f"ENTRYPOINT {json.dumps(configuration.ENTRYPOINT)}"
    yield f"CMD {json.dumps(configuration.COMMAND)}"


PLANTED = (
    "ENV NCCL_P2P_DISABLE=1 NVIDIA_VISIBLE_DEVICES=void",
    f"ENV DB_PASSWORD={SECRET}",
    "LABEL maintainer=someone",
    "COPY more.sh /.singularity.d/env/50-more.sh",
    'ENTRYPOINT ["/srv/init"]',
)
RED = {
    "static.environment": ("sets NCCL_P2P_DISABLE", "'void', the row's is 'all'", "sets UCX_TLS"),
    "static.credentials": ("environment/DB_PASSWORD holds a password",),
    "static.labels": ("maintainer is not the row's",),
    "static.scripts": ("/srv/init",),
}


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=host.apt_mirror(runner))


def facts(
    folder: Path, tiny: str, lines: tuple[str, ...], apptainer: Apptainer, docker: Docker
) -> Mapping[str, Any]:
    """Of an image with these settings that was converted; all else is as in a good one."""
    runner, name, sif = apptainer.runner, f"stackwright/settings-sif:{folder.name}", folder / "x.sif"
    (folder / "more.sh").write_text("export UCX_TLS=tcp\n")
    (folder / "Dockerfile").write_text("\n".join((f"FROM {tiny}", *rendered(), *lines, "")))
    done = runner(docker.build("--load", "--tag", name, folder))
    assert done.ok, done.stderr
    convert.to_sif(name, sif, docker=docker, runner=runner, apptainer=apptainer, image_bytes=10**7)
    runner(docker.command("image", "rm", name))
    labels, scripts = convert.described(apptainer, sif)
    done = convert.execute(apptainer, sif, ("env",), mounts=(), timeout=60)
    environment = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    said = {"labels": labels, "scripts": scripts}
    found = credentials.found_in({**said, "environment": environment})
    good = {
        name: fact for name, fact in docker_facts(ROW).items() if name not in ("image", "history", "layers")
    }
    system = {**good["system"], "environment": environment}
    return {
        **good,
        **credentials.redacted(said),
        "system": credentials.redacted(system),
        "credentials": found,
    }


def test_as_rendered_it_is_green(tmp_path: Path, tiny: str, apptainer: Apptainer, docker: Docker) -> None:
    verdict = verify(ROW, facts(tmp_path, tiny, (), apptainer, docker), "sif", {})
    assert {check.id: check.detail for check in verdict.failed} == {}
    assert {check.id for check in verdict.checks} >= OURS


def test_each_plant_is_named_by_its_check(
    tmp_path: Path, tiny: str, apptainer: Apptainer, docker: Docker
) -> None:
    verdict = verify(ROW, facts(tmp_path, tiny, PLANTED, apptainer, docker), "sif", {})
    failed = {check.id: check.detail for check in verdict.failed}
    assert set(failed) == set(RED), failed
    for name, texts in RED.items():
        for text in texts:
            assert text in failed[name]
    assert SECRET not in repr(verdict)
