"""A file cut short, a full disk, kill -9: never a bad file under the final name, always a clear message."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stackwright.build.sif import convert
from stackwright.core.errors import ConvertError, DiskError
from stackwright.core.model.compression import DEFAULT
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.sif.layout import require_whole
from stackwright.engines.sif.squashfs import WRITTEN, Squashing, Way
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = [pytest.mark.engine, pytest.mark.long]
ROOT = Path(__file__).parents[2]
NIGHTLY = pytest.mark.nightly
SIZE = 48 * 2**20
"""Bytes of the image that no compression makes smaller."""

CUTS = 10
SEED = 20260
"""Written down, so that a cut that goes wrong can be made again."""


@pytest.fixture(scope="module")
def apptainer(runner: Runner, docker: Docker) -> Apptainer:
    return apptainers.find(runner, docker, mirror=settings.apt_mirror(runner))


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
    image: str, target: Path, runner: Runner, docker: Docker, apptainer: Apptainer,
    ways: tuple[Way, ...] = tuple(Way),
) -> convert.Made:  # fmt: skip
    return convert.to_sif(
        image, target, docker=docker, runner=runner, apptainer=apptainer, image_bytes=SIZE,
        conversion=convert.Conversion(ways=ways),
    )  # fmt: skip


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
    def half(task: Squashing, way: Way) -> bool:
        content = sif.read_bytes()
        return bool((task.folder / WRITTEN).write_bytes(content[: len(content) // 2]))

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


@pytest.mark.parametrize("way", Way)
def test_a_disk_that_gets_full_meanwhile(
    way: Way, image: str, small_disk: Path, runner: Runner, docker: Docker, apptainer: Apptainer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(convert, "needed", lambda *_: 1)
    target = small_disk / "x.sif"
    target.write_text("the one of yesterday")
    with pytest.raises(DiskError, match="full") as caught:
        to_sif(image, target, runner, docker, apptainer, ways=(way,))
    assert caught.value.place == str(small_disk)
    assert target.read_text() == "the one of yesterday"
    assert [path.name for path in small_disk.iterdir()] == ["x.sif"]


@pytest.mark.parametrize("room", [pytest.param(1, marks=NIGHTLY), 2, pytest.param(3, marks=NIGHTLY)])
def test_several_at_once_do_not_exceed_the_disk(
    room: int, image: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
) -> None:
    """Three conversions on a disk where only one may run at a time, and which has room for 1, 2 or 3 files.

    Those that do not fit beside another wait for its end, and fail then if its file left too little.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    need = convert.needed(Way.MOUNTED, SIZE, DEFAULT)
    size = need + int((room - 0.5) * SIZE)
    assert size < 2 * need
    if not runner(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk]).ok:
        pytest.skip("only root can mount a small disk")
    said: list[str] = []

    def row(number: int) -> convert.Made:
        return convert.to_sif(
            image, disk / f"row{number}" / "x.sif", docker=docker, runner=runner, apptainer=apptainer,
            image_bytes=SIZE, conversion=convert.Conversion(ledger=disk / "room", say=said.append),
        )  # fmt: skip

    try:
        with ThreadPoolExecutor(3) as pool:
            rows = [pool.submit(row, number) for number in range(3)]
            failed = [error for row in rows if (error := row.exception())]
        made = sorted(disk.glob("*/x.sif"))
        assert len(made) == room, failed
        assert all(isinstance(error, DiskError) and "needs" in error.cause for error in failed)
        assert any("waits for the disk" in line for line in said)
        for sif in made:
            require_whole(sif)
        assert [path for path in disk.glob("*/*") if path.name.startswith(convert.SCRATCH)] == []
    finally:
        assert runner(["umount", disk]).ok


# -- kill -9 ----------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from stackwright.build.sif import convert
from stackwright.engines import apptainer, docker
from stackwright.engines.sif.squashfs import Way
from stackwright.host.runner import Runner
runner = Runner()
engine = docker.find(runner)
print("begin", flush=True)
convert.to_sif(sys.argv[1], Path(sys.argv[2]), docker=engine, runner=runner, image_bytes=1,
               apptainer=apptainer.find(runner, engine),
               conversion=convert.Conversion(ways=(Way[sys.argv[3]],)))
"""


KILLED = (
    *((way, name) for way in (Way.MOUNTED, Way.LAYERS) for name in ("image.tar", "skeleton.sif", WRITTEN)),
    *((Way.STREAM, name) for name in ("stream", "asked", WRITTEN)),
    *((Way.ARCHIVE, name) for name in ("image.tar", WRITTEN)),
)
"""When: as soon as there is a file of this name; in the one that is written, something has to be."""

FIRST = (
    (Way.MOUNTED, WRITTEN), (Way.LAYERS, "skeleton.sif"), (Way.STREAM, "asked"), (Way.ARCHIVE, "image.tar"),
)  # fmt: skip
"""Each way at one of its points; at the others every night."""


@pytest.mark.parametrize(
    ("way", "meanwhile"),
    [pytest.param(*point, marks=() if point in FIRST else NIGHTLY) for point in KILLED],
    ids=lambda value: getattr(value, "name", value),
)
def test_kill_9_leaves_the_old_file_and_the_next_conversion_works(
    way: Way, meanwhile: str, image: str, tmp_path: Path, runner: Runner, docker: Docker, apptainer: Apptainer
) -> None:
    target = tmp_path / "x.sif"
    target.write_text("the one of yesterday")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, image, target, way.name], stdout=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == b"begin\n"
        while child.poll() is None and not _reached(tmp_path, meanwhile):
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL, "it ended before it was killed: make the image larger"
    assert target.read_text() == "the one of yesterday"
    try:
        made = to_sif(image, target, runner, docker, apptainer)
        assert made.bytes == target.stat().st_size
        assert [path.name for path in tmp_path.iterdir()] == ["x.sif"]
        assert [line for line in _started_by(docker, runner, child.pid) if "Created" not in line] == []
    finally:
        for line in _started_by(docker, runner, child.pid):
            runner(docker.command("rm", "--force", line.split()[0]))


def _reached(folder: Path, name: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        for path in folder.glob(f"{convert.SCRATCH}*/{name}"):
            return name != WRITTEN or path.stat().st_size > 0
    return False


def _started_by(docker: Docker, runner: Runner, pid: int) -> list[str]:
    """Containers outlive the process that was to wait for them. One that is only created does no work."""
    label = f"label={engine.MADE_BY_US}={pid}"
    form = "{{.ID}} {{.Status}}"
    return runner(docker.command("ps", "--all", "--filter", label, "--format", form)).stdout.splitlines()
