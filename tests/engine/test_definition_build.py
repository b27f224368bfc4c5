"""Definition files built for real, by an ordinary user: a row cut down to a minute, and its faults."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cut_down
import pytest
from rich.console import Console

from stackwright.build import rows as session
from stackwright.build.job import Request
from stackwright.build.sif import convert, definition
from stackwright.build.sif.convert import Made, finish
from stackwright.build.sif.from_definition import Builder, Disk, base_arguments, built, lay_out
from stackwright.core.components.horovod.build import SCRIPT
from stackwright.core.errors import BuildError, DiskError
from stackwright.core.model.labels import PROVIDER
from stackwright.core.model.record import DEFINITION_PHASES, Phase, Status
from stackwright.core.model.site import Site
from stackwright.core.render import dockerfile
from stackwright.core.render.definition import render_definition
from stackwright.core.render.sources import Sources
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.engines.sif.docker_archive import write_archive
from stackwright.engines.sif.layout import root_offset
from stackwright.host.project import Plan, Planned, Project
from stackwright.host.runner import Runner
from stackwright.host.site import settings as host
from stackwright.records import files as record

pytestmark = [pytest.mark.engine, pytest.mark.long]
Build = Callable[[Path, Sources], Made]
PLANTED = "planted.site.example"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=host.apt_mirror(runner))


@pytest.fixture(scope="module")
def site(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """This host's, and on top of each setting something to look for that does no harm."""
    folder, own = tmp_path_factory.mktemp("site"), host.site(runner)
    argv: list[str | Path] = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "9"]
    argv += ["-subj", f"/CN={PLANTED}", "-keyout", folder / "key", "-out", folder / "ca"]
    assert runner(argv).ok
    planted = (folder / "ca").read_text()
    (folder / "ca").write_text((own.ca.read_text() if own.ca else "") + planted)
    pip = {**dict(own.pip), "trusted-host": f"{dict(own.pip).get('trusted-host', '')} {PLANTED}".strip()}
    proxies = {**dict(own.proxies), "no_proxy": f"{dict(own.proxies).get('no_proxy', '')},{PLANTED}"}
    (folder / "planted").write_text(planted.splitlines()[2])
    return replace(own, ca=folder / "ca", pip=tuple(pip.items()), proxies=tuple(proxies.items()))


@pytest.fixture(scope="module")
def build(runner: Runner, docker: Docker, apptainer: Apptainer, site: Site) -> Build:
    def run(target: Path, sources: Sources) -> Made:
        row = cut_down.row()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dockerfile, "_packages", lambda *_: cut_down.PACKAGES)
            recipe = render_definition(row, sources)
        builder = Builder(apptainer=apptainer, runner=runner, docker=docker, site=site)
        with built(row, recipe, target, builder, Disk(needs=10**9)) as unproven:
            return finish(unproven, target, apptainer=apptainer, wanted=dict(dockerfile.labels(row)))

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
    wanted = {**dict(dockerfile.labels(cut_down.row())), PROVIDER: "debian"}
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


INSTANCE = """
cd "$HOME"
apptainer exec --no-privs /in/it.sif ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519 || exit
cp .ssh/id_ed25519.pub .ssh/authorized_keys
apptainer instance start --no-privs /in/it.sif node 2345 || exit
ask='ssh -p 2345 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'
for try in 1 2 3 4 5 6 7 8 9 10; do
    apptainer exec --no-privs /in/it.sif $ask 127.0.0.1 'echo by ssh: $(id -u) $(command -v tini)' && break
    sleep 0.5
done
echo instances: $(apptainer instance list --json | tr -d ' \\n')
apptainer exec instance://node sh -c 'echo inside: $VIRTUAL_ENV $(tr "\\0" " " < /proc/1/cmdline)'
apptainer instance stop node || exit
echo left: $(apptainer instance list --json | tr -d ' \\n')
apptainer exec --no-privs /in/it.sif $ask 127.0.0.1 true && echo it still answers || echo gone
"""


def test_an_instance_starts_answers_by_ssh_and_stops(sif: Path, docker: Docker) -> None:
    """By an ordinary user: mpirun's way to another node. The port and the keys are those of the user."""
    become = (
        "useradd --create-home --uid 1000 user && install -d -o user -m 700 ~user/.ssh && chmod 666 /dev/fuse"
        " && exec setpriv --reuid user --regid user --init-groups"
    )
    job = Job(
        image=apptainers.IMAGE,
        argv=("bash", "-c", f'{become} env HOME=/home/user bash -c "$0"', INSTANCE),
        mounts=(Mount(source=sif, target="/in/it.sif"),),
        env=(("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),),
        privileged=True,
    )
    done = engine.run(docker, job, timeout=300)
    said = done.stdout.splitlines()
    assert "by ssh: 1000 /usr/bin/tini" in said, done.stderr
    (listed,) = (line for line in said if line.startswith("instances: "))
    assert [instance["instance"] for instance in json.loads(listed[11:])["instances"]] == ["node"]
    assert any(line.startswith("inside: /opt/stack ") for line in said)
    assert said[-2:] == ['left: { "instances":[]}', "gone"]


def test_a_file_that_failed_its_probes_does_not_get_its_name(
    sif: Path, runner: Runner, docker: Docker, apptainer: Apptainer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The stand-in for PyTorch fails them. It is not built a second time: that is what is replaced."""

    @contextlib.contextmanager
    def built_already(*_: Any, **__: Any) -> Iterator[Path]:
        yield Path(shutil.copy(sif, tmp_path / "built.sif"))

    monkeypatch.setattr(definition, "built", built_already)
    monkeypatch.setattr(
        dockerfile, "_packages", lambda *_: cut_down.PACKAGES
    )  # the file's version is of its key
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path / "out")
    row = Planned(stack=cut_down.row(), recipe=dockerfile.render(cut_down.row(), cut_down.SMALL))
    folder = project.folder(row.recipe)
    folder.mkdir(parents=True)
    (folder / "cut-down.def.sif").write_text("the one of yesterday")
    done = session.work_rows(
        project, Plan(rows=(row,), rejections=()), Request(phases=DEFINITION_PHASES), site=host.site(runner),
        runner=runner, console=Console(file=io.StringIO()),
    )  # fmt: skip
    (known,), (error,) = done.definitions, done.errors
    assert error.exit_code == 8
    assert known.sif
    assert known.sif.path == f"out/cut-down/{row.recipe.key[:12]}/cut-down.def.failed.sif"
    assert known.sif.compression == "zstd:3"
    assert known.sif.sha256 == hashlib.sha256((folder / "cut-down.def.failed.sif").read_bytes()).hexdigest()
    assert (folder / "cut-down.def.sif").read_text() == "the one of yesterday"
    assert record.load_all(project.records, definition=True).records == (known,)
    assert (known.status, known.phase) == (Status.FAILED, Phase.COMPARE_DEFINITION)
    assert known.reason.startswith("checks failed: ")
    verdict = known.verdict("def")
    assert verdict
    assert verdict.failed
    assert not (folder / "cut-down.def.unproven.sif").exists()
    assert [timing.phase for timing in known.timings] == [*DEFINITION_PHASES]
    assert (folder / "facts" / "sif-of-definition" / "system.json").is_file()


def test_without_its_probes_it_does_not_say_that_it_was_tested(sif: Path, apptainer: Apptainer) -> None:
    done = apptainer("test", "--no-privs", sif, folders=(sif.parent,))
    assert done.returncode == 1
    assert "not tested" in done.stderr


def in_its_files(sif: Path, docker: Docker, script: str, **env: str) -> list[str]:
    """What a script says in the folder of the unpacked files, over which nothing is mounted."""
    unpack = f"unsquashfs -quiet -no-progress -dest /x -offset {root_offset(sif)} /in/it.sif && cd /x"
    job = Job(
        image=apptainers.IMAGE,
        argv=("bash", "-euo", "pipefail", "-c", f"{unpack}\n{script}"),
        mounts=(Mount(source=sif, target="/in/it.sif"),),
        env=(("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), *env.items()),
    )
    done = engine.run(docker, job, timeout=300)
    assert done.ok, done.stderr
    return done.stdout.splitlines()


LOOK = """
for place in mnt root wheels horovod tmp var/tmp etc/pip.conf etc/apt/sources.list.d etc/apt/sources.list \\
    var/lib/apt/lists var/cache/apt var/log/apt; do [ ! -e $place ] || find $place -mindepth 1; done
grep -rl -F -e "$NAME" -e "$CERTIFICATE" . || true
grep -rIl -F -e "$MIRROR" etc var opt home usr/local scif .singularity.d || true
"""
OF_DEBIAN = {"root/.bashrc", "root/.profile", "root/.ssh", "etc/apt/sources.list.d/debian.sources"}


def test_nothing_of_the_site_and_of_the_build_is_left(sif: Path, docker: Docker, site: Site) -> None:
    assert site.mirror, "else there is nothing to look for"
    assert site.ca
    certificate = (site.ca.parent / "planted").read_text()
    assert certificate in site.ca.read_text()
    told = in_its_files(sif, docker, LOOK, MIRROR=site.mirror, NAME=PLANTED, CERTIFICATE=certificate)
    assert set(told) == OF_DEBIAN
    content = sif.read_bytes()
    assert PLANTED.encode() not in content, "in what is not compressed: labels and so on"
    assert site.mirror.encode() not in content


def test_files_belong_to_root_and_others_cannot_write_them(sif: Path, docker: Docker) -> None:
    job = Job(
        image=apptainers.IMAGE,
        argv=(
            "unsquashfs", "-offset", str(root_offset(sif)), "-lln", "/in/it.sif",
            "opt/stack", "etc/stackwright",
        ),
        mounts=(Mount(source=sif, target="/in/it.sif"),),
        env=(("PATH", "/usr/bin:/bin"),),
    )  # fmt: skip
    lines = [line.split() for line in engine.run(docker, job).stdout.splitlines() if "squashfs-root/" in line]
    assert len(lines) > 100
    assert {line[1] for line in lines} == {"0/0"}
    assert [line for line in lines if line[0][0] != "l" and "w" in line[0][5] + line[0][8]] == []


@pytest.mark.nightly
def test_a_fault_fails_the_build_and_the_old_file_stays(build: Build, tmp_path: Path) -> None:
    target = tmp_path / "x.sif"
    target.write_text("the one of yesterday")
    with pytest.raises(BuildError, match="built-torch: nccl_built is None") as caught:
        build(target, cut_down.WITHOUT_NCCL)
    assert str(tmp_path / "x.log") in str(caught.value)
    assert target.read_text() == "the one of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.sif"]


def test_a_compile_that_fails_ends_it_with_its_last_words(build: Build, tmp_path: Path) -> None:
    target = tmp_path / "x.sif"
    target.write_text("the one of yesterday")
    with pytest.raises(BuildError, match=r"^[^\n]*last words") as caught:
        build(target, cut_down.SMALL.with_file(SCRIPT, b"echo last words; exit 7\n"))
    assert caught.value.failure and caught.value.failure.log == tmp_path / "x.log"
    assert target.read_text() == "the one of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.sif"]


def test_too_little_disk_is_said_before_anything_is_done(
    runner: Runner, docker: Docker, apptainer: Apptainer, tmp_path: Path
) -> None:
    row = cut_down.row()
    recipe = render_definition(row, cut_down.SMALL)
    builder = Builder(apptainer=apptainer, runner=runner, docker=docker, site=host.site(runner))
    with (
        pytest.raises(DiskError, match="building from a definition file needs"),
        built(row, recipe, tmp_path / "x.sif", builder, Disk(needs=10**18)),
    ):
        raise AssertionError("there is no such disk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", ["false", "false | true", 'echo "$nowhere"'])
def test_post_ends_at_its_first_fault(
    fault: str, runner: Runner, docker: Docker, apptainer: Apptainer, tmp_path: Path
) -> None:
    row = cut_down.row()
    recipe = render_definition(row, cut_down.SMALL)
    head, _, rest = recipe.text("cut-down.def").partition("%files\n")
    (post,) = set(re.findall(r"^%post.*\n", rest, re.MULTILINE))
    files = {**dict(recipe.files), "cut-down.def": f"{head}{post}    {fault}\n    echo reached\n".encode()}
    broken = replace(recipe, files=tuple(files.items()))
    builder = Builder(apptainer=apptainer, runner=runner, docker=docker, site=host.site(runner))
    with (
        pytest.raises(BuildError) as caught,
        built(row, broken, tmp_path / "x.sif", builder, Disk(needs=10**9)),
    ):
        raise AssertionError("it was built")
    assert "reached" not in (tmp_path / "x.log").read_text()
    assert caught.value.failure and caught.value.failure.tail


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


@pytest.mark.nightly
def test_without_an_engine_the_base_comes_from_the_mirror(
    tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
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
    told = in_its_files(tmp_path / "small.sif", docker, "cat etc/debian_version; find etc/apt/sources.list*")
    assert told[0].startswith("13")
    assert told[1:] == ["etc/apt/sources.list.d"]
