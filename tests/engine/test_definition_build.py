"""Definition files built for real, by an ordinary user: a row cut down to a minute, and its faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cut_down
import pytest

from stackwright import convert, host, render
from stackwright.convert import Made
from stackwright.defbuild import base_arguments, build_definition, lay_out
from stackwright.definition import render_definition
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.archive import write_archive
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.errors import BuildError, DiskError
from stackwright.render import Sources
from stackwright.runner import Runner

pytestmark = pytest.mark.engine
Build = Callable[[Path, Sources], Made]


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=host.apt_mirror(runner))


@pytest.fixture(scope="module")
def build(runner: Runner, docker: Docker, apptainer: Apptainer) -> Build:
    def run(target: Path, sources: Sources) -> Made:
        row = cut_down.row()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(render, "_packages", lambda *_: cut_down.PACKAGES)
            recipe = render_definition(row, sources)
        return build_definition(
            row, recipe, target, apptainer=apptainer, runner=runner, docker=docker,
            site=host.site(runner), needs=10**9,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def sif(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("definition") / "cut-down.def.sif"
    made = build(target, cut_down.SMALL)
    assert made.bytes == target.stat().st_size
    assert sorted(path.name for path in target.parent.iterdir()) == ["cut-down.def.log", "cut-down.def.sif"]
    return target


def test_its_test_ran_with_the_probes(sif: Path) -> None:
    log = sif.with_suffix(".log").read_text()
    assert "passed: files and versions, links, and torch\n" in log
    assert log.index("Running testscript") < log.index("passed: files")


def test_it_has_the_labels_of_the_image(sif: Path, apptainer: Apptainer) -> None:
    found = convert.labels(apptainer, sif)
    wanted = dict(render.labels(cut_down.row()))
    assert {name: found.get(name) for name in wanted} == wanted
    assert "/" not in found["org.label-schema.usage.singularity.deffile.from"]


def test_what_a_person_starts(sif: Path, apptainer: Apptainer) -> None:
    assert "Horovod 0.28.1" in apptainer("run-help", sif, folders=(sif.parent,)).stdout
    sealed = ("--no-privs", "--containall")
    said = apptainer("run", *sealed, sif, "sh", "-c", "echo $VIRTUAL_ENV; id -un 1000", folders=(sif.parent,))
    assert (said.stdout, said.returncode) == ("/opt/stack\ntrain\n", 0), said.stderr
    app = apptainer("run", *sealed, "--app", "torch", sif, "--help", folders=(sif.parent,))
    assert 'File "/scif/apps/torch/train.py"' in app.stderr, (
        "it runs as far as a stand-in for PyTorch lets it"
    )
    assert apptainer("inspect", "--startscript", sif, folders=(sif.parent,)).stdout.count("sshd-as-user") == 1


def test_without_its_probes_it_does_not_say_that_it_was_tested(sif: Path, apptainer: Apptainer) -> None:
    done = apptainer("test", "--no-privs", sif, folders=(sif.parent,))
    assert done.returncode == 1
    assert "not tested" in done.stderr


def test_nothing_of_the_site_and_of_the_build_is_left(
    sif: Path, apptainer: Apptainer, runner: Runner, tmp_path: Path
) -> None:
    site = host.site(runner)
    assert site.mirror, "else there is nothing to look for"
    script = (
        "for place in /mnt /root /wheels /horovod /etc/pip.conf /etc/apt/sources.list.d /etc/apt/sources.list"
        " /var/lib/apt/lists /var/cache/apt /var/log/apt; do find $place -mindepth 1 2>/dev/null; done;"
        ' grep -rIl -F "$MIRROR" /etc /var /opt /home /usr/local /scif /.singularity.d 2>/dev/null; true'
    )
    done = apptainer.exec(sif, ("sh", "-c", script), env={"MIRROR": site.mirror}, timeout=120)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_files_belong_to_root_and_others_cannot_write_them(sif: Path, docker: Docker) -> None:
    offset = sif.read_bytes().index(b"hsqs")
    job = Job(
        image=apptainers.IMAGE,
        argv=("unsquashfs", "-offset", str(offset), "-lln", "/in/it.sif", "opt/stack", "etc/stackwright"),
        mounts=(Mount(source=sif, target="/in/it.sif"),),
        env=(("PATH", "/usr/bin:/bin"),),
    )
    lines = [line.split() for line in engine.run(docker, job).stdout.splitlines() if "squashfs-root/" in line]
    assert len(lines) > 100
    assert {line[1] for line in lines} == {"0/0"}
    assert [line for line in lines if line[0][0] != "l" and "w" in line[0][5] + line[0][8]] == []


def test_a_fault_fails_the_build_and_the_old_file_stays(build: Build, tmp_path: Path) -> None:
    target = tmp_path / "x.sif"
    target.write_text("the one of yesterday")
    with pytest.raises(BuildError, match="built-torch: nccl_built is None") as caught:
        build(target, cut_down.WITHOUT_NCCL)
    assert str(tmp_path / "x.log") in str(caught.value)
    assert target.read_text() == "the one of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.sif"]


def test_the_first_command_that_fails_ends_it(build: Build, tmp_path: Path) -> None:
    script = cut_down.SMALL.build_script.replace(b"set -euo pipefail", b"echo last words; false | true")
    sources = replace(cut_down.SMALL, build_script=b"exit 7\n" + script)
    with pytest.raises(BuildError):
        build(tmp_path / "x.sif", sources)
    assert [path.name for path in tmp_path.iterdir()] == ["x.log"]


def test_too_little_disk_is_said_before_anything_is_done(
    runner: Runner, docker: Docker, apptainer: Apptainer, tmp_path: Path
) -> None:
    row = cut_down.row()
    with pytest.raises(DiskError, match="building from a definition file needs"):
        build_definition(
            row, render_definition(row, cut_down.SMALL), tmp_path / "x.sif", apptainer=apptainer,
            runner=runner, docker=docker, site=host.site(runner), needs=10**18,
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_one_layer_is_read_by_docker(
    tiny_tar: Path, tmp_path: Path, runner: Runner, docker: Docker
) -> None:
    settings = {"architecture": "amd64", "os": "linux", "config": {"Labels": {"a": "b"}}}
    name = "stackwright-test/archive:1"
    with tiny_tar.open("rb") as layer, (tmp_path / "x.tar").open("wb") as archive:
        write_archive(archive, layer, settings, name)
    done = runner(docker.command("load", "--input", tmp_path / "x.tar"))
    assert done.ok, done.stderr
    found = engine.inspect(docker, name)
    assert found
    assert found["Config"]["Labels"] == {"a": "b"}
    engine.remove(docker, name)


def test_without_an_engine_the_base_comes_from_the_mirror(
    tmp_path: Path, runner: Runner, apptainer: Apptainer
) -> None:
    row, site = cut_down.row(), host.site(runner)
    lay_out(render_definition(row, cut_down.SMALL), tmp_path, site, row)
    arguments = base_arguments(row, tmp_path, docker=None, runner=runner, site=site)
    assert arguments == ("BOOTSTRAP=docker-archive", "BASE_IMAGE=base_image.tar")
    (tmp_path / "small.def").write_text(
        "Bootstrap: {{ BOOTSTRAP }}\nFrom: {{ BASE_IMAGE }}\n\n%labels\n    a b\n"
    )
    words = [word for argument in arguments for word in ("--build-arg", argument)]
    environment = {"PWD": str(tmp_path)}
    done = apptainer.runner(
        [apptainer.program, "build", *words, "small.sif", "small.def"], cwd=tmp_path, env=environment
    )
    assert done.ok, done.stderr
    labels = convert.labels(apptainer, tmp_path / "small.sif")
    assert labels["a"] == "b"
    assert labels["org.stackwright.provider"] == "debian"
    done = apptainer.exec(
        tmp_path / "small.sif", ("sh", "-c", "cat /etc/debian_version; ls /etc/apt/sources.list*")
    )
    assert done.stdout.startswith("13")
