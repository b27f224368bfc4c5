"""Every source of the base that the head of a definition file can be given, with heads as they are rendered.

The stages are empty, so that each takes seconds; tests/engine/test_definition_build.py fills them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rows import ROOT

from stackwright.build.sif import convert, from_definition
from stackwright.core.model.site import Site
from stackwright.core.render.definition import file_name, render_definition
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.host.project import Project, cells, plan, sources
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = [pytest.mark.engine, pytest.mark.long]
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.nvidia.yaml", out=ROOT / "out")
HEAD = re.compile(r"^Bootstrap: .*\n(?:.+\n)*\n%arguments\n(?:    .*\n)+", re.MULTILINE)
FILES = "\n%files from frameworks\n    /etc/passwd /of-frameworks\n"


def heads() -> str:
    """The stages of a row with all of them: NVIDIA's image beside the base."""
    row = plan(PROJECT, cells(PROJECT, ["cuda12-ubuntu"])).rows[0].stack
    found = HEAD.findall(render_definition(row, sources(PROJECT)).text(file_name(row)))
    stages = [re.findall(r"^Stage: (\S+)$", head, re.MULTILINE)[0] for head in found]
    assert stages == ["cuda", "frameworks", "horovod-wheel", "final"]
    return "\n".join(found) + FILES


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=settings.apt_mirror(runner))


@pytest.fixture
def folder(tiny: str, runner: Runner, docker: Docker, apptainer: Apptainer, tmp_path: Path) -> Path:
    """A definition file, and the tiny image as an archive and as a SIF beside it."""
    (tmp_path / "heads.def").write_text(heads())
    engine.save(docker, runner, tiny, tmp_path / "tiny.tar")
    apptainer.build(tmp_path / "tiny.sif", f"docker-archive:{tmp_path / 'tiny.tar'}")
    return tmp_path


def build(apptainer: Apptainer, folder: Path, agent: str, base: str) -> None:
    """As an ordinary user, in the way that ``--from def`` does it."""
    assert apptainer.docker
    given = (f"BOOTSTRAP={agent}", f"BASE_IMAGE={base}", f"CUDA_IMAGE={base}")
    words = [word for value in given for word in ("--build-arg", value)]
    site = Site(mirror=None, ca=None, pip=(), proxies=())
    made = folder / "made.sif"
    done = from_definition._in_container(
        apptainer.docker, site, folder, made, ("--no-https", *words, "heads.def")
    )
    assert done.ok, done.stdout
    found = apptainer.exec(made, ("cat", "/of-frameworks")).stdout
    assert found.splitlines()[:1] == ["root:x:0:0:root:/:/bin/sh"]
    labels = convert.labels(apptainer, made)
    told = [labels[f"org.label-schema.usage.singularity.deffile.{name}"] for name in ("bootstrap", "from")]
    assert told == [agent, base]


@pytest.mark.parametrize(("agent", "base"), [("localimage", "tiny.sif"), ("docker-archive", "tiny.tar")])
def test_a_file_beside_it(agent: str, base: str, apptainer: Apptainer, folder: Path) -> None:
    build(apptainer, folder, agent, base)


def test_a_sif_in_a_registry(apptainer: Apptainer, folder: Path, registry: str) -> None:
    options = ("--no-https", "--allow-unsigned")
    done = apptainer("push", *options, folder / "tiny.sif", f"oras://{registry}/tiny:1", folders=(folder,))
    assert done.ok, done.stderr
    build(apptainer, folder, "oras", f"{registry}/tiny:1")


def test_an_image_in_a_registry(
    apptainer: Apptainer, folder: Path, registry: str, runner: Runner, docker: Docker
) -> None:
    skopeo = oci_tools.find(oci_tools.Name.SKOPEO, runner, docker, mirror=settings.apt_mirror(runner))
    words = (
        "copy",
        "--dest-tls-verify=false",
        f"docker-archive:{folder}/tiny.tar",
        f"docker://{registry}/tiny:1",
    )
    done = skopeo(*words, folders=(folder,), timeout=120)
    assert done.ok, done.stderr
    build(apptainer, folder, "docker", f"{registry}/tiny:1")
