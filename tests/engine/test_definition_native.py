"""A definition file built where no engine is: a host with apptainer of its own, as an ordinary user.

The host is a container of Debian's packages with this checkout in it, and nothing in it reaches the engine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import cut_down
import pytest
from rows import ROOT

from stackwright.build.sif import convert
from stackwright.core.render import dockerfile
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines import tool_image
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.host.runner import Completed, Runner
from stackwright.host.site import settings as host

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
PYTHON = ("docker", "jinja2", "packaging", "pydantic", "rich", "spython", "yaml")
HOST = tool_image.MadeImage(
    name="stackwright-test/native:1",
    purpose="test",
    suite=apptainers.SUITE,
    packages=(*apptainers.PACKAGES, "mmdebstrap", "uidmap", *(f"python3-{name}" for name in PYTHON)),
)
"""Its Python is not this host's, so that the project's environment is of no use in it."""
USER = 1000
BECOME = (
    f"useradd --create-home --uid {USER} user && chmod 666 /dev/fuse && "
    "exec setpriv --reuid user --regid user --init-groups env HOME=/home/user "
    'PYTHONPATH=/project:/project/tests/support/engine:/project/tests/support/samples "$@"'
)
BUILD = """
from pathlib import Path
import cut_down
from stackwright.core.errors import EngineError
from stackwright.core.render import definition, dockerfile as render
from stackwright.build.sif.convert import finish
from stackwright.build.sif.from_definition import Builder, Disk, built
from stackwright.engines import apptainer, docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings

runner = Runner()
try:
    raise AssertionError(docker.find(runner))
except EngineError as error:
    print("no engine:", error.cause)
site = settings.site(runner)
program = apptainer.find(runner, None, mirror=site.mirror)
assert program.native, program
render._packages = lambda *_: cut_down.PACKAGES
row, target = cut_down.row(), Path("/out/x.def.sif")
builder = Builder(apptainer=program, runner=runner, docker=None, site=site)
recipe = definition.render_definition(row, cut_down.SMALL)
with built(row, recipe, target, builder, Disk(needs=10**9)) as sif:
    finish(sif, target, apptainer=program, wanted=dict(render.labels(row)))
"""

KILLED = """
import subprocess
from pathlib import Path
from stackwright.build.sif.convert import scratch_folder
from stackwright.host.runner import Runner

left = Path("/out/.sif-killed")
make = f"mkdir -p {left}/rootfs/var && chown -R 33:33 {left}/rootfs"
subprocess.run(["unshare", "--map-auto", "--map-root-user", "sh", "-c", make], check=True)
assert (left / "rootfs").stat().st_uid > 65536
assert subprocess.run(["rm", "-rf", left], check=False).returncode
with scratch_folder(Path("/out/x.sif"), "the next one", None, Runner()) as folder:
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
"""


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "out"
    folder.mkdir()
    shutil.chown(folder, USER, USER)
    yield folder


def run_as_user(program: str, out: Path, runner: Runner, docker: Docker) -> Completed:
    site = host.site(runner)
    tool_image.ensure(HOST, runner, docker, mirror=site.mirror)
    settings = [(f"PIP_{name.upper().replace('-', '_')}", value) for name, value in site.pip]
    settings += [("STACKWRIGHT_APT_MIRROR", site.mirror or ""), ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")]
    mounts = [Mount(source=ROOT, target="/project"), Mount(source=out, target="/out", read_only=False)]
    mounts += [Mount(source=site.ca, target=str(host.CA_BUNDLES[0]))] if site.ca else []
    job = Job(
        image=HOST.name,
        argv=("bash", "-c", BECOME, "bash", "python3", "-c", program),
        mounts=tuple(mounts),
        env=(*settings, *site.proxies),
        privileged=True,
    )  # fmt: skip
    return engine.run(docker, job, timeout=900)


def test_it_is_built_without_an_engine_and_without_root(out: Path, runner: Runner, docker: Docker) -> None:
    done = run_as_user(BUILD, out, runner, docker)
    assert done.ok, done.stdout + done.stderr
    assert "no engine: " in done.stdout
    assert sorted(path.name for path in out.iterdir()) == ["x.def.log", "x.def.sif"]
    assert (out / "x.def.sif").stat().st_uid == USER
    assert "passed: files and versions, links, and torch\n" in (out / "x.def.log").read_text()
    apptainer = apptainers.find(runner, docker, mirror=host.apt_mirror(runner))
    found = convert.labels(apptainer, out / "x.def.sif")
    assert found.items() >= dict(dockerfile.labels(cut_down.row())).items()


def test_what_one_left_that_was_killed_is_removed_though_its_files_are_of_other_users(
    out: Path, runner: Runner, docker: Docker
) -> None:
    done = run_as_user(KILLED, out, runner, docker)
    assert done.ok, done.stdout + done.stderr
    assert list(out.iterdir()) == []
