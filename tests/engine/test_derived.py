"""An image that was built FROM a row's image has its labels, and is told from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import ledger_tree as sample
import pytest
import rows
from rich.console import Console

from stackwright.build.derived import examine, parent, prove
from stackwright.build.derived.prove import Subject
from stackwright.build.display import Display
from stackwright.core.checks.differences import between
from stackwright.core.errors import EngineError, UsageError
from stackwright.core.ledger.entry import final
from stackwright.core.model import labels
from stackwright.core.model.row import Recipe
from stackwright.core.model.site import Site
from stackwright.core.render.dockerfile import declared
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned, Project
from stackwright.host.runner import Runner

pytestmark = pytest.mark.engine

KEY = "5e" * 32
STACK = json.dumps(declared(rows.stack(id="row")))
ROW = f"""\
COPY parent /
LABEL {labels.OCI}title='row' \\
      {labels.ROW}='row' {labels.KEY}='{KEY}' {labels.STACK}='{STACK}'
USER user
WORKDIR /tmp
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["/bin/sh"]
"""
SITE = sample.SITE.lstrip("/")
NEWER = {**sample.OF_TORCH, "torch/version.py": b"cuda = 13.0\n"}
Build = Callable[[str, str], str]


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def wheel(name: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    listed = {f"{name}.dist-info/RECORD": sample.record(name, files), **files}
    return {f"{SITE}/{path}": content for path, content in listed.items()}


@pytest.fixture
def build(docker: Docker, runner: Runner, tiny: str, tmp_path: Path) -> Iterator[Build]:
    """Build images in the context of a row's small image, and of one that has a newer torch."""
    write(tmp_path / "parent", {"etc/stackwright/row.json": STACK.encode(), "etc/group": b"root:x:0:\n"})
    write(tmp_path / "parent", wheel("torch-2.6.0", sample.OF_TORCH))
    write(tmp_path / "newer", wheel("torch-2.12.0", NEWER))
    made: list[str] = []

    def run(below: str, text: str) -> str:
        name = f"stackwright-test/derived-{uuid4().hex[:12]}:1"
        (tmp_path / "Dockerfile").write_text(f"FROM {below}\n{text}")
        done = runner(docker.build("--network=none", "--tag", name, tmp_path))
        assert done.ok, done.stderr
        made.append(name)
        return name

    yield run
    for name in reversed(made):
        engine.remove(docker, name)


@pytest.fixture
def looked_at(docker: Docker, runner: Runner, tmp_path: Path) -> Callable[[str], Subject]:
    project = Project(root=rows.ROOT, matrix=rows.ROOT / "matrix.yaml", out=tmp_path / "out")
    site = Site(mirror=None, ca=None, pip=(), proxies=())

    def look(image: str) -> Subject:
        return prove.subject(project, image, site=site, runner=runner, display=Display(Console(stderr=True)))

    return look


def test_it_is_named_by_what_it_was_built_from(build: Build, docker: Docker, tiny: str) -> None:
    parents = build(tiny, ROW)
    own = examine.of_image(docker, parents)
    assert (own.row, own.key, own.added, own.whole) == ("row", KEY, (), True)
    image = build(parents, "USER 0\nCOPY Dockerfile /added\nENV API_TOKEN=hunter2hunter2\n")
    found = examine.of_image(docker, image)
    assert found.title == "derived from row 5e5e5e5e5e5e, and not that image"
    assert [line.split()[0] for line in found.added] == ["USER", "COPY", "ENV"]
    assert "hunter2" not in str(found.added)
    again = build(image, "LABEL more=1\n")
    assert len(examine.of_image(docker, again).added) == 4


def test_what_has_no_rows_labels_is_refused_and_labels_alone_are_not_the_row(
    build: Build, docker: Docker, tiny: str
) -> None:
    with pytest.raises(UsageError, match="it has no row's labels"):
        examine.of_image(docker, tiny)
    with pytest.raises(EngineError, match="no such image"):
        examine.of_image(docker, "stackwright-test/no-such:1")
    forged = build(tiny, f"LABEL a=1\nLABEL x={labels.ROW}\n")
    with pytest.raises(UsageError, match="it has no row's labels"):
        examine.of_image(docker, forged)
    named = build(tiny, f"LABEL x=1 {labels.ROW}=row\nLABEL {labels.KEY}={KEY}\nUSER 0\n")
    assert examine.of_image(docker, named).title.startswith("derived from row 5e5e5e5e5e5e")


def test_a_newer_torch_is_told_by_its_name_and_by_the_proven_files(
    build: Build, looked_at: Callable[[str], Subject], tiny: str
) -> None:
    upgrade = (
        f"USER 0\nRUN busybox rm -r /{SITE}/torch /{SITE}/torch-2.6.0.dist-info\nCOPY newer /\nUSER user\n"
    )
    of = looked_at(build(build(tiny, ROW), upgrade))
    assert of.below is not None
    now = final(read.layer for read in of.reads)
    found = between(of.below, now, sample.ROW)
    assert list(map(str, found.python)) == ["torch 2.6.0 → 2.12.0"]
    assert found.files is not None
    (torch,) = found.files
    assert torch.owner == "torch-2.6.0"
    assert torch.changed == (f"/{SITE}/torch/version.py",)
    assert torch.gone == (f"/{SITE}/torch-2.6.0.dist-info/RECORD",)


def test_a_row_that_no_matrix_makes_is_known_from_the_image(
    build: Build, looked_at: Callable[[str], Subject], tiny: str
) -> None:
    """By the matrix where that makes the key, by the lock that the labels name, or by the lower layers."""
    of = looked_at(build(build(tiny, ROW), "USER root\n"))
    same = Planned(stack=rows.stack(id="row"), recipe=Recipe(id="row", key=KEY, files=()))
    other = replace(same, recipe=Recipe(id="row", key="6f" * 32, files=()))

    def known(of: Subject, *planned: Planned) -> parent.Parent:
        return parent.find(of.project, planned, of.image, of.inside)

    assert known(of, same).planned is same
    locked = known(of, other)
    assert locked.known == "its labels, and cuda12-torch.txt, the lock that they name"
    assert locked.planned.stack.lock == rows.LOCK
    elsewhere = replace(of, project=replace(of.project, matrix=of.project.out / "matrix.yaml"))
    found = known(elsewhere)
    assert found.known == "its labels and its lower layers"
    assert [(package.name, package.version) for package in found.planned.stack.lock.packages] == [
        ("torch", "2.6.0")
    ]
    squashed = replace(elsewhere, image=replace(of.image, added=(), whole=False))
    squashed.__dict__["below"] = None
    assert set(known(squashed).not_judged) >= {"declared.packages", "declared.distribution"}


def test_a_label_that_cannot_be_read_is_refused(
    build: Build, looked_at: Callable[[str], Subject], tiny: str
) -> None:
    of = looked_at(build(build(tiny, ROW), f"LABEL {labels.STACK}='{{}}'\n"))
    with pytest.raises(UsageError, match=r"cannot be read: .* not of one row"):
        parent.find(of.project, (), of.image, of.inside)


def test_a_file_that_is_no_sif_is_refused(looked_at: Callable[[str], Subject], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        looked_at(str(tmp_path / "none.sif"))
