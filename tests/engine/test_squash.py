"""The fast conversion gives what Apptainer itself gives: same files, same settings, same labels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stackwright import host
from stackwright.engines import apptainer, squash
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.errors import ConvertError
from stackwright.runner import Runner

pytestmark = pytest.mark.engine

# Each thing that an overlay of layers can get wrong: files that are gone, replaced folders, modes, owners,
# hard links, an empty file where Apptainer wants one, and no file where it makes one.
CONTAINERFILE = """\
FROM {tiny}
LABEL org.stackwright.test=yes spaced="a b"
ENV FROM_IMAGE='a  b' OTHER=2
WORKDIR /opt/work
ENTRYPOINT ["echo", "the entrypoint"]
CMD ["its argument"]
RUN mkdir -p /opt/replaced /opt/gone && echo old > /opt/replaced/old && echo x > /opt/gone/x
RUN busybox rm -r /opt/gone /opt/replaced && mkdir /opt/replaced && echo new > /opt/replaced/new
RUN busybox chmod 751 /etc && busybox chown 12:34 /etc && echo secret > /opt/s && busybox chmod 4640 /opt/s
RUN busybox ln /opt/s /opt/hard && busybox ln -s s /opt/soft && busybox rm /etc/passwd
"""
MANY = "".join(f"RUN echo {number} > /tmp/{number}\n" for number in range(12))
"""Layers enough that their names are more than the kernel's fsconfig takes as one option."""

TIME_OF_BUILD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
OF_THE_WAY = ("build-date", "deffile.from")


@pytest.fixture(scope="module")
def program(runner: Runner, docker: Docker) -> Apptainer:
    return apptainer.find(runner, docker, mirror=host.apt_mirror(runner))


@pytest.fixture(scope="module")
def image(
    runner: Runner, docker: Docker, tiny: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("image")
    (folder / "Dockerfile").write_text(CONTAINERFILE.format(tiny=tiny) + MANY + "USER user\n")
    name = f"stackwright-test/layers:{os.getpid()}"
    done = runner(docker.command("buildx", "build", "--network=none", "--tag", name, folder))
    assert done.ok, done.stderr
    yield name
    engine.remove(docker, name)


@pytest.fixture(scope="module")
def both(
    runner: Runner, docker: Docker, program: Apptainer, image: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The SIF that Apptainer makes of a saved image, and the one made of its layers."""
    folder = tmp_path_factory.mktemp("both")
    archive = engine.save(docker, runner, image, folder / "image.tar")
    program.build(folder / "slow.sif", f"docker-archive:{archive}")
    assert squash.squash(runner, docker, image, folder / "fast.sif")
    archive.unlink()
    assert sorted(path.name for path in folder.iterdir()) == ["fast.sif", "slow.sif"]
    return folder / "slow.sif", folder / "fast.sif"


def _listing(docker: Docker, sif: Path) -> list[str]:
    """Mode, owner, size and name of each file, as unsquashfs lists them."""
    offset = sif.read_bytes().index(b"hsqs")
    job = Job(
        image=apptainer.IMAGE,
        argv=("unsquashfs", "-offset", str(offset), "-lls", "/in/it.sif"),
        mounts=(Mount(source=sif, target="/in/it.sif"),),
        env=(("PATH", "/usr/bin:/bin"),),
    )
    done = engine.run(docker, job)
    assert done.ok, done.stderr
    return [TIME_OF_BUILD.sub("", line) for line in done.stdout.splitlines() if "labels.json" not in line]


def test_the_same_files(docker: Docker, both: tuple[Path, Path]) -> None:
    slow, fast = (_listing(docker, sif) for sif in both)
    names = [line.split("squashfs-root", 1)[1] for line in fast if "squashfs-root" in line]
    assert "/opt/replaced/new" in names
    assert not {"/opt/replaced/old", "/opt/gone", "/etc/passwd"} & set(names)
    assert [line[:10] for line in fast if line.endswith("/opt/s")] == ["-rwSr-----"]
    of_config = re.compile(r"\.singularity\.d/Singularity|squashfs-root/?$")
    assert [line for line in fast if not of_config.search(line)] == [
        line for line in slow if not of_config.search(line)
    ]


def test_the_same_settings(program: Apptainer, both: tuple[Path, Path]) -> None:
    slow, fast = (program.inspect(sif)["attributes"] for sif in both)
    assert fast["labels"]["spaced"] == "a b"
    for one in (slow, fast):
        one["labels"] = {key: text for key, text in one["labels"].items() if not key.endswith(OF_THE_WAY)}
        one.pop("deffile", None)
    assert fast == slow


def test_it_runs(program: Apptainer, both: tuple[Path, Path]) -> None:
    for sif in both:
        done = program.exec(sif, ("sh", "-c", 'cat /opt/replaced/new; echo "$FROM_IMAGE"'))
        assert done.stdout == "new\na  b\n", done.stderr


def test_where_layers_are_no_folders_it_declines(
    runner: Runner, docker: Docker, image: str, tmp_path: Path
) -> None:
    other_driver = replace(docker, driver="overlayfs")
    assert not squash.squash(runner, other_driver, image, tmp_path / "x.sif")
    assert squash.layers(docker, image) is not None
    assert squash.layers(docker, "no-such-image:1") is None
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_nothing(runner: Runner, docker: Docker, image: str, tmp_path: Path) -> None:
    with pytest.raises(ConvertError) as caught:
        squash.squash(runner, docker, image, tmp_path / "x.sif", options="-comp no-such-compressor")
    assert caught.value.place == str(tmp_path / "x.sif")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_conversion_ends(runner: Runner, docker: Docker, image: str, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="no end after"):
        squash.squash(runner, docker, image, tmp_path / "x.sif", timeout=0.2)
    ours = f"label={engine.MADE_BY_US}={os.getpid()}"
    assert runner(docker.command("ps", "--all", "--quiet", "--filter", ours)).stdout == ""
    assert list(tmp_path.iterdir()) == []
