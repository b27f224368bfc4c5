"""A layer on a parent whose proof is recorded: the new layer is read, and judged with that proof."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import ledger_tree as sample
import pytest
import report_samples
import rows
from rich.console import Console

from stackwright.build.derived import prove
from stackwright.build.derived.prove import Subject
from stackwright.build.display import Display
from stackwright.build.layer import files, image
from stackwright.build.layer.parent_proof import ParentProof
from stackwright.core.errors import RejectedError
from stackwright.core.ledger.entry import Layer
from stackwright.core.model import labels
from stackwright.core.model.record import Record
from stackwright.core.model.row import Recipe, World
from stackwright.core.model.site import Site
from stackwright.core.render.dockerfile import declared
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned, Project
from stackwright.host.runner import Runner
from stackwright.probe import site_leaks
from stackwright.probe.digest import checks_digest
from stackwright.probe.outside.documents import documents
from stackwright.probe.outside.layers import in_folder
from stackwright.probe.outside.read import row_of
from stackwright.records import files as record

pytestmark = pytest.mark.engine
STACK = rows.stack(id="row")
ROW = Planned(stack=STACK, recipe=Recipe(id="row", key="5e" * 32, files=()))
MIRROR = b"http://mirror.planted.example/debian"
SITE = Site(mirror=MIRROR.decode(), ca=None, pip=(), proxies=())
EINOPS = {"einops/__init__.py": b"main = print\n"}
PASSWD = b"root:x:0:0:root:/root:/bin/bash\n"


@pytest.fixture(scope="module")
def parent(
    docker: Docker, runner: Runner, tiny: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The labels of a row, a wheel, a file of nothing, and one that a later layer takes away."""
    folder = tmp_path_factory.mktemp("parent")
    wheel = {"torch-2.6.0.dist-info/RECORD": sample.record("torch-2.6.0", sample.OF_TORCH), **sample.OF_TORCH}
    contents = {f"{sample.SITE}/{path}": content for path, content in wheel.items()}
    contents |= {"/etc/stackwright/row.json": json.dumps(declared(STACK)).encode(), "/etc/passwd": PASSWD}
    contents |= {"/etc/group": b"root:x:0:\n", "/evil": b"", "/gone": b""}
    for path, content in contents.items():
        (folder / "root" / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (folder / "root" / path[1:]).write_bytes(content)
    said = json.dumps(declared(STACK))
    (folder / "Dockerfile").write_text(
        f"FROM {tiny}\nCOPY root /\nUSER 0\nRUN busybox rm /gone\n"
        f"LABEL {labels.ROW}='row' {labels.KEY}='{ROW.recipe.key}' {labels.STACK}='{said}'\n"
        'USER 1000\nWORKDIR /workspace\nENTRYPOINT []\nCMD ["/bin/sh"]\n'
    )
    name = f"stackwright-test/proven-{uuid4().hex[:12]}:1"
    done = runner(docker.build("--network=none", "--tag", name, folder))
    assert done.ok, done.stderr
    yield name
    engine.remove(docker, name)


@pytest.fixture
def of(parent: str, runner: Runner, tmp_path: Path) -> Subject:
    project = Project(root=rows.ROOT, matrix=rows.ROOT / "matrix.yaml", out=tmp_path / "out")
    return prove.subject(project, parent, site=SITE, runner=runner, display=Display(Console(stderr=True)))


def recorded(of: Subject, docker: Docker, **changes: Any) -> Record:
    """Leave below --out what a run leaves: the record of the image, and the facts of its proof."""
    project = replace(of.project, out=of.project.out.parent.parent)
    read = site_leaks.read(docker, of.image.id, of.site)
    found = documents(read.reads, row_of(ROW, World.DOCKER))
    described = engine.inspect(docker, of.image.id)
    folder = project.folder(ROW.recipe) / "facts" / World.DOCKER
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"ledger": found.ledger, "files": found.files, "layers": read.layers, "image": described}
    for name, document in facts.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    sampled = report_samples.all_passed()
    assert sampled.image
    made = replace(
        sampled, row="row", key=ROW.recipe.key, image=replace(sampled.image, id=of.image.id),
        tools=(("checks", checks_digest(rows.ROOT)),),
    )  # fmt: skip
    project.records.mkdir(parents=True, exist_ok=True)
    return record.begin(replace(made, **changes), project.records)


def test_names_are_those_that_a_reading_of_all_files_finds(of: Subject) -> None:
    names = ParentProof(of, ROW).names
    assert names is not None
    seen = [
        {path: (entry.kind, entry.mode, entry.target) for path, entry in tree.entries.items()}
        for tree in (names, of.whole)
    ]
    assert seen[0] == seen[1]
    assert "/gone" not in names.entries
    assert dict(names.texts) == {"/etc/passwd": PASSWD.decode(), "/etc/group": "root:x:0:\n"}


def test_only_the_proof_of_this_very_image_is_taken_over(of: Subject, docker: Docker) -> None:
    assert ParentProof(of, ROW).taken is None, "nothing is recorded"
    assert ParentProof(of, ROW).tree is not ParentProof(of, ROW).names
    sampled = report_samples.all_passed().image
    assert sampled
    failed = (report_samples.verdict(World.DOCKER, static__user="root"),)
    for other in (
        {"image": sampled},
        {"tools": (("checks", "of another day"),)},
        {"verdicts": failed},
        {"verdicts": ()},
    ):
        recorded(of, docker, **other)
        assert ParentProof(of, ROW).taken is None, other
    known = recorded(of, docker)
    found = ParentProof(of, ROW).taken
    assert found and (found.parent, found.started) == (of.image.id, known.started)
    elsewhere = replace(of, site=replace(SITE, cache="registry.planted.example/cache"))
    assert ParentProof(elsewhere, ROW).taken is None, "the parent was not searched for that"
    assert "static.user" in {check.id for check in failed[0].failed}


@pytest.mark.parametrize(
    ("added", "red"),
    [
        ({}, {"undeclared": ["/evil"]}),
        ({"evil.py": b""}, {"undeclared": ["/evil", f"{sample.SITE}/evil.py"]}),
        ({"einops/__init__.py": b"import os\n"}, {"wheels": [f"{sample.SITE}/einops/__init__.py"]}),
        (
            {"einops/left": MIRROR},
            {"left": [f"{sample.SITE}/einops/left"[1:]]},
        ),
    ],
)
def test_the_new_files_are_judged_with_the_parents_proof(
    added: dict[str, bytes], red: dict[str, list[str]], of: Subject, docker: Docker, tmp_path: Path
) -> None:
    recorded(of, docker)
    content = {**EINOPS, **added, "einops-1.0.dist-info/RECORD": sample.record("einops-1.0", EINOPS)}
    for path, text in content.items():
        (tmp_path / "tree" / f"{sample.SITE}/{path}"[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / f"{sample.SITE}/{path}"[1:]).write_bytes(text)
    nothing = Site(mirror=None, ca=None, pip=(), proxies=())
    new = in_folder(tmp_path / "tree", site_leaks.search(nothing)).layer
    proof = ParentProof(of, ROW)
    files.refuse_hidden(new, proof.tree, "row")
    name = f"stackwright-test/proven-{uuid4().hex[:12]}:1"
    content_of = files.archive(tmp_path / "tree", new.entries)
    image.put(docker, of.image.id, content_of, name=name, label="{}", named=("einops==1.0",))
    try:
        layered = prove.layered(of, name)
        apart = proof.of_image(layered, row_of(ROW, World.DOCKER))
        whole = site_leaks.read(docker, layered.image.id, SITE)
        at_once = documents(whole.reads, row_of(ROW, World.DOCKER))
        assert apart.ledger["problems"] == at_once.ledger["problems"]
        assert apart.layers == whole.layers
        found = {
            **{kind: [path for path, _ in every] for kind, every in apart.ledger["problems"].items()},
            "left": [entry["path"] for entry in apart.layers["left"]],
        }
        assert all(set(paths) <= set(found[kind]) for kind, paths in red.items()), found
    finally:
        engine.remove(docker, name)


def test_a_file_that_would_hide_one_of_the_parent_is_found_by_its_name(of: Subject, docker: Docker) -> None:
    recorded(of, docker)
    proof = ParentProof(of, ROW)
    assert proof.taken is not None
    hides = sample.file(f"{sample.SITE}/torch/version.py", b"")
    layer = Layer(name="new", entries=(hides,), texts={})
    with pytest.raises(RejectedError, match=r"torch/version\.py of the parent would be hidden"):
        files.refuse_hidden(layer, proof.tree, "row")
