"""The fast conversions give what Apptainer itself gives as root: same files, same settings, same labels."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import contents
from stackwright.build.sif import convert
from stackwright.core.errors import ConvertError
from stackwright.core.model.compression import Compression, compression
from stackwright.engines import apptainer
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.engines.sif import squashfs, tar_stream
from stackwright.engines.sif.squashfs import SCRIPT, Squashing, Way
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = [pytest.mark.engine, pytest.mark.long]
FAST = (Way.MOUNTED, Way.LAYERS, Way.STREAM)

# Each thing that can get lost on the way: files that are gone, replaced folders, modes, owners, links, an
# empty file where Apptainer wants one, no file where it makes one, and files where an engine puts its own
# into every container.
CONTAINERFILE = """\
FROM {odd}
ADD noted.tar /
LABEL org.stackwright.test=yes spaced="a b"
ENV FROM_IMAGE='a  b' OTHER=2
WORKDIR /opt/work
ENTRYPOINT ["echo", "the entrypoint"]
CMD ["its argument"]
ENV QUOTED='$HOME "in quotes"'
EXPOSE 80/tcp
STOPSIGNAL SIGINT
VOLUME /opt/volume
RUN mkdir -p /opt/replaced /opt/gone && echo old > /opt/replaced/old && echo x > /opt/gone/x
RUN busybox rm -r /opt/gone /opt/replaced && mkdir /opt/replaced && echo new > /opt/replaced/new
RUN busybox chmod 751 /etc && busybox chown 12:34 /etc && echo secret > /opt/s && busybox chmod 4640 /opt/s
RUN busybox ln /opt/s /opt/hard && busybox ln -s s /opt/soft && busybox rm /etc/passwd /bin/env
RUN busybox chmod 711 / && busybox rm -rf /tmp
RUN busybox ln -s /opt/socket /dev/log; busybox syslogd -n -O /dev/null & sleep 1; busybox test -S /opt/socket
"""
MANY = "".join(f"RUN echo {number} > /opt/{number}\n" for number in range(12))
"""Layers enough that their names are more than the kernel's fsconfig takes as one option."""
LAST = "RUN cd / && busybox rmdir /opt/work\nUSER user\n"
"""The folder that an engine would make again where it makes a container of the image."""

CAPABILITY = "\x01\x00\x00\x02\x00\x04" + 14 * "\x00"


def _odd(path: Path, tiny: Path) -> None:
    """Beside the tiny system what busybox cannot make."""
    with tarfile.open(tiny) as whole, tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for known in whole:
            tar.addfile(known, whole.extractfile(known) if known.isfile() else None)

        def add(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, **more: Any) -> None:
            member = tarfile.TarInfo(name)
            content = more.pop("content", b"")
            member.type, member.mode, member.size, member.mtime = kind, mode, len(content), 1234567890
            for field, value in more.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(content))

        add("odd", tarfile.DIRTYPE, 0o2751, uid=12, gid=34)
        capability = {"SCHILY.xattr.security.capability": CAPABILITY}
        add("odd/capable", content=b"x", mode=0o755, pax_headers=capability)
        add("odd/fifo", tarfile.FIFOTYPE, 0o600)
        add("odd/null", tarfile.CHRTYPE, 0o660, devmajor=1, devminor=3)
        add("odd/new\nline and space", content=b"n")
        add("odd/ümläut" + "l" * 120, content=b"u", uid=3_000_000, gid=4_000_000)
        add("odd/nobody reads it", mode=0, content=b"secret")
        add("odd/locked", tarfile.DIRTYPE, 0)
        add("odd/locked/in", content=b"in")
        add("dev", tarfile.DIRTYPE, 0o755)
        add("dev/console", tarfile.CHRTYPE, 0o600, devmajor=5, devminor=1)
        add("etc/hosts", content=b"emptied by Apptainer\n", mode=0o600, uid=7, gid=8)
        add("etc/resolv.conf", content=b"emptied as well\n", mode=0o444)
        add("etc/mtab", content=b"its own\n", mode=0o600, uid=7, gid=8)
        add("etc/hostname", tarfile.SYMTYPE, linkname="elsewhere and back")
        add(".singularity.d", tarfile.DIRTYPE, 0o755)
        add(".singularity.d/runscript", content=b"an old one", mode=0o755)
        add(".singularity.d/note", content=b"not Apptainer's")


def _noted(path: Path) -> None:
    """A file with an attribute that an engine does not take into the layers that it makes."""
    member = tarfile.TarInfo("noted")
    member.pax_headers = {"SCHILY.xattr.user.note": "text"}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member)


@pytest.fixture(scope="module")
def program(runner: Runner, docker: Docker) -> Apptainer:
    return apptainer.find(runner, docker, mirror=settings.apt_mirror(runner))


@pytest.fixture(scope="module")
def image(
    runner: Runner, docker: Docker, tiny_tar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("image")
    odd, name = (f"stackwright-test/{what}:{os.getpid()}" for what in ("odd", "layers"))
    _odd(folder / "odd.tar", tiny_tar)
    _noted(folder / "noted.tar")
    done = runner(docker.command("import", "--change", "ENV PATH=/bin", folder / "odd.tar", odd))
    assert done.ok, done.stderr
    (folder / "Dockerfile").write_text(CONTAINERFILE.format(odd=odd) + MANY + LAST)
    done = runner(docker.command("buildx", "build", "--network=none", "--tag", name, folder))
    assert done.ok, done.stderr
    yield name
    for made in (name, odd):
        engine.remove(docker, made)


@pytest.fixture(scope="module")
def slow(
    runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The SIF that Apptainer makes of a saved image."""
    folder = tmp_path_factory.mktemp("slow")
    archive = engine.save(docker, runner, image, folder / "image.tar")
    program.build(folder / "slow.sif", f"docker-archive:{archive}")
    archive.unlink()
    return folder / "slow.sif"


def convert_by(
    way: Way, image: str, target: Path, runner: Runner, docker: Docker, program: Apptainer, **options: Any
) -> Path:
    size = 10**7
    made = convert.to_sif(
        image,
        target,
        docker=docker,
        runner=runner,
        apptainer=program,
        image_bytes=size,
        conversion=convert.Conversion(ways=(way,), **options),
    )
    assert made.way is way
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    return target


@pytest.fixture(scope="module", params=FAST, ids=lambda way: way.name.lower())
def fast(
    request: pytest.FixtureRequest, runner: Runner, docker: Docker, program: Apptainer, image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:  # fmt: skip
    return convert_by(
        request.param, image, tmp_path_factory.mktemp("fast") / "x.sif", runner, docker, program
    )


def without_times(docker: Docker, path: Path, other: Path) -> list[contents.Difference]:
    """Apptainer writes some files itself: they have the time of the conversion."""
    found = contents.differences(contents.of_sif(docker, path), contents.of_sif(docker, other))
    return [difference for difference in found if difference.what != "time"]


def test_the_same_files(docker: Docker, slow: Path, fast: Path) -> None:
    assert without_times(docker, slow, fast) == []


def test_what_can_get_lost_is_there(docker: Docker, fast: Path) -> None:
    """So that two SIFs that both lack it are not taken for proof."""
    found = contents.of_sif(docker, fast)
    assert "opt/replaced/new" in found
    assert not {"opt/replaced/old", "opt/gone", "etc/passwd", "opt/socket", ".dockerenv"} & set(found)
    assert not {"dev/pts", "dev/shm", "opt/work", "opt/volume"} & set(found)
    assert (found["opt/hard"].mode, found["opt/s"].link) == ("4640", "opt/hard")
    assert (found["etc"].mode, found["etc"].owner) == ("751", "12:34")
    assert (found["etc/mtab"].mode, found["etc/mtab"].owner, found["etc/mtab"].kind) == ("600", "7:8", "R")
    assert (found["etc/hosts"].mode, found["etc/hosts"].owner) == ("644", "7:8")
    assert found["etc/hostname"].link == "elsewhere and back"
    assert found["dev/console"].device == "5 1"
    assert found["odd/null"].device == "1 3"
    assert found["noted"].xattrs == frozenset()
    assert [text.partition("=")[0] for text in found["odd/capable"].xattrs] == ["security.capability"]
    assert found["odd/locked/in"].time == 1234567890
    assert {path for path in found if "\n" in path} == {"odd/new\nline and space"}
    assert ".singularity.d/note" in found


def test_the_same_settings(program: Apptainer, slow: Path, fast: Path) -> None:
    one, other = (program.inspect(sif)["attributes"] for sif in (slow, fast))
    assert other["labels"]["spaced"] == "a b"
    for attributes in (one, other):
        labels = json.dumps(attributes["labels"]).encode()
        attributes["labels"] = contents.without_date(labels)
        attributes.pop("deffile", None)
    assert other == one


def test_the_same_objects(program: Apptainer, slow: Path, fast: Path) -> None:
    """In the same order, in the same groups, with the same architecture, at the same alignment."""
    said = []
    for sif in (slow, fast):
        lines = program("sif", "list", sif, folders=(sif.parent,)).stdout.splitlines()
        objects = [line.split("|") for line in lines if line[:1].isdigit()]
        config = program("sif", "dump", "3", sif, folders=(sif.parent,)).stdout
        header = program("sif", "header", sif, folders=(sif.parent,)).stdout.splitlines()
        of_header = [line for line in header if line.startswith(("Launch", "Version", "Primary", "Descr"))]
        said.append(([(fields[0], fields[1], fields[2], fields[4]) for fields in objects], config, of_header))
        assert int(objects[-1][3].split("-")[0]) % 4096 == 0
    assert said[0] == said[1]
    assert "amd64" in str(said) or os.uname().machine != "x86_64"


def test_it_runs(program: Apptainer, slow: Path, fast: Path) -> None:
    for sif in (slow, fast):
        done = program.exec(sif, ("sh", "-c", 'cat /opt/replaced/new; echo "$FROM_IMAGE"'))
        assert done.stdout == "new\na  b\n", done.stderr


# -- where a way is closed --------------------------------------------------------------------------


def task(docker: Docker, runner: Runner, program: Apptainer, image: str, folder: Path) -> Squashing:
    found = engine.inspect(docker, image)
    assert found
    return Squashing(
        docker=docker, runner=runner, apptainer=program, image=image, found=found, folder=folder,
        compression=compression("zstd:1"), timeout=600,
    )  # fmt: skip


def test_what_an_engine_cannot_do_is_not_asked(
    runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path: Path
) -> None:
    here = task(docker, runner, program, image, tmp_path)
    assert all(squashfs.can(here, way) for way in Way)
    old = replace(here, docker=replace(docker, version="27.5.1"))
    assert [way for way in Way if squashfs.can(old, way)] == [Way.LAYERS, Way.STREAM, Way.ARCHIVE]
    other = replace(here, docker=replace(docker, driver="overlayfs"))
    assert [way for way in Way if squashfs.can(other, way)] == [Way.MOUNTED, Way.STREAM, Way.ARCHIVE]
    remote = replace(here, docker=replace(docker, host="tcp://elsewhere:2375"))
    tools = squashfs.has_squashfs_tools(runner)
    wanted = [Way.STREAM, Way.ARCHIVE] if tools else [Way.ARCHIVE]
    assert [way for way in Way if squashfs.can(remote, way)] == wanted


def test_an_engine_that_refuses_to_mount_images_is_asked_for_another_way(
    runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    said: list[str] = []
    monkeypatch.setattr(squashfs, "ImageMount", lambda **_: engine.ImageMount(image="", target="/image"))
    made = convert.to_sif(
        image, tmp_path / "x.sif", docker=docker, runner=runner, apptainer=program, image_bytes=10**7,
        conversion=convert.Conversion(say=said.append),
    )  # fmt: skip
    assert made.way is Way.LAYERS
    assert any("is not possible here; trying the next method" in line for line in said)


def test_a_builder_that_somebody_has_chosen_is_not_asked(
    runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It has none of the engine's images, and would look for one of this name in a registry."""
    monkeypatch.setenv("BUILDX_CONFIG", str(tmp_path / "buildx"))
    chosen = ("create", "--name", "chosen", "--driver", "remote", "--use", "tcp://127.0.0.1:9")
    assert runner(docker.command("buildx", *chosen)).ok
    convert_by(Way.STREAM, image, tmp_path / "made" / "x.sif", runner, docker, program)


def test_a_native_apptainer_without_our_image_streams(
    runner: Runner, docker: Docker, program: Apptainer, image: str, slow: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As on a host whose distribution has squashfs-tools: here they are the real ones, in their container."""
    tools, folder = tmp_path / "tools", tmp_path / "made"
    tools.mkdir()
    for name in ("sqfstar", "unsquashfs"):
        words = f'--rm --interactive --volume "{tmp_path}:{tmp_path}" --workdir "$PWD"'
        text = f'#!/bin/sh\nexec {" ".join(docker.command())} run {words} {apptainer.IMAGE} {name} "$@"\n'
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("STACKWRIGHT_BIND", str(tmp_path))
    monkeypatch.setenv("STACKWRIGHT_DOCKER", " ".join(docker.command()))
    monkeypatch.setattr(squashfs, "IMAGE", "stackwright-test/no-such-image:1")
    native = Apptainer(program=program.program, version=program.version, native=True, runner=runner)
    sif = convert_by(Way.STREAM, image, folder / "x.sif", runner, docker, native)
    assert without_times(docker, slow, sif) == []


# -- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", FAST, ids=lambda way: way.name.lower())
def test_a_failure_leaves_nothing(
    way: Way, runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Compression, "options", ("-comp", "no-such-compressor"))
    with pytest.raises(ConvertError) as caught:
        convert_by(way, image, tmp_path / "x.sif", runner, docker, program)
    assert caught.value.place.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", FAST, ids=lambda way: way.name.lower())
def test_a_conversion_that_takes_too_long_ends(
    way: Way, runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(convert, "TIMEOUT", 0.01)
    monkeypatch.setattr(squashfs, "make_skeleton", _patient(squashfs.make_skeleton))
    with pytest.raises(ConvertError, match="no end after"):
        convert_by(way, image, tmp_path / "x.sif", runner, docker, program)
    ours = f"label={engine.MADE_BY_US}={os.getpid()}"
    assert runner(docker.command("ps", "--all", "--quiet", "--filter", ours)).stdout == ""
    assert list(tmp_path.iterdir()) == []


def _patient(make: Any) -> Any:
    return lambda task: make(replace(task, timeout=600))


@pytest.mark.parametrize("share", [0.3, 0.9999])
def test_a_stream_that_ends_too_early_is_seen(
    share: float, runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def cut(chunks: Iterator[bytes], pipe: Path, **options: Any) -> None:
        whole = b"".join(chunks)
        whole = whole.rstrip(b"\0") if share > 0.9 else whole
        stream_feed([whole[: int(len(whole) * share)]], pipe, **options)

    stream_feed = tar_stream.feed
    monkeypatch.setattr(tar_stream, "feed", cut)
    with pytest.raises(ConvertError):
        convert_by(Way.STREAM, image, tmp_path / "x.sif", runner, docker, program)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_is_not_left_empty(
    runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path: Path
) -> None:
    """mksquashfs would write an empty file in its place, and end well."""
    work, files = tmp_path / "work", tmp_path / "files"
    for folder in (work, files):
        folder.mkdir()
    of_root = files / "of root"
    of_root.write_text("secret")
    here = task(docker, runner, program, image, work)
    squashfs.make_skeleton(here)
    work.chmod(0o777)
    for mode, code in ((0o644, 0), (0o600, 1)):
        of_root.chmod(mode)
        for name in ("added.pf", squashfs.WRITTEN):
            (work / name).unlink(missing_ok=True)
        job = Job(
            image=apptainer.IMAGE, argv=("sh", "/script", "mounted", *here.words), workdir="/work",
            user="1000", network=False,
            mounts=(
                Mount(source=SCRIPT, target="/script"),
                Mount(source=work, target="/work", read_only=False),
                Mount(source=files, target="/image"),
            ),
        )  # fmt: skip
        done = engine.run(docker, job)
        assert done.returncode == code, done.stderr
    assert "of root" in done.stderr
