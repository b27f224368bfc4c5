"""Apptainer from its own image, and a native one, on a SIF of 1 MB made from the tiny image."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stackwright.core.errors import ConvertError
from stackwright.engines import apptainer
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker, Mount
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def program(runner: Runner, docker: Docker) -> Apptainer:
    return apptainer.find(runner, docker, mirror=settings.apt_mirror(runner))


@pytest.fixture(scope="module")
def sif(
    program: Apptainer, runner: Runner, docker: Docker, tiny: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("sif")
    containerfile = f"FROM {tiny}\nLABEL org.stackwright.test=yes\nENV FROM_IMAGE='a b'\n"
    (folder / "Dockerfile").write_text(containerfile)
    named = f"stackwright-test/labelled:{os.getpid()}"
    done = runner(docker.command("buildx", "build", "--tag", named, folder))
    assert done.ok, done.stderr
    archive = _saved(docker, runner, named, folder / "image.tar")
    program.build(folder / "image.sif", f"docker-archive:{archive}")
    return folder / "image.sif"


def _saved(docker: Docker, runner: Runner, image: str, path: Path) -> Path:
    try:
        return engine.save(docker, runner, image, path)
    finally:
        engine.remove(docker, image)


def test_the_image_is_made_once(program: Apptainer, runner: Runner, docker: Docker) -> None:
    image = engine.inspect(docker, apptainer.IMAGE)
    again = apptainer.find(runner, docker)
    assert again == program
    assert again.version.startswith("1.")
    assert engine.inspect(docker, apptainer.IMAGE) == image


def test_labels_survive(program: Apptainer, sif: Path) -> None:
    attributes = program.inspect(sif)["attributes"]
    assert attributes["labels"]["org.stackwright.test"] == "yes"
    assert "runscript" in attributes


def test_compression_is_the_fast_one(sif: Path) -> None:
    """The squashfs superblock follows its magic; compressor 6 is zstd (kernel, squashfs_fs.h)."""
    content = sif.read_bytes()
    start = content.index(b"hsqs")
    assert int.from_bytes(content[start + 20 : start + 22], "little") == 6


def test_a_program_sees_only_what_it_is_given(program: Apptainer, sif: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "file").write_text("content\n")
    script = 'cat /in/file; echo made > /out/file; echo "$VALUE"; echo "$FROM_IMAGE"; ls ~; exit 5'
    done = program.exec(
        sif,
        ("sh", "-c", script),
        binds=(Mount(source=given, target="/in"), Mount(source=tmp_path, target="/out", read_only=False)),
        env={"VALUE": 'as it is: $HOME "`id`'},
    )
    assert done.returncode == 5, done.stderr
    assert done.stdout.splitlines() == ["content", 'as it is: $HOME "`id`', "a b"]
    assert (tmp_path / "file").read_text() == "made\n"


def test_the_image_cannot_be_written_and_tmp_has_room(program: Apptainer, sif: Path) -> None:
    script = "touch /etc/x; dd if=/dev/zero of=/tmp/big bs=1048576 count=100 2>/dev/null && echo room"
    done = program.exec(sif, ("sh", "-c", script))
    assert done.stdout == "room\n", done.stderr
    assert "Read-only file system" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_runs_it_as_another_user_who_can_write_to_tmp(program: Apptainer, sif: Path) -> None:
    script = "id -u; id -g; echo made > /tmp/file && cat /tmp/file"
    done = program.exec(sif, ("sh", "-c", script), user="12345:23456")
    assert done.stdout.splitlines() == ["12345", "23456", "made"], done.stderr
    assert program.exec(sif, ("id", "-u"), user="0").stdout == "0\n"


def test_what_does_not_end_is_ended(program: Apptainer, sif: Path, runner: Runner, docker: Docker) -> None:
    done = program.exec(sif, ("sleep", "300"), timeout=2)
    assert done.returncode == 124
    ours = f"label={engine.MADE_BY_US}={os.getpid()}"
    left = runner(docker.command("ps", "--all", "--quiet", "--filter", ours))
    assert left.stdout == ""


def test_a_file_that_is_no_sif_is_an_error(program: Apptainer, sif: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sif"
    broken.write_bytes(sif.read_bytes()[:5000])
    for file in (broken, tmp_path / "absent.sif"):
        with pytest.raises(ConvertError) as caught:
            program.inspect(file)
        assert caught.value.place == str(file)


def test_a_source_that_is_not_there_is_an_error(program: Apptainer, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"absent\.tar"):
        program.build(tmp_path / "x.sif", f"docker-archive:{tmp_path}/absent.tar")
    assert not (tmp_path / "x.sif").exists()


def spython(program: Apptainer, script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which finds apptainer as "singularity"; the last word is a file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "singularity").symlink_to(program.program)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, **program.environment(Path(words[-1]).parent)}
        argv = [sys.executable, "-c", script, *words]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)


SPYTHON_BUILDS = """
import sys
from spython.main import Client
print(Client.build(recipe=sys.argv[1], image=sys.argv[2], sudo=False, quiet=True))
"""


def test_a_failed_build_is_no_build_even_where_an_old_file_lies(program: Apptainer, tmp_path: Path) -> None:
    """spython's Client.build gives back the path of whatever lies there: so it builds nothing here."""
    old, recipe = tmp_path / "old.sif", tmp_path / "absent.tar"
    old.write_text("the one of yesterday")
    said = spython(program, SPYTHON_BUILDS, f"docker-archive:{recipe}", old)
    assert said.returncode == 0, said.stderr
    assert str(old) in said.stdout, "spython tells of a failed build now: it could be used"
    with pytest.raises(ConvertError, match=r"absent\.tar") as caught:
        program.build(old, f"docker-archive:{recipe}")
    assert caught.value.place == str(old)
    assert old.read_text() == "the one of yesterday"
    with pytest.raises(ConvertError, match="no SIF"):
        program.inspect(old)


SPYTHON_RUNS = """
import sys
from spython.main import Client
sif, options = sys.argv[1], ["--containall", "--no-privs"]
print("output:", Client.execute(sif, ["sh", "-c", "echo aside >&2"], options=options).splitlines()[-1])
try:
    Client.run(sif, ["sh", "-c", "echo out; exit 3"], options=options)
except AttributeError:
    print("a program that fails is a crash")
print("started:", Client.instance("/nowhere.sif", name="absent"))
"""


def test_why_spython_neither_runs_programs_nor_starts_instances_here(program: Apptainer, sif: Path) -> None:
    """Once this fails, its run and its instances could be used; its inspect is."""
    said = spython(program, SPYTHON_RUNS, sif)
    assert said.returncode == 0, said.stderr
    assert "output: aside" in said.stdout
    assert "a program that fails is a crash" in said.stdout
    assert "started: instance://absent" in said.stdout
    assert program.exec(sif, ("sh", "-c", "echo out; echo aside >&2; exit 3")).returncode == 3


def test_the_shim_is_apptainer_for_a_person(sif: Path, docker: Docker) -> None:
    """Typed by hand in the folder of the file, without any of our variables."""
    done = subprocess.run(
        [apptainer.SHIM, "exec", "--no-privs", sif.name, "cat"],
        cwd=sif.parent, input="through stdin\n", capture_output=True, text=True, check=False,
        env={**os.environ, "STACKWRIGHT_DOCKER": docker.program},
    )  # fmt: skip
    assert done.stdout == "through stdin\n", done.stderr


def test_a_native_apptainer_is_preferred(
    runner: Runner, docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = tmp_path / "apptainer"
    native.write_text('#!/bin/sh\necho "apptainer version 9.8.7"\n')
    native.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = apptainer.find(runner, docker)
    assert (found.program, found.version, found.native) == (native, "9.8.7", True)


def test_the_shim_on_the_path_is_not_taken_for_a_native_one(
    program: Apptainer, runner: Runner, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{apptainer.SHIM.parent}:{os.environ['PATH']}")
    assert not apptainer.find(runner, docker).native
