"""A row that is in no matrix any more, as its image's label says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import ledger_tree as sample
import pytest
import rows
from compiling import compiling, locked, resolved

from stackwright.build.derived import parent
from stackwright.build.derived.examine import Labelled
from stackwright.core.ledger.account import account
from stackwright.core.ledger.entry import Tree
from stackwright.core.model.added.distributions import Added
from stackwright.core.model.added.image import Folder, Variable
from stackwright.core.model.labels import ROW, STACK
from stackwright.core.model.row import Package, Recipe, Stack, World
from stackwright.core.render import labelled
from stackwright.core.render.dockerfile import declared
from stackwright.host.project import Planned, Project
from stackwright.probe.outside.read import row_of

CONTENT = {"lib/ours.py": b"ANSWER = 42\n", "lib-x": b"x", "start": b"#!/bin/sh\n"}
INNER = {"a": b"a"}
PLACES = {"/opt/ours": CONTENT, "/opt/ours/inner": INNER}


def folder(place: str, files: Mapping[str, bytes]) -> Folder:
    return Folder(source="ours", place=place, files=tuple(files.items()))


def full() -> Stack:
    """A row with all that a row can add."""
    row = compiling("fast-op>=1", FORCE_CUDA="1").changed(
        {"build-env": (Variable(name="CXXFLAGS", value="-g1 -DA=b"),)}
    )
    return replace(
        resolved(row, locked(row)),
        pip=(
            Added(name="einops", version="0.8.2"),
            Added(name="pyyaml", version="6.0", modules=("yaml", "a.b")),
        ),
        apt=(Package(name="git", version="1:2.47.3-0+deb13u1~bpo"),),
        env=(Variable(name="HF_HOME", value="/data"), Variable(name="OURS", value="a b=%c")),
        files=tuple(folder(place, files) for place, files in PLACES.items()),
        ports=("8888/tcp", "53/udp"), entrypoint=("/opt/ours/start", "--quiet"), user="20001:100",
        wheels=Folder(source="dist", place="", files=(("ours-1.0+cu126-py3-none-any.whl", b"a wheel"),)),
    )  # fmt: skip


def labels(stack: Stack, **changed: Any) -> dict[str, str]:
    return {ROW: stack.id, STACK: json.dumps({**declared(stack), **changed}, sort_keys=True)}


def in_image(places: Mapping[str, Mapping[str, bytes]] = PLACES) -> dict[str, str]:
    found = {f"{place}/{name}": text for place, files in places.items() for name, text in files.items()}
    return {"/usr/bin/env": "ab" * 32, **{path: sha256(text).hexdigest() for path, text in found.items()}}


def test_all_that_a_row_adds_is_read_back() -> None:
    stack = full()
    read = labelled.stack_of(labels(stack), stack.lock, in_image())
    same = ("pip", "compiled", "build_env", "apt", "env", "ports", "entrypoint", "user")
    assert {name: getattr(read, name) for name in same} == {name: getattr(stack, name) for name in same}
    assert declared(read) == declared(stack)
    expected = [dict(file.expected()) for file in stack.files]
    assert [dict(file.expected()) for file in read.files] == expected


def test_a_layer_that_is_a_field_is_imported_as_ever() -> None:
    said = {**declared(rows.stack()), "mpi4py": "4.1.2"}
    said["compile"] = {"mpi4py": {"version": "4.1.2", "sha256": "ab" * 32, "environment": {}}}
    read = labelled.stack_of({ROW: said["id"], STACK: json.dumps(said)}, rows.LOCK)
    assert read.compiled[0].modules == ("mpi4py.MPI",)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"apt": {"git; id": "1"}}, "apt is 'git; id'"),
        ({"apt": {"git": "1 || id"}}, "apt is '1"),
        ({"apt": ["git"]}, "apt is no object"),
        ({"apt": {"libnccl2": "2.27"}}, "brings a second CUDA"),
        ({"env": {"A": "$(id)"}}, "env is "),
        ({"env": {"LD_PRELOAD": "/x.so"}}, "LD_PRELOAD puts other libraries"),
        ({"env": {"NCCL_DEBUG": "INFO"}}, "NCCL_DEBUG decides how ranks"),
        ({"build-env": {"CFLAGS": "-march=native"}}, "for which CPU"),
        ({"build-env": {"PATH": "/x"}}, "follows from the row"),
        ({"files": {"/etc": "ab" * 32}}, "files is '/etc'"),
        ({"files": {"/opt/stack/x": "ab" * 32}}, "files is '/opt/stack/x'"),
        ({"files": {"/opt/x": "ab"}}, "files is 'ab'"),
        ({"ports": ["22/sctp"]}, "ports is '22/sctp'"),
        ({"entrypoint": ["sh", "-c", "a; b"]}, "entrypoint is 'a; b'"),
        ({"user": "root"}, "user is 'root'"),
        ({"user": "0:0"}, "user is '0:0'"),
        ({"wheels": {"../x.whl": "ab" * 32}}, r"wheels is '\.\./x"),
        ({"import": {"pyyaml": ["a;b"]}}, "pyyaml is 'a;b'"),
        ({"import": {"other": ["a"]}}, "cannot read 'import'"),
        (
            {"compile": {"x": {"version": "1", "sha256": "ab" * 32, "environment": {"LD_PRELOAD": "x"}}}},
            "follows",
        ),
        ({"compile": {"x": {"version": "1", "sha256": "x", "environment": {}}}}, "compile is 'x'"),
    ],
)
def test_a_label_says_nothing_that_no_row_has(changed: dict[str, Any], says: str) -> None:
    """Everyone can write a label: an image of it would be judged by what it says."""
    with pytest.raises(ValueError, match=says):
        labelled.stack_of(labels(rows.stack(), **changed), rows.LOCK)


def test_a_rule_that_was_allowed_is_allowed_again() -> None:
    stack = replace(rows.stack(), allowed=("env-names",), env=(Variable(name="NCCL_DEBUG", value="INFO"),))
    assert labelled.stack_of(labels(stack), stack.lock).env == stack.env


@pytest.mark.parametrize(
    "there",
    [
        {"/opt/ours": {**CONTENT, "start": b"#!/bin/evil\n"}, "/opt/ours/inner": INNER},
        {"/opt/ours": {**CONTENT, "more": b""}, "/opt/ours/inner": INNER},
        {"/opt/ours/inner": INNER},
    ],
)
def test_a_folder_with_other_files_is_never_right(
    there: dict[str, dict[str, bytes]],
) -> None:
    stack = full()
    ours, inner = labelled.stack_of(labels(stack), stack.lock, in_image(there)).files
    assert ours.hashed() == () and ours.sha256 == stack.files[0].sha256
    assert dict(inner.expected()) == dict(stack.files[1].expected())
    planned = Planned(stack=replace(stack, files=(ours,)), recipe=Recipe(id="", key="", files=()))
    row = replace(row_of(planned, World.DOCKER), gcc=sample.ROW.gcc)
    problems = [problem for problem in account(sample.tree(), row).problems if problem.path == "/opt/ours"]
    assert [problem.what for problem in problems] == ["is missing, which a step puts there"]


def known(stack: Stack, root: Path, below: Tree | None, whole: Tree) -> parent.Parent:
    image = Labelled(
        image="x", id="sha256:1", world=World.SIF, row=stack.id, key="5e" * 32, labels=labels(stack)
    )
    project = Project(root=root, matrix=root / "matrix.yaml", out=root)
    inside = parent.Inside(below=lambda: below, whole=lambda: whole, own=lambda places: {})
    return parent.find(project, (), image, inside)


def test_the_files_of_the_parent_are_what_a_folder_is_compared_with(tmp_path: Path) -> None:
    """Below are the parent's layers; of a SIF there is one, and all of it is read."""
    stack = replace(rows.stack(), files=(folder("/opt/ours", INNER),))
    tree, other = sample.tree({"/opt/ours/a": sample.file("/opt/ours/a", b"a")}), sample.tree()
    for below, whole, right in ((tree, other, True), (None, tree, True), (None, other, False)):
        (copied,) = known(stack, tmp_path, below, whole).planned.stack.files
        assert (copied.hashed() != ()) == right


def test_what_needs_the_lock_is_not_run_without_it(tmp_path: Path) -> None:
    """Compared with no package, an extension would fit all of them."""
    row = compiling("fast-op>=1")
    found = known(resolved(row, locked(row)), tmp_path, None, sample.tree())
    assert found.not_judged["compiled.against"] == parent.WITHOUT_LOCK
