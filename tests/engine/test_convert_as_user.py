"""An ordinary user who may use the engine, and has nothing else of root, gets the same file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import contents
from stackwright.build.sif import convert
from stackwright.engines import apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.sif.squashfs import Way
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = [pytest.mark.engine, pytest.mark.long]
ROOT = Path(__file__).parents[2]
USER = "4242"
"""Of nobody: no such user is in /etc/passwd."""

PROGRAM = """
import sys
from pathlib import Path
from stackwright.build.sif import convert
from stackwright.engines import apptainer, docker
from stackwright.engines.sif.squashfs import Way
from stackwright.host.runner import Runner
runner = Runner()
engine = docker.find(runner)
ways = (Way[sys.argv[3]],) if len(sys.argv) > 3 else tuple(Way)
made = convert.to_sif(sys.argv[1], Path(sys.argv[2]), docker=engine, runner=runner, image_bytes=10**7,
                      apptainer=apptainer.find(runner, engine),
                      conversion=convert.Conversion(ways=ways))
print(made.way.name)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's own are root's alone."""
    made = Path(tempfile.mkdtemp(prefix="stackwright-test-"))
    os.chown(made, int(USER), int(USER))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def as_user(docker: Docker, folder: Path) -> list[str]:
    """What begins a command line of a program in Python as this user."""
    socket = docker.host.removeprefix("unix://")
    if os.geteuid() != 0 or socket == docker.host or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, and give that user the engine's socket")
    group = str(Path(socket).stat().st_gid)
    words = ["setpriv", "--reuid", USER, "--regid", USER, "--groups", group]
    packages = Path(pytest.__file__).parents[1]
    words += ["env", f"HOME={folder}", f"PYTHONPATH={ROOT}:{packages}"]
    for python in (sys.executable, "/usr/bin/python3"):
        argv = [*words, python, "-c", "import docker, spython.main, stackwright.build.sif.convert"]
        if subprocess.run(argv, cwd="/", capture_output=True, check=False).returncode == 0:
            return [*words, python]
    pytest.skip(f"another user cannot read {ROOT} and its environment")


@pytest.mark.parametrize("way", [None, Way.STREAM, Way.ARCHIVE])
def test_the_same_file_without_root(
    way: Way | None,
    as_user: list[str],
    folder: Path,
    tiny: str,
    docker: Docker,
    runner: Runner,
    tmp_path: Path,
) -> None:
    program = apptainer.find(runner, docker, mirror=settings.apt_mirror(runner))
    ours = tmp_path / "x.sif"
    convert.to_sif(tiny, ours, docker=docker, runner=runner, apptainer=program, image_bytes=10**7)
    theirs = folder / "x.sif"
    argv = [*as_user, "-c", PROGRAM, tiny, str(theirs), *((way.name,) if way else ())]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first = Way.MOUNTED if docker.mounts_images else Way.STREAM
    assert done.stdout.strip() == (way or first).name
    found = contents.differences(contents.of_sif(docker, ours), contents.of_sif(docker, theirs))
    assert [difference for difference in found if difference.what != "time"] == []
    if way is not Way.ARCHIVE:  # whose file is written by an apptainer that is root in its container
        assert theirs.stat().st_uid == int(USER)
    assert [path.name for path in folder.iterdir() if path.name not in (".docker", ".apptainer")] == ["x.sif"]
