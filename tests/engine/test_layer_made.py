"""A layer is made of new files alone, by the parent's own pip: on an image with a real Python."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import ledger_tree as sample
import pytest
import rows
from faults import harness
from rich.console import Console
from upstream_server import UpstreamServer

from stackwright.build.derived import examine, prove
from stackwright.build.derived.prove import Subject
from stackwright.build.display import Display
from stackwright.build.layer import files, image, overlay, resolve
from stackwright.build.layer.resolve import Question
from stackwright.build.sif import convert
from stackwright.core.checks.differences import between
from stackwright.core.errors import BuildError, RejectedError, UsageError
from stackwright.core.layer.asked import Resolved
from stackwright.core.ledger.entry import Kind, final
from stackwright.core.model import labels
from stackwright.core.model.compression import compression
from stackwright.core.model.row import Package, Stack
from stackwright.core.model.site import Site
from stackwright.core.render.dockerfile import declared
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.engines.sif.sign import file_sha256
from stackwright.host.project import Project
from stackwright.host.runner import Runner
from stackwright.host.site.settings import apt_mirror
from stackwright.probe.outside import squashfs
from stackwright.probe.outside.layers import Read

pytestmark = [pytest.mark.engine, pytest.mark.long]
KEY = "5e" * 32
NCCL = "nvidia/nccl/lib/libnccl.so.2"
STACK = rows.stack(id="row")


def wheel(folder: Path, name: str, contents: Mapping[str, str]) -> str:
    """Write a wheel; return its requirement line with its hash."""
    info = f"{name}-1.0.dist-info"
    texts = {
        **contents,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}=einops:main\n",
    }
    lines = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in texts.items()]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in {**texts, f"{info}/RECORD": "\n".join([*lines, f"{info}/RECORD,,", ""])}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    folder.mkdir(exist_ok=True)
    (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(made.getvalue())
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(made.getvalue()).hexdigest()}\n"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.fixture(scope="module")
def parent(docker: Docker, runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Python with pip in the environment, a file where NCCL is, and the labels of a row."""
    folder = tmp_path_factory.mktemp("parent")
    base = harness.base_image(docker, runner, folder)
    name = f"stackwright-test/layered-{uuid4().hex[:12]}:1"
    site = "/opt/stack/lib/python3.13/site-packages"
    (folder / "row.json").write_text(json.dumps(declared(STACK)))
    (folder / "Dockerfile").write_text(
        f"FROM {base}\nRUN python3 -m venv /opt/stack && mkdir -p {site}/nvidia/nccl/lib"
        f" && echo nccl > {site}/{NCCL}\nCOPY row.json /etc/stackwright/row.json\n"
        f"LABEL {labels.ROW}='row' {labels.KEY}='{KEY}' {labels.STACK}='{json.dumps(declared(STACK))}'\n"
        'USER 1000\nWORKDIR /workspace\nENTRYPOINT []\nCMD ["/bin/sh"]\n'
    )
    done = runner(docker.build("--network=none", "--tag", name, folder))
    assert done.ok, done.stderr
    yield name
    engine.remove(docker, name)


@pytest.fixture
def looked_at(runner: Runner, tmp_path: Path) -> Callable[[str], Subject]:
    project = Project(root=rows.ROOT, matrix=rows.ROOT / "matrix.yaml", out=tmp_path / "out")
    nowhere = (("index-url", "http://127.0.0.1:9/simple"), ("retries", "0"))
    site = Site(mirror=None, ca=None, pip=nowhere, proxies=())

    def look(name: str) -> Subject:
        return prove.subject(project, name, site=site, runner=runner, display=Display(Console(stderr=True)))

    return look


@pytest.fixture
def of(parent: str, looked_at: Callable[[str], Subject]) -> Subject:
    return looked_at(parent)


def resolved(pins: str, stack: Stack = STACK) -> Resolved:
    return Resolved(
        wanted=(), there=(), lock=stack.lock, new=(Package(name="einops", version="1.0"),), pins=pins
    )


def test_new_files_alone_are_put_on_the_parent(of: Subject, docker: Docker, tmp_path: Path) -> None:
    pins = wheel(tmp_path / "wheels", "einops", {"einops/__init__.py": "main = print\n"})
    (tmp_path / "work").mkdir()
    tree = files.install(of, "debian-13", resolved(pins), tmp_path / "work", tmp_path / "wheels")
    layer = files.read(tree, of).layer
    below = final(read.layer for read in of.reads)
    files.refuse_hidden(layer, below, "row")
    new = {entry.path for entry in layer.entries if entry.kind is Kind.FILE}
    assert {"/opt/stack/bin/einops", f"{sample.SITE}/einops/__init__.py"} <= new
    assert f"{sample.SITE}/einops/__pycache__/__init__.cpython-313.pyc" in new
    content = files.archive(tree, layer.entries)
    assert content == files.archive(tree, reversed(layer.entries))
    name = f"stackwright-test/layered-{uuid4().hex[:12]}:1"
    made = image.put(docker, of.image.id, content, name=name, label="{}", named=("einops==1.0",))
    try:
        described = examine.of_image(docker, name)
        assert described.title == "derived from row 5e5e5e5e5e5e, and not that image"
        assert described.added == ("COPY layer / # stackwright layer: einops==1.0",)
        on_it = prove.layered(of, name)
        assert on_it.image.id == made.id and on_it.below is not None
        found = between(on_it.below, final(read.layer for read in on_it.reads), sample.ROW)
        assert list(map(str, found.python)) == ["einops 1.0 added"]
        assert found.files == ()
        script = "import einops; print(einops.main.__module__)"
        job = engine.Job(image=name, argv=("/opt/stack/bin/python", "-c", script), network=False)
        assert engine.run(docker, job).stdout == "builtins\n"
        called = engine.run(docker, engine.Job(image=name, argv=("/opt/stack/bin/einops",), network=False))
        assert called.ok, called.stderr
    finally:
        engine.remove(docker, name)


@pytest.fixture
def sif(parent: str, docker: Docker, runner: Runner, tmp_path: Path) -> Path:
    target, apptainer = tmp_path / "row.sif", apptainers.find(runner, docker, mirror=apt_mirror(runner))
    fast = convert.Conversion(compression=compression("zstd:1"))
    convert.to_sif(
        parent, target, docker=docker, runner=runner, apptainer=apptainer, image_bytes=10**9, conversion=fast
    )
    return target


def test_an_overlay_is_laid_over_a_sif_and_hides_nothing(
    sif: Path, looked_at: Callable[[str], Subject], docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    of = looked_at(str(sif))
    pins = wheel(tmp_path / "wheels", "einops", {"einops/__init__.py": "main = print\n"})
    (tmp_path / "work").mkdir()
    tree = files.install(of, "debian-13", resolved(pins), tmp_path / "work", tmp_path / "wheels")
    new = files.read(tree, of).layer
    below = final(read.layer for read in of.reads)
    assert f"{sample.SITE}/{NCCL}" in below.entries
    listed = squashfs.names(sif, docker=docker, runner=runner)
    modes = [
        {path: (entry.kind, entry.mode, entry.target) for path, entry in t.entries.items()}
        for t in (listed, below)
    ]
    assert modes[0] == modes[1], "which is all that tells whether one would be hidden"
    files.refuse_hidden(new, below, "row")
    target = tmp_path / "row.einops.sqsh"
    assert overlay.write(tree, target, docker=docker, runner=runner) == target.stat().st_size
    again = tmp_path / "again.sqsh"
    overlay.write(tree, again, docker=docker, runner=runner)
    assert again.read_bytes() == target.read_bytes()
    layered = prove.on_sif(of, target, (*of.reads, Read(layer=new, seen=())), ("einops==1.0",))
    assert layered.image.title == "derived from row 5e5e5e5e5e5e, and not that image"
    assert layered.below is not None
    found = between(layered.below, final(read.layer for read in layered.reads), sample.ROW)
    assert (list(map(str, found.python)), found.files) == (["einops 1.0 added"], ())
    script = "import einops, os; print(einops.__file__, os.stat(einops.__file__).st_uid)"
    argv = ("/opt/stack/bin/python", "-c", script)
    done = convert.execute(layered.apptainer, sif, argv, mounts=(), timeout=60)
    assert done.stdout == f"{sample.SITE}/einops/__init__.py 0\n", done.stderr
    assert not convert.execute(of.apptainer, sif, argv, mounts=(), timeout=60).ok
    assert file_sha256(sif) == of.image.id


def test_a_wheel_that_hides_nccl_is_refused(of: Subject, tmp_path: Path) -> None:
    pins = wheel(tmp_path / "wheels", "hider", {NCCL: "another NCCL"})
    (tmp_path / "work").mkdir()
    tree = files.install(of, "debian-13", resolved(pins), tmp_path / "work", tmp_path / "wheels")
    with pytest.raises(RejectedError, match=rf"{NCCL} of the parent would be hidden"):
        files.refuse_hidden(files.read(tree, of).layer, final(read.layer for read in of.reads), "row")


def test_a_wheel_that_is_not_the_locked_one_is_not_installed(of: Subject, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "einops", {"einops.py": ""})
    (tmp_path / "work").mkdir()
    pins = f"einops==1.0 --hash=sha256:{'0' * 64}\n"
    with pytest.raises(BuildError, match="cannot be installed"):
        files.install(of, "debian-13", resolved(pins), tmp_path / "work", tmp_path / "wheels")


def question(path: Path, *lines: str) -> Question:
    path.write_text("\n".join(lines))
    return Question(stack=STACK, wanted=resolve.requirements(path))


def test_the_index_is_asked_with_the_parents_versions(
    upstream: UpstreamServer, runner: Runner, tmp_path: Path
) -> None:
    upstream.fill()
    site = Site(mirror=None, ca=None, pip=(), proxies=())
    numpy = STACK.lock.version("numpy") or ""
    upstream.package("numpy", numpy)
    upstream.package("einops", "0.8.2", ("numpy",))
    upstream.package("needs-newer", "1.0", ("torch>=2.7",))
    upstream.package("brings-nccl", "1.0", ("nvidia-nccl-cu13",))
    upstream.package("nvidia-nccl-cu13", "2.28.3")
    path = tmp_path / "requirements.txt"
    found = resolve.resolve(question(path, "einops", "torch>=2"), site=site, runner=runner)
    assert found.new == (Package(name="einops", version="0.8.2"),)
    assert found.there == (Package(name="torch", version="2.6.0"),)
    with pytest.raises(RejectedError, match=r"needs-newer cannot be installed .*torch"):
        resolve.resolve(question(path, "needs-newer"), site=site, runner=runner)
    with pytest.raises(RejectedError, match=r"a second nccl: brings-nccl → nvidia-nccl-cu13"):
        resolve.resolve(question(path, "brings-nccl"), site=site, runner=runner)
    with pytest.raises(UsageError, match=r"the parent has all of it: torch 2\.6\.0"):
        resolve.resolve(question(path, "torch"), site=site, runner=runner)
    with pytest.raises(UsageError, match="cannot be read"):
        resolve.requirements(tmp_path / "none.txt")
