"""A file cut short, a full disk, kill -9: never a bad file under the final name, always a clear message."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackwright import convert, host
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.sif import require_whole
from stackwright.errors import ConvertError, DiskError
from stackwright.runner import Runner

pytestmark = pytest.mark.engine
ROOT = Path(__file__).parents[2]
SIZE = 48 * 2**20
"""Bytes of the image that no compression makes smaller."""

CUTS = 10
SEED = 20260
"""Written down, so that a cut that goes wrong can be made again."""


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=host.apt_mirror(runner))


@pytest.fixture(scope="module")
def image(
    runner: Runner, docker: Docker, tiny: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("image")
    text = f"FROM {tiny}\nLABEL a=b\nRUN dd if=/dev/urandom of=/big bs=1048576 count={SIZE >> 20}\n"
    (folder / "Dockerfile").write_text(text)
    name = f"stackwright-test/faults-of-conversion:{os.getpid()}"
    done = runner(docker.command("buildx", "build", "--network=none", "--tag", name, folder))
    assert done.ok, done.stderr
    yield name
    engine.remove(docker, name)


def to_sif(
    image: str, target: Path, runner: Runner, docker: Docker, apptainer: Apptainer, size: int = SIZE
) -> convert.Made:
    return convert.to_sif(image, target, docker=docker, runner=runner, apptainer=apptainer, image_bytes=size)


@pytest.fixture(scope="module")
def sif(
    image: str, runner: Runner, docker: Docker, apptainer: Apptainer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    target = tmp_path_factory.mktemp("sif") / "x.sif"
    assert to_sif(image, target, runner, docker, apptainer).bytes > SIZE
    return target


# -- cut short --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", sorted(random.Random(SEED).uniform(0, 1) for _ in range(CUTS)))
def test_a_file_cut_at_a_random_place_is_refused(
    place: float, sif: Path, apptainer: Apptainer, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.sif"
    cut.write_bytes(sif.read_bytes()[: int(sif.stat().st_size * place)])
    with pytest.raises(ConvertError, match=r"cut short|no SIF") as caught:
        convert.labels(apptainer, cut)
    assert caught.value.place == str(cut)
    assert caught.value.hint


@pytest.mark.parametrize("kept", [0, 10, 127, 128, 4000, 30_000, 36_000])
def test_and_at_every_place_where_its_layout_changes(kept: int, sif: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.sif"
    cut.write_bytes(sif.read_bytes()[:kept])
    with pytest.raises(ConvertError, match=r"cut short|no SIF"):
        require_whole(cut)


def test_one_byte_less_is_seen_and_a_whole_file_is_not_refused(sif: Path, tmp_path: Path) -> None:
    require_whole(sif)
    (tmp_path / "x.sif").write_bytes(sif.read_bytes()[:-1])
    with pytest.raises(ConvertError, match="cut short"):
        require_whole(tmp_path / "x.sif")


def test_a_conversion_that_wrote_too_little_gives_nothing_out(
    image: str, sif: Path, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def half(runner: Runner, docker: Docker, image: str, target: Path, **_: object) -> bool:
        content = sif.read_bytes()
        return bool(target.write_bytes(content[: len(content) // 2]))

    monkeypatch.setattr(convert, "squash", half)
    with pytest.raises(ConvertError, match="cut short"):
        to_sif(image, tmp_path / "x.sif", runner, docker, apptainer)
    assert list(tmp_path.iterdir()) == []


# -- a full disk ------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path, runner: Runner) -> Iterator[Path]:
    """A file system with room for half of the SIF."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = runner(["mount", "-t", "tmpfs", "-o", f"size={SIZE // 2}", "tmpfs", folder])
    if not done.ok:
        pytest.skip(f"only root can mount a small disk: {done.stderr.strip()}")
    yield folder
    assert runner(["umount", folder]).ok


@pytest.mark.parametrize("in_place", [True, False])
def test_a_disk_that_gets_full_meanwhile(
    in_place: bool, image: str, small_disk: Path, runner: Runner, docker: Docker, apptainer: Apptainer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if not in_place:
        monkeypatch.setattr(convert, "layers", lambda *_: None)
    target = small_disk / "x.sif"
    target.write_text("the one of yesterday")
    with pytest.raises(DiskError, match="full") as caught:
        to_sif(image, target, runner, docker, apptainer, size=1)
    assert caught.value.place == str(small_disk)
    assert target.read_text() == "the one of yesterday"
    assert [path.name for path in small_disk.iterdir()] == ["x.sif"]


# -- kill -9 ----------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from stackwright import convert
from stackwright.engines import apptainer, docker
from stackwright.runner import Runner
runner = Runner()
engine = docker.find(runner)
print("begin", flush=True)
convert.to_sif(sys.argv[1], Path(sys.argv[2]), docker=engine, runner=runner, image_bytes=1,
               apptainer=apptainer.find(runner, engine))
"""


@pytest.mark.parametrize("meanwhile", [".image.sif.tar", "image.sif", "image.sif.squashfs"])
def test_kill_9_leaves_the_old_file_and_the_next_conversion_works(
    meanwhile: str, image: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
) -> None:
    target = tmp_path / "x.sif"
    target.write_text("the one of yesterday")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, image, target], stdout=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == b"begin\n"
        while child.poll() is None and not list(tmp_path.glob(f"{convert.SCRATCH}*/{meanwhile}")):
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL, "it ended before it was killed: make the image larger"
    assert target.read_text() == "the one of yesterday"
    _end_what_it_started(docker, runner, child.pid)
    made = to_sif(image, target, runner, docker, apptainer)
    assert made.bytes == target.stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == ["x.sif"]


def _end_what_it_started(docker: Docker, runner: Runner, pid: int) -> None:
    """As `build.py clean` does: a container outlives the process that was to wait for it."""
    label = f"label={engine.MADE_BY_US}={pid}"
    for name in runner(docker.command("ps", "--all", "--quiet", "--filter", label)).stdout.split():
        runner(docker.command("rm", "--force", name))
